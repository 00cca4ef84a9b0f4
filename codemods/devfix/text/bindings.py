"""Every place that gives a name its value, looked up by scope; the order of execution plays no part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from devfix.text.names import path_of
from devfix.text.source import FUNCTIONS, FunctionNode, Source, remembered

_BINDERS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem)


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its value; `value` is None where that is out of sight."""

    node: ast.AST
    value: ast.expr | None
    parameter: bool = False


def bound(source: Source, path: str, at: ast.AST) -> list[Binding]:
    """The places that give a path its value as it is read at a node: in the nearest scope that has any."""
    every = _bindings(source)
    if path.startswith("self."):
        owner = source.enclosing(at, ast.ClassDef) or at
        return [*every.get((owner, path), ()), *every.get((owner, path[5:]), ())]
    scope: ast.AST | None = function_around(source, at)
    while scope is not None and (scope, path) not in every:
        scope = function_around(source, scope)
    return every.get((scope or source.tree, path), [])


@remembered
def _bindings(source: Source) -> dict[tuple[ast.AST, str], list[Binding]]:
    """Every binding of every name and `self.x` of a file, by the scope that it stands in."""
    found: dict[tuple[ast.AST, str], list[Binding]] = {}
    for node in source.walk():
        for target, value in _targets(node) if isinstance(node, _BINDERS) else ():
            path = path_of(target)
            owner = source.enclosing(node, ast.ClassDef) if path.startswith("self.") else None
            scope = owner or source.enclosing(node, *FUNCTIONS, ast.ClassDef) or source.tree
            if path:
                found.setdefault((scope, path), []).append(Binding(node, value))
        if isinstance(node, FUNCTIONS):
            arguments = node.args
            plain = [*arguments.posonlyargs, *arguments.args]
            defaults = [
                *[None] * (len(plain) - len(arguments.defaults)),
                *arguments.defaults,
                *arguments.kw_defaults,
            ]
            extra = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
            for one, default in zip_longest([*plain, *arguments.kwonlyargs, *extra], defaults):
                found.setdefault((node, one.arg), []).insert(0, Binding(one, default, True))
    return found


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
        if isinstance(up, FUNCTIONS) and isinstance(node, ast.stmt):
            return up
        node = up


@remembered
def set_to_none(source: Source) -> frozenset[str]:
    """Names of attributes that something in the file sets to None."""
    every: tuple[ast.Assign | ast.AnnAssign, ...] = (
        *source.of_kind(ast.Assign),
        *source.of_kind(ast.AnnAssign),
    )
    return frozenset(
        target.attr if isinstance(target, ast.Attribute) else target.id
        for one in every
        if isinstance(one.value, ast.Constant) and one.value.value is None
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Attribute)
        or (
            isinstance(target, ast.Name)
            and isinstance(source.enclosing(one, *FUNCTIONS, ast.ClassDef), ast.ClassDef)
        )
    )
