"""Follows the tensors of one function from where they are made to where they meet others.

Statement by statement, branches joined: a tensor that may be on the default device, and meets one
that is where a parameter is, is a meeting on that path. A loop body runs once.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cached_property
from typing import Any

from devfix.factories.branches import Branches
from devfix.factories.helpers import enter
from devfix.factories.meetings import Facts, Meeting, Passed
from devfix.factories.named import Names
from devfix.factories.owners import Owner
from devfix.factories.placeholders import replaced
from devfix.factories.returns import returned
from devfix.factories.scopes import Scopes
from devfix.factories.uses import TENSOR_TYPE
from devfix.factories.values import HERE, OTHER, UNKNOWN, Anchor, Fact, Form, Origin, element, listed
from devfix.flow.evidence import annotation_text
from devfix.flow.frame import path_of
from devfix.source import children, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAPPED = frozenset({"vmap", "compile", "checkpoint"})
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Follow(Branches):
    """One function, or the module body; nested functions start from the names around them."""

    def __init__(self, scopes: Scopes, scope: ast.AST, names: dict[str, Fact], owner: Owner | None) -> None:
        self.scopes = scopes
        self.source = scopes.source
        self.scope = scope
        self.owner = owner = None if _static(scope) else owner
        self.names = Names(names)
        self.meetings: list[Meeting] = []
        self.links: list[frozenset[Origin]] = []
        self.hosted: set[Origin] = set()
        self.settled: set[Origin] = set()
        self.kept: list[tuple[Origin, Anchor, ast.expr, str]] = []
        self.doubted: set[Origin] = set()
        self.cpu: set[str] = set()
        self.held: dict[str, str] = {}
        self.local: dict[str, ast.FunctionDef] = {}
        self.default = True
        self.dead = False
        self.returns: list[tuple[ast.Return, Fact]] = []
        self.uses = scopes.uses(scope)
        self.module = owner is not None and owner.module and not scopes.host(scope)
        self._origins: dict[ast.Call, Origin] = {}
        self.terms: dict[str, Anchor] | None = None  # of a function that is called: devices of the caller
        self.nested: list[tuple[ast.AST, dict[str, Fact]]] = []
        self.passed: list[Passed] = []  # what functions of the file are given
        self.depth = 0
        self.looping = 0
        self.left: list[Names] = []
        self.arms: dict[str, tuple[Names, Names, Names]] = {}

    def run(self) -> None:
        assert isinstance(self.scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))
        self.block(self.scope.body)
        given = returned(self.source, self.returns)
        self.meetings += (meeting for meeting in given if not meeting.origins <= self.settled)
        for origin, anchor, node, how in self.kept:
            if origin not in self.settled:
                what = self.source.code(node)
                self.meetings.append(Meeting(frozenset({origin}), node, anchor, what, how, certain=False))

    def gives(self) -> str:
        """The name of a function, if what it makes comes out of it, returned or in `self`."""
        if not isinstance(self.scope, _FUNCTIONS) or self.scope.name == "__init__":
            return ""
        facts = [fact for _, fact in self.returns]
        facts += [self.names[name] for name in self.names.below("self")]
        given = any(item.stray for fact in facts for item in (fact.items or (fact,)))
        return self.scope.name if given else ""

    def origin(
        self, node: ast.Call, name: str, names: dict[str, Fact], inner: tuple[Origin, ...] = ()
    ) -> Origin:
        found = self._origins.get(node)
        if found is None:
            found = self._origins[node] = Origin(node, name, names, inner, self.terms)
        return found

    def inside(self, node: ast.Call, path: str, facts: Facts) -> Fact | None:
        return enter(self, node, path, facts)

    # --- statements ----------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.dead:
                return
            getattr(self, f"_{type(statement).__name__.lower()}", self._other)(statement)

    def _other(self, node: ast.stmt) -> None:
        for child in children(node):
            if isinstance(child, ast.expr):
                self.ev(child)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, field, None), list):
                self.block(getattr(node, field))
        self.dead = self.dead or isinstance(node, _ENDS)

    def _functiondef(self, node: ast.FunctionDef) -> None:
        self.nested.append((node, self.names.copy()))
        self.names[node.name] = OTHER
        self.local[node.name] = node

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> None:
        self.names.pop(node.name, None)

    def _assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        if value.form is Form.MAYBE and value.anchor is None and isinstance(node.value, ast.BinOp):
            if not all(self.uses.once(path_of(target)) or _sums_up(node, target) for target in node.targets):
                value = UNKNOWN  # numbers, perhaps: what its name stands for below may be another thing
        for target in node.targets:
            self.assign(target, value)
            self.hold(target, node.value)
            self._name(target, node.value)

    def _name(self, target: ast.expr, value: ast.expr) -> None:
        """Another name for a function inside this one: `batched = torch.vmap(one)`."""
        while (
            isinstance(value, ast.Call) and value.args and path_of(value.func).rpartition(".")[2] in _MAPPED
        ):
            value = value.args[0]
        found = self.local.get(path_of(value))
        if isinstance(target, ast.Name):
            self.local.pop(target.id, None)
            if found is not None:
                self.local[target.id] = found

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        value, path = self.ev(node.value), path_of(node.target)
        if value.form is Form.MAYBE and TENSOR_TYPE.search(annotation_text(node.annotation)):
            value = Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
        self.assign(node.target, value)

    def _augassign(self, node: ast.AugAssign) -> None:
        right, left = self.ev(node.value), self.ev(node.target)
        if left.form is Form.LIST:
            self.assign(node.target, listed((*left.items, *right.items)))
            return
        sums = left.stray and isinstance(node.op, ast.Add) and not isinstance(node.target, ast.Subscript)
        if sums and right.form in (Form.UNKNOWN, Form.MAYBE) and right != HERE:
            if right.anchor is not None:
                right = Fact(Form.TENSOR, anchor=replace(right.anchor, sure=False))
        if left.form is Form.TENSOR and left.stray and right.placed:
            self.meet(node.value, left, node.value, right, "is added to in place by")
            self.assign(node.target, Fact(Form.TENSOR, anchor=right.anchor, flat=left.flat))
        elif left.form is Form.TENSOR or right.form is Form.TENSOR:
            result = self.combine(node.value, [(node.target, left), (node.value, right)])
            if not isinstance(node.target, ast.Subscript):
                self.assign(node.target, result)

    def assign(self, target: ast.expr, value: Fact) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, UNKNOWN)
        elif isinstance(target, ast.Subscript):
            self._store(target, value)
        else:
            path = path_of(target)
            if not path:
                return
            for key in self.names.below(path):
                del self.names[key]
            own = value.anchor is not None and value.anchor.root == path
            if value.placed and value.anchor is not None and "[" in value.anchor.text and "." not in path:
                value = replace(value, anchor=Anchor(f"{path}.device"))  # an element has a name now
            elif value.form is Form.MAYBE and self.uses.tensor(path) and not self.uses.fed_only(path):
                anchor = value.anchor if value.anchor is not None and not own else Anchor(f"{path}.device")
                value = Fact(Form.TENSOR, anchor=replace(anchor, sure=False))
            elif value.form is Form.MAYBE and own:
                value = UNKNOWN  # `x = f(x)`: what is written as `x.device` is another thing now
            elif value == UNKNOWN and self.depth == 0 and self.uses.surely(path) and self.uses.once(path):
                weak = not self.module
                if not weak or isinstance(self.scope, _FUNCTIONS):
                    value = Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False, weak))
            if value.form in (Form.UNKNOWN, Form.MAYBE) and path == "device":
                value = Fact(Form.DEVICE, anchor=Anchor(path))
            stray = value.form is Form.LIST and any(item.stray for item in value.items)
            if stray and path in self._placeholders:
                value = listed(tuple(item for item in value.items if not item.stray))
            self.names[path] = value
            if path.startswith("self.") and self.module and value.flat is False:
                self._keep(value)

    @cached_property
    def _placeholders(self) -> frozenset[str]:
        return replaced(self.source, self.scope)

    def _keep(self, value: Fact) -> None:
        """State of a module that has its size from a tensor."""
        for origin in value.origins:
            for node in walk(origin.call):
                if not isinstance(node, ast.Name):
                    continue
                fact = origin.names.get(node.id)
                if fact is not None and fact.anchor is not None and not fact.anchor.weak:
                    self.kept.append((origin, fact.anchor, node, "is kept, with the size of"))
                    break

    def _unpack(self, targets: list[ast.expr], value: Fact) -> None:
        starred = any(isinstance(target, ast.Starred) for target in targets)
        for index, target in enumerate(targets):
            if value.form is Form.LIST and len(value.items) == len(targets) and not starred:
                self.assign(target, value.items[index])
            elif value.form is Form.OTHER:
                self.assign(target, value)
            else:
                self.assign(target, replace(element(value), basic=False))

    def _store(self, target: ast.Subscript, value: Fact) -> None:
        base = self.ev(target.value)
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        indices = [self.ev(part) for part in parts]
        path = path_of(target.value)
        if base.form is Form.LIST:
            if path and value not in base.items:
                self.names[path] = listed((*base.items, value))
            return
        if base.form is not Form.TENSOR:
            return
        indexed = any(i.form is Form.TENSOR and not i.basic and i.flat is not True for i in indices)
        indexed = indexed or any(isinstance(part, (ast.List, ast.ListComp)) for part in parts)
        # `m[cuda_index] = 1` runs: index_put_ brings the indices to where `m` is.
        if base.stray and value.form is Form.MAYBE and value.anchor is not None:
            self._fill(target.value, base, value)
        elif base.stray and value.placed:
            if indexed and value.flat is not True:
                self.meet(target, base, target, value, "is written to by")
            elif not indexed:
                self._fill(target.value, base, value)
        elif base.placed and value.stray and indexed and value.flat is False:
            self.meet(target, value, target.value, base, "is written into")
        elif base.placed:
            self.settled |= value.origins  # copied
        elif base.stray and value.stray and base.anchor is not None and value.anchor is None:
            if path and indexed and value.flat is False and not value.origins & base.origins:
                where = Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
                self.meet(target, value, target.value, where, "is written into")
        elif base.stray and value.stray:
            self.links.append(base.origins | value.origins)

    def _with(self, node: ast.With) -> None:
        default = self.default
        for item in node.items:
            value = self.ev(item.context_expr)
            if "device" in self.source.code(item.context_expr):
                self.default = False
            if item.optional_vars is not None:
                self.assign(item.optional_vars, replace(value, form=Form.UNKNOWN))
        self.block(node.body)
        self.default = default

    _asyncwith = _with

    def _try(self, node: Any) -> None:
        start = self.names.copy()
        self.block([*node.body, *node.orelse])
        end, dead = self.names, self.dead
        for handler in node.handlers:
            self.names, self.dead = self._joined(start.copy(), end), False
            self.block(handler.body)
            if not self.dead:
                end = self.names if dead else self._joined(end, self.names)
                dead = False
        self.names, self.dead = end, False
        self.block(node.finalbody)
        self.dead = self.dead or dead

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        self.ev(node.subject)
        start, ends = self.names, [self.names]
        for case in node.cases:
            self.names, self.dead = start.copy(), False
            self.block(case.body)
            if not self.dead:
                ends.append(self.names)
        self.names, self.dead = ends[0], False
        for end in ends[1:]:
            self.names = self._joined(self.names, end)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returns.append((node, self.ev(node.value)))
        self.dead = True


def _static(scope: ast.AST) -> bool:
    """Is it a function that is only kept in a class, and has no `self`?"""
    return any(
        path_of(one) in ("staticmethod", "classmethod") for one in getattr(scope, "decorator_list", ())
    )


def _sums_up(node: ast.Assign, target: ast.expr) -> bool:
    """`total = total + x`."""
    value = node.value
    return isinstance(value, ast.BinOp) and path_of(target) in (path_of(value.left), path_of(value.right))
