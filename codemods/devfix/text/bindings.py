"""Every place that gives a name its value, looked up by scope; the order of execution plays no part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.text.names import path_of
from devfix.text.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its value; `value` is None where that is out of sight."""

    node: ast.AST
    value: ast.expr | None
    parameter: bool = False


_BINDERS = frozenset(
    {
        ast.Assign,
        ast.AnnAssign,
        ast.NamedExpr,
        ast.For,
        ast.AsyncFor,
        ast.comprehension,
        ast.withitem,
        *_FUNCTIONS,
    }
)


class Bindings:
    """Every binding of every name and `self.x` of a file, by the scope that it stands in."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: dict[tuple[ast.AST, str], list[Binding]] = {}
        for node in source.walk():
            if node.__class__ not in _BINDERS:
                continue
            for target, value in _targets(node):
                path = path_of(target)
                if path:
                    self._found.setdefault((self._scope(node, path), path), []).append(Binding(node, value))
            if isinstance(node, _FUNCTIONS):
                self._parameters(node)

    def _scope(self, node: ast.AST, path: str) -> ast.AST:
        if path.startswith("self."):
            owner = self.source.enclosing(node, ast.ClassDef)
            if owner is not None:
                return owner
        return self.source.enclosing(node, *_FUNCTIONS, ast.ClassDef) or self.source.tree

    def _parameters(self, node: FunctionNode) -> None:
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
        pairs = [*zip(plain, defaults + list(arguments.defaults), strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in pairs:
            self._found.setdefault((node, argument.arg), []).insert(0, Binding(argument, default, True))
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self._found.setdefault((node, extra.arg), []).insert(0, Binding(extra, None, True))

    def of(self, path: str, at: ast.AST) -> list[Binding]:
        """The bindings of a path as it is read at a node; nearest scope that has any."""
        if path.startswith("self."):
            owner = self.source.enclosing(at, ast.ClassDef)
            return self.of_class(owner, path) if isinstance(owner, ast.ClassDef) else []
        scope = function_around(self.source, at)
        while scope is not None:
            found = self._found.get((scope, path))
            if found:
                return found
            scope = function_around(self.source, scope)
        return self._found.get((self.source.tree, path), [])

    def of_class(self, owner: ast.ClassDef, path: str) -> list[Binding]:
        name = path.partition(".")[2]
        return [*self._found.get((owner, path), ()), *self._found.get((owner, name), ())]

    def within(self, scope: ast.AST, path: str) -> list[Binding]:
        """The bindings of a path in exactly this function, class or module."""
        return self._found.get((scope, path), [])


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets that a node binds, each with its value where that can be told."""
    todo: list[tuple[ast.expr, ast.expr | None]] = []
    if isinstance(node, ast.Assign):
        todo = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            todo = [(node.target, node.value)]
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        todo = [(node.target, None)]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        todo = [(node.optional_vars, None)]
    while todo:
        target, value = todo.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = list(value.elts)
            todo.extend(zip(target.elts, values, strict=True))
        elif isinstance(target, ast.Starred):
            todo.append((target.value, None))
        else:
            yield target, value


def function_around(source: Source, node: ast.AST) -> FunctionNode | None:
    """The function in whose body a node is evaluated; decorators and defaults are outside of theirs."""
    while True:
        up = source.parents.get(node)
        if up is None:
            return None
        if isinstance(up, _FUNCTIONS) and isinstance(node, ast.stmt):
            return up
        node = up
