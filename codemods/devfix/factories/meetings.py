"""Tensors that come together in one operation."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

from devfix.factories.named import Names
from devfix.factories.operations import is_operation, names_device, torch_name
from devfix.factories.owners import Owner
from devfix.factories.scopes import Scopes
from devfix.factories.uses import Uses
from devfix.factories.values import UNKNOWN, Anchor, Fact, Form, Origin
from devfix.flow.frame import path_of
from devfix.source import Source, walk

# Of a call: each argument with its value and its keyword, "" where it is positional.
Facts = list[tuple[ast.expr, Fact, str]]


@dataclass(frozen=True)
class Meeting:
    """A tensor of the default device comes together with one of another device."""

    origins: frozenset[Origin]
    node: ast.expr  # the operation
    anchor: Anchor  # where the other one is
    other: str  # how the other one is written
    how: str = "is combined with"
    certain: bool = True
    at: ast.expr | None = None  # how the new tensor is written there


@dataclass(frozen=True)
class Passed:
    """A call of a function of the file: what its parameters are given, and how that is written."""

    callee: ast.AST
    given: dict[str, Fact]
    written: dict[str, str]
    node: ast.Call


def _origins(facts: Iterable[Fact]) -> frozenset[Origin]:
    return frozenset[Origin]().union(*(fact.origins for fact in facts))


class Meetings(ABC):
    """What all parts share: the names of one scope, and `meetings`, what is found."""

    source: Source
    scopes: Scopes
    scope: ast.AST
    owner: Owner | None
    names: Names
    uses: Uses
    module: bool  # a method of a module, at work: what it has is on its device
    meetings: list[Meeting]
    links: list[frozenset[Origin]]  # tensors that must stay together
    settled: set[Origin]  # moved somewhere, or where the CPU is right
    kept: list[tuple[Origin, Anchor, ast.expr, str]]  # follow a tensor in their type or size, and are kept
    hosted: set[Origin]  # used by the host: numpy and its like
    doubted: set[Origin]  # made by an old constructor from what may be a tensor, which it then refuses
    cpu: set[str]  # device expressions that are the CPU's: numpy takes what is there
    default: bool  # is the default device where torch makes things?

    @abstractmethod
    def ev(self, node: ast.expr) -> Fact:
        """The value of an expression."""

    @abstractmethod
    def origin(
        self, node: ast.Call, name: str, names: dict[str, Fact], inner: tuple[Origin, ...] = ()
    ) -> Origin:
        """The one origin that stands for a call."""

    @abstractmethod
    def inside(self, node: ast.Call, path: str, facts: Facts) -> Fact | None:
        """Follow a call into a function of this file; None where there is none."""

    def tensor(self, node: ast.expr, fact: Fact) -> Fact:
        """A value where only a tensor can stand: what may be one is one."""
        if fact.form is not Form.MAYBE:
            return fact
        path = path_of(node)
        anchor = fact.anchor or (Anchor(f"{path}.device") if path else None)
        return Fact(Form.TENSOR, anchor=replace(anchor, sure=False)) if anchor is not None else fact

    def combine(
        self,
        node: ast.expr,
        operands: Iterable[tuple[ast.expr, Fact]],
        strict: bool = False,
        how: str = "is combined with",
        certain: bool = True,
    ) -> Fact:
        """Tensors that must be in one place; the result is there, too."""
        tensors = [(n, f) for n, f in operands if f.form is Form.TENSOR]
        placed = next(((n, f) for n, f in tensors if f.placed), None)
        strays = [f for _, f in tensors if f.stray]
        if placed is not None and placed[1].anchor is not None:
            for at, stray in tensors:
                if stray.stray and (strict or stray.flat is False):
                    self.meet(node, stray, placed[0], placed[1], how, certain, at)
            flats = {f.flat for _, f in tensors}
            flat = True if flats == {True} else False if False in flats else None
            return Fact(
                Form.TENSOR, anchor=placed[1].anchor, flat=flat, basic=all(f.basic for _, f in tensors)
            )
        if strays and (either := self._either(node, tensors, strict)) is not None:
            return either
        if strays:
            if len(strays) > 1:
                self.links.append(_origins(strays))
            origins = _origins(f for f in strays if strict or f.flat is False or f.flat)
            flats = {f.flat for f in strays}
            flat = (
                False if False in flats else True if flats == {True} and len(tensors) == len(strays) else None
            )
            big = _origins(f for f in strays if f.flat is False)
            filled = next((f.filled for f in strays if f.filled), None)
            return Fact(Form.TENSOR, big or origins or strays[0].origins, flat=flat, filled=filled)
        return Fact(Form.TENSOR) if tensors else UNKNOWN

    def _either(self, node: ast.expr, tensors: list[tuple[ast.expr, Fact]], strict: bool) -> Fact | None:
        """New tensors with one that was given, or made here where it was not: `if x is None: x = zeros(3)`.

        `x.device` is right for both.
        """
        for one, fact in tensors:
            if not fact.stray or fact.anchor is None or not (path := path_of(one)):
                continue
            if fact.anchor.root != path:
                continue  # `t = arange(1) if given is None else given[0]`: mostly nothing is given
            new = [f for _, f in tensors if f.stray and f.anchor is None and not f.origins & fact.origins]
            where = Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
            for stray in new:
                if strict or stray.flat is False:
                    self.meet(node, stray, one, where)
            return replace(fact, flat=False if fact.flat is False else None) if new else None
        return None

    def meet(
        self,
        node: ast.expr,
        stray: Fact,
        other: ast.expr,
        placed: Fact,
        how: str = "is combined with",
        certain: bool = True,
        at: ast.expr | None = None,
    ) -> None:
        if placed.anchor is not None and not self.moved_then(node):
            certain = certain and not self.moved_then(node, named=True)
            self.meetings.append(
                Meeting(stray.origins, node, placed.anchor, self.source.code(other), how, certain, at)
            )

    def moved_then(self, node: ast.expr, named: bool = False) -> bool:
        """`torch.cat((new, x)).to(device)`, `torch.abs(new - x).to(device)`: then x is on the CPU as well.

        If `named`, also where the result has a name, and the next that is done with that is to move it.
        """
        up: ast.AST | None = node
        while isinstance(up, ast.expr):
            inner, up = up, self.source.parents.get(up)
            if isinstance(up, ast.Attribute):
                call = self.source.parents.get(up)
                if not isinstance(call, ast.Call) or call.func is not up:
                    return False
                if self._moves(call, up.attr):
                    return True
                up = call
            elif isinstance(up, ast.Call):
                name = torch_name(self.source.qualified(up.func))
                if inner is up.func or not (is_operation(name) or name == "torch.autograd.Variable"):
                    return False
            elif not isinstance(up, (ast.BinOp, ast.UnaryOp, ast.Subscript)):
                break
        return named and isinstance(up, ast.Assign) and self._moved_below(up)

    def _moves(self, call: ast.Call, method: str) -> bool:
        """Is a method of a tensor one that moves it to a device?"""
        if method != "to" or not call.args or isinstance(call.args[0], ast.Constant):
            return method == "cuda"
        return names_device(self.source.code(call.args[0])) or self.ev(call.args[0]).form is Form.DEVICE

    def _moved_below(self, statement: ast.Assign) -> bool:
        target = statement.targets[0]
        block = self.source.block(statement)
        if not isinstance(target, ast.Name):
            return False
        for later in block[block.index(statement) + 1 :]:
            found = [n for n in walk(later) if isinstance(n, ast.Name) and n.id == target.id]
            reads = [name for name in found if isinstance(name.ctx, ast.Load)]
            if found:
                return bool(reads) and all(self._moved_at(read) for read in reads)
        return False

    def _moved_at(self, read: ast.Name) -> bool:
        up = self.source.parents.get(read)
        call = self.source.parents.get(up) if isinstance(up, ast.Attribute) else None
        if not isinstance(up, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not up:
            return False
        return self._moves(call, up.attr)

    def on_host(self, value: Fact) -> None:
        """numpy takes it as it is, so it is on the CPU, and what it was made from."""
        if value.placed and value.anchor is not None:
            self.cpu.add(value.anchor.text)
