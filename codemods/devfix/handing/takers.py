"""Functions and classes of a file that take a device, and which of them a call runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import FunctionNode, function_around
from devfix.flow.frame import path_of
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Not `device_type`, `device_map`, `device_ids`, `offload_device`: these may well differ from the caller's.
DEVICE = re.compile(r"^_?(?:torch_|target_|output_|model_|input_)?(?:device|dev)$")


@dataclass(frozen=True, eq=False)
class Taker:
    """A function with a device among its parameters that a caller may leave out."""

    function: FunctionNode
    owner: ast.ClassDef | None
    parameter: str
    position: int  # among the arguments of a call; -1: by keyword only
    default: ast.expr

    @property
    def name(self) -> str:
        """What a reader calls it: the class whose object is made, or the function."""
        if self.owner is not None and self.function.name == "__init__":
            return self.owner.name
        return self.function.name

    def left_out(self, call: ast.Call) -> bool:
        """Does a call certainly not name the device?"""
        if any(keyword.arg in (None, self.parameter) for keyword in call.keywords):
            return False
        if self.position < 0:
            return True
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        return not starred and len(call.args) <= self.position

    def arguments(self, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
        """The arguments of a call, by the names of the parameters that they are for."""
        plain = [*self.function.args.posonlyargs, *self.function.args.args]
        skip = int(self.owner is not None and not _decorated(self.function, "staticmethod"))
        for argument, value in zip(plain[skip:], call.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            yield argument.arg, value
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield keyword.arg, keyword.value


class Takers:
    """Those of one file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.found: dict[ast.AST, Taker] = {}
        # What a call of one of the file's own may be called; `self.__class__` and `cls` besides.
        self.names = {node.name for node in source.definitions} | {"__class__", "cls"}
        self._named: dict[
            tuple[ast.AST, str], list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]
        ] = {}
        for node in source.definitions:
            scope = source.enclosing(node, *_FUNCTIONS, ast.ClassDef) or source.tree
            self._named.setdefault((scope, node.name), []).append(node)
            if isinstance(node, _FUNCTIONS):
                taker = _taker(node, scope if isinstance(scope, ast.ClassDef) else None)
                if taker is not None:
                    self.found[node] = taker

    def of(self, call: ast.Call) -> Taker | None:
        """The taker that a call runs; None where that is not certain."""
        function = self.function_of(call)
        return self.found.get(function) if function is not None else None

    def function_of(self, call: ast.Call) -> FunctionNode | None:
        """The function of this file that a call runs; `__init__` where it makes an object."""
        func, source = call.func, self._source
        owner = source.enclosing(call, ast.ClassDef)
        if isinstance(func, ast.Name):
            if func.id == "cls" and isinstance(owner, ast.ClassDef):
                return self.method(owner, "__init__")
            if func.id in source.imports:
                return None
            inside: ast.AST | None = function_around(source, call)
            while inside is not None:
                if (inside, func.id) in self._named:
                    return self._single(inside, func.id)
                inside = function_around(source, inside)
            return self._single(source.tree, func.id)
        if is_own_class(func) and isinstance(owner, ast.ClassDef):
            return self.method(owner, "__init__")
        if not isinstance(func, ast.Attribute):
            return None
        path = path_of(func.value)
        if path in ("self", "cls") and isinstance(owner, ast.ClassDef):
            return self.method(owner, func.attr)
        if isinstance(func.value, ast.Call) and path_of(func.value.func) == "super":
            return self._inherited(owner, func.attr, 0) if isinstance(owner, ast.ClassDef) else None
        classes = self._named.get((source.tree, path), ()) if path.isidentifier() else ()
        if len(classes) == 1 and isinstance(classes[0], ast.ClassDef):
            found = self.method(classes[0], func.attr)
            if found is not None and _decorated(found, "staticmethod", "classmethod"):
                return found
        return None

    def _single(self, scope: ast.AST, name: str) -> FunctionNode | None:
        found = self._named.get((scope, name), ())
        if len(found) != 1:
            return None
        one = found[0]
        return self.method(one, "__init__") if isinstance(one, ast.ClassDef) else one

    def method(self, owner: ast.ClassDef, name: str, depth: int = 0) -> FunctionNode | None:
        """A method of a class of the file, its own or one of its first bases."""
        found = self._named.get((owner, name), ())
        if found:
            one = found[0]
            return one if len(found) == 1 and not isinstance(one, ast.ClassDef) else None
        return self._inherited(owner, name, depth)

    def _inherited(self, owner: ast.ClassDef, name: str, depth: int) -> FunctionNode | None:
        if not owner.bases or depth > 5:
            return None
        classes = self._named.get((self._source.tree, path_of(owner.bases[0])), ())
        if len(classes) == 1 and isinstance(classes[0], ast.ClassDef):
            return self.method(classes[0], name, depth + 1)
        return None


def _taker(function: FunctionNode, owner: ast.ClassDef | None) -> Taker | None:
    """The taker that a function is: with one device, which has a default."""
    if _decorated(function, "property", "overload", "command", "main", "fixture"):
        return None
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    skip = int(owner is not None and not _decorated(function, "staticmethod"))
    found = []
    for argument, position, default in _defaults(plain, arguments):
        if DEVICE.match(argument.arg):
            found.append(Taker(function, owner, argument.arg, position - skip, default))
    return found[0] if len(found) == 1 else None


def _defaults(plain: list[ast.arg], arguments: ast.arguments) -> Iterator[tuple[ast.arg, int, ast.expr]]:
    first = len(plain) - len(arguments.defaults)
    for position, default in enumerate(arguments.defaults, first):
        yield plain[position], position, default
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            yield argument, -100, value


def _decorated(function: FunctionNode, *names: str) -> bool:
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if path_of(target).rpartition(".")[2] in names:
            return True
    return False


def is_own_class(func: ast.expr) -> bool:
    """`self.__class__`, `type(self)`"""
    if isinstance(func, ast.Attribute):
        return func.attr == "__class__" and path_of(func.value) == "self"
    return (
        isinstance(func, ast.Call)
        and path_of(func.func) == "type"
        and len(func.args) == 1
        and path_of(func.args[0]) == "self"
    )
