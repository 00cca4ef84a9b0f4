"""Does running a module read something of it that must be where the input is, and only `to` moves?"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from devfix.recipes.constants import UNKNOWN, truth
from devfix.recipes.library import Class, Library
from devfix.recipes.making import DEEPEST, Made
from devfix.source import children, walk

# What may be asked of a tensor wherever it is.
_HARMLESS = frozenset(
    {
        "to",
        "cuda",
        "cpu",
        "device",
        "dtype",
        "shape",
        "size",
        "dim",
        "ndim",
        "item",
        "tolist",
        "numel",
        "type_as",
    }
)


def reads_raw(library: Library, made: Made, method: str = "forward") -> bool:
    """Does a method of an instance read one of its buffers as it is, without moving it to its input?

    What its own `to` moves counts as a buffer. Parts that the method runs are looked at, too.
    """
    return _Running(library, made).method(method)


class _Running:
    def __init__(self, library: Library, made: Made, depth: int = 0) -> None:
        self.library, self.made, self.depth = library, made, depth
        self.held = made.buffers | _moved_by_hand(library, made.cls)
        self.seen: set[ast.FunctionDef] = set()
        self.moved: set[str] = set()

    def method(self, name: str, owner: tuple[Class, ast.FunctionDef] | None = None) -> bool:
        found = owner or self.library.method(self.made.cls, name)
        if found is None or found[1] in self.seen or self.depth > DEEPEST:
            return False
        node = found[1]
        self.seen.add(node)
        # What a method assigns itself, it moves there, or it follows the input.
        self.moved |= {
            target.attr
            for item in walk(node)
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Attribute) and _is_self(target)
        }
        return self._block(node.body)

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
            if isinstance(base, ast.Attribute) and _is_self(base) and node.attr in _HARMLESS:
                return False
            if _is_self(node) and isinstance(node.ctx, ast.Load) and node.attr in self.held - self.moved:
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if self._calls(node.func):
                return True
        return True in [self._reads(child) for child in children(node)]

    def _calls(self, function: ast.Attribute) -> bool:
        """A part that is run, or a method of its own."""
        if _is_self(function):
            part = self.made.parts.get(function.attr)
            if part is not None:
                return _Running(self.library, part, self.depth + 1).method("forward")
            return self.method(function.attr)
        base = function.value
        if isinstance(base, ast.Attribute) and _is_self(base) and base.attr in self.made.parts:
            if function.attr not in _HARMLESS:
                return _Running(self.library, self.made.parts[base.attr], self.depth + 1).method(
                    function.attr
                )
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super":
            for owner in self.library.order(self.made.cls)[0][1:]:
                if function.attr in owner.methods:
                    return self.method(function.attr, (owner, owner.methods[function.attr]))
        return False

    def _lookup(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute) and _is_self(node):
            return self.made.constants.get(node.attr, UNKNOWN)
        return UNKNOWN


def _moved_by_hand(library: Library, cls: Class) -> set[str]:
    """The attributes that a `to` of its own moves along with the parameters and buffers."""
    found = library.method(cls, "to")
    if found is None:
        return set()
    return {
        target.attr
        for node in walk(found[1])
        if isinstance(node, ast.Assign) and _moves(node.value)
        for target in node.targets
        if isinstance(target, ast.Attribute) and _is_self(target)
    }


def _moves(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda")
        and isinstance(node.func.value, ast.Attribute)
        and _is_self(node.func.value)
    )


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
