"""Does running a module read something of it that must be where the input is, and only `to` moves?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from devfix.engine.files import Class, Function
from devfix.recipes.constants import UNKNOWN, truth
from devfix.recipes.making import DEEPEST, Made
from devfix.text.names import of_self
from devfix.text.source import children

# What may be asked of a tensor wherever it is.
_HARMLESS = frozenset(
    {
        "to", "cuda", "cpu", "device", "dtype", "shape", "size", "dim", "ndim", "item", "tolist", "numel", "type_as",
    }
)  # fmt: skip


def reads_raw(made: Made) -> bool:
    """Does running an instance read one of its buffers as it is, without moving it to its input?

    What its own `to` moves counts as a buffer. Parts that the method runs are looked at, too.
    """
    if made.raw is None:
        made.raw = _Running(made).method("forward")
    return made.raw


class _Running:
    def __init__(self, made: Made, depth: int = 0) -> None:
        self.made, self.depth = made, depth
        self.held = made.buffers | _moved_by_hand(made.cls)
        self.seen: set[Function] = set()
        self.moved: set[str] = set()

    def method(self, name: str, found: Function | None = None) -> bool:
        found = found or self.made.cls.method(name)
        if found is None or found in self.seen or self.depth > DEEPEST:
            return False
        self.seen.add(found)
        # What a method assigns itself, it moves there, or it follows the input.
        self.moved |= _assigned(found)
        return self._block(found.node.body)

    def _block(self, body: Iterable[ast.stmt]) -> bool:
        return True in [self._statement(statement) for statement in body]

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            holds = truth(node.test, self._lookup)
            if holds is not None:
                return self._block(node.body if holds else node.orelse)
            return self._reads(node.test) | self._block(node.body) | self._block(node.orelse)
        found = False
        for child in children(node):
            if isinstance(child, ast.stmt):
                found |= self._statement(child)
            elif isinstance(child, ast.ExceptHandler):
                found |= self._block(child.body)
            else:
                found |= self._reads(child)
        return found

    def _reads(self, node: ast.AST) -> bool:
        if isinstance(node, ast.IfExp):
            holds = truth(node.test, self._lookup)
            if holds is not None:
                return self._reads(node.body if holds else node.orelse)
        if isinstance(node, ast.Attribute):
            base = node.value
            if of_self(base) and node.attr in _HARMLESS:
                return False
            if of_self(node) in self.held - self.moved and isinstance(node.ctx, ast.Load):
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if self._calls(node.func):
                return True
        return True in [self._reads(child) for child in children(node)]

    def _calls(self, function: ast.Attribute) -> bool:
        """A part that is run, or a method of its own."""
        if of_self(function):
            part = self.made.parts.get(function.attr)
            if part is not None:
                return _Running(part, self.depth + 1).method("forward")
            return self.method(function.attr)
        base = function.value
        part = self.made.parts.get(of_self(base))
        if part is not None and function.attr not in _HARMLESS:
            return _Running(part, self.depth + 1).method(function.attr)
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super":
            for owner in self.made.cls.lineage[1:]:
                if function.attr in owner.methods:
                    return self.method(function.attr, owner.methods[function.attr])
        return False

    def _lookup(self, node: ast.expr) -> Any:
        return self.made.constants.get(of_self(node), UNKNOWN)


def _moved_by_hand(cls: Class) -> set[str]:
    """The attributes that a `to` of its own moves along with the parameters and buffers."""
    found = cls.method("to")
    return _assigned(found, _moves) if found is not None else set()


def _assigned(method: Function, fits: Callable[[ast.expr], bool] = lambda value: True) -> set[str]:
    """The attributes of self that a method assigns such values to."""
    assigns = [node for node in method.nodes if isinstance(node, ast.Assign) and fits(node.value)]
    return {of_self(target) for node in assigns for target in node.targets} - {""}


def _moves(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda")
        and of_self(node.func.value) != ""
    )
