"""The edit that moves what a name is bound to: `x = x.to(device)`, where the name is that of a value."""

from __future__ import annotations

import ast

from devfix.findings import Edit, InsertStatement
from devfix.text.names import is_local, stores
from devfix.text.source import COMPREHENSIONS, FUNCTIONS, Source

_INNER = (ast.Lambda, *COMPREHENSIONS)  # with names of their own


def rebound(
    source: Source, name: ast.Name, device: str, at: ast.stmt, *, before: bool = False
) -> tuple[Edit, ...]:
    """The edit that puts a move of what a name stands for beside a statement; none where it is no value's name.

    An import, a function and a class bind no name to a value, and the object of a method is none to move; what a
    function has from outside of itself would become a name of its own.
    """
    scope = source.enclosing(name, *FUNCTIONS, *_INNER)
    if scope is None:
        known = bool(stores(source, source.tree, name.id))
    else:
        known = isinstance(scope, FUNCTIONS) and is_local(source, scope, name.id)
        known &= not _is_object(source, scope, name.id)
    if not known:
        return ()
    line = f"{name.id} = {name.id}.to({device})"
    return (InsertStatement(source.span(at), line, before=before),)


def _is_object(source: Source, scope: ast.AST, name: str) -> bool:
    """Is a name the first parameter of a method?"""
    if not isinstance(scope, FUNCTIONS) or not isinstance(source.parents.get(scope), ast.ClassDef):
        return False
    first = next(iter([*scope.args.posonlyargs, *scope.args.args]), None)
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in scope.decorator_list)
    return first is not None and first.arg == name and not static


def is_read_twice(source: Source, node: ast.Name) -> bool:
    """Does a plain statement read a name that often?"""
    statement = source.statement(node)
    reads = [one for one in source.names(statement).get(node.id, ()) if isinstance(one.ctx, ast.Load)]
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)) and len(reads) > 1
