"""The functions of a file that its calls run, and what calls and strings say by themselves."""

from __future__ import annotations

import ast
from functools import cached_property

from devfix.flow import Flow
from devfix.text.bindings import Bindings, FunctionNode, function_around
from devfix.text.names import path_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Callees:
    """The functions of one file that calls run."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.bindings = flow.once(Bindings)

    @cached_property
    def _functions(self) -> dict[tuple[ast.AST, str], FunctionNode | ast.ClassDef]:
        found: dict[tuple[ast.AST, str], FunctionNode | ast.ClassDef] = {}
        for node in self.source.walk():
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                scope = self.source.enclosing(node, *_FUNCTIONS, ast.ClassDef) or self.source.tree
                found[scope, node.name] = node
        return found

    def function_of(self, call: ast.Call) -> FunctionNode | None:
        """The function or method of this file that a call runs; `__init__` where it makes an object."""
        path = path_of(call.func)
        if path.startswith("self.") and path.count(".") == 1:
            scope = self.source.enclosing(call, ast.ClassDef)
            found = self._functions.get((scope, path[5:])) if scope is not None else None
        elif path.isidentifier() and path not in self.source.imports:
            inside = function_around(self.source, call)
            found = None
            while inside is not None and found is None:
                found = self._functions.get((inside, path))
                inside = function_around(self.source, inside)
            found = found or self._functions.get((self.source.tree, path))
        else:
            return None
        if isinstance(found, ast.ClassDef):
            found = self._functions.get((found, "__init__"))
        return found if isinstance(found, _FUNCTIONS) else None


def leading_text(node: ast.expr) -> str:
    """What a string certainly begins with: "cuda:" of `f"cuda:{i}"`, `"cuda:%d" % i`, `"cuda:" + str(i)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        node = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    elif isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def argument_of(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The argument of a call by keyword or position; None where it has none or has a `*` before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if 0 <= position < len(call.args):
        if not any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
            return call.args[position]
    return None
