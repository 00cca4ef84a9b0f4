"""What a file, or a function, runs before it binds a name that functions within it use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.text.source import FUNCTIONS, Source, children, remembered

_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__")  # what a call of a class runs
_Position = tuple[int, int]


def called_before(source: Source, name: str, at: ast.AST) -> bool:
    """May the function around a node be running before a scope further out has bound a name?

    By names: what is called there, and what that mentions, in turn.
    """
    inner = scope = source.enclosing(at, *FUNCTIONS, ast.Module)
    while scope is not None and not isinstance(scope, ast.Module):
        scope = source.enclosing(scope, *FUNCTIONS, ast.Module) or source.tree
        first = _stored(source, scope).get(name)
        if first is not None:
            called = frozenset(called for call, called in _calls(source, scope) if call < first)
            return bool(called) and not _names_of(source, inner).isdisjoint(_reached(source, called))
    return False


def _names_of(source: Source, function: ast.AST | None) -> set[str]:
    """The names by which a function may be called: those of the functions and, for a constructor, of its class."""
    found: set[str] = set()
    while isinstance(function, FUNCTIONS):
        owner = source.parents.get(function)
        found.add(
            owner.name if isinstance(owner, ast.ClassDef) and function.name in _MAKING else function.name
        )
        function = source.enclosing(function, *FUNCTIONS)
    return found


@remembered
def _stored(source: Source, scope: ast.AST) -> dict[str, _Position]:
    """Name -> where a scope binds it first: after what it is bound to, which stands behind it in `x = f()`."""
    found: dict[str, _Position] = {}
    for node in _executed(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            value = _bound_to(source, node)
            place = (
                (value.end_lineno or value.lineno, value.end_col_offset or value.col_offset)
                if value is not None
                else (node.lineno, node.col_offset)
            )
            found[node.id] = min(found.get(node.id, place), place)
    return found


def _bound_to(source: Source, name: ast.Name) -> ast.expr | None:
    """The expression that runs before a name is bound: the value of an assignment, what a loop goes over."""
    node: ast.AST = name
    up = source.parents.get(name)
    while isinstance(up, (ast.Tuple, ast.List, ast.Starred)):
        node, up = up, source.parents.get(up)
    if isinstance(up, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        return up.value
    if isinstance(up, (ast.For, ast.AsyncFor, ast.comprehension)) and up.target is node:
        return up.iter
    return up.context_expr if isinstance(up, ast.withitem) else None


@remembered
def _calls(source: Source, scope: ast.AST) -> tuple[tuple[_Position, str], ...]:
    """What a scope calls, and where: the last part of each name."""
    calls = (node for node in _executed(scope) if isinstance(node, ast.Call))
    return tuple(((call.lineno, call.col_offset), last_name(call.func)) for call in calls)


def last_name(node: ast.expr) -> str:
    """The last part of a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@remembered
def _reached(source: Source, called: frozenset[str]) -> frozenset[str]:
    """The names that are called, and all that the definitions of these names mention, in turn."""
    found, todo, mentioned = set(called), list(called), _mentioned(source)
    for name in todo:
        new = mentioned.get(name, frozenset()) - found
        found |= new
        todo += new
    return frozenset(found)


@remembered
def _mentioned(source: Source) -> dict[str, frozenset[str]]:
    """Name of a definition -> the names and attributes in what a call of it runs."""
    found: dict[str, set[str]] = {}
    for one in source.definitions:
        parts = (
            [one] if not isinstance(one, ast.ClassDef) else [part for part in one.body if _is_making(part)]
        )
        names = found.setdefault(one.name, set())
        for base in one.bases if isinstance(one, ast.ClassDef) else ():  # whose constructor `super()` runs
            names.update(
                last_name(part) for part in ast.walk(base) if isinstance(part, (ast.Name, ast.Attribute))
            )
        for part in parts:
            names.update(node.id for node in source.of_kind(ast.Name, part))
            names.update(node.attr for node in source.of_kind(ast.Attribute, part))
    return {name: frozenset(names) for name, names in found.items()}


def _is_making(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS) and node.name in _MAKING


def _executed(scope: ast.AST) -> Iterator[ast.AST]:
    """What runs when a scope does: the bodies of classes, but not those of the functions that it defines."""
    todo: list[ast.AST] = list(scope.body) if isinstance(scope, (*FUNCTIONS, ast.Module)) else []
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, FUNCTIONS):
            todo += [
                *node.decorator_list,
                *node.args.defaults,
                *(one for one in node.args.kw_defaults if one),
            ]
        elif not isinstance(node, ast.Lambda):
            todo += children(node)
