"""The edit that makes a buffer of a tensor that a constructor keeps in an attribute."""

from __future__ import annotations

import ast
from collections import Counter

from devfix.engine.analysis import Analysis
from devfix.engine.values import Link
from devfix.findings import DeleteStatement, Edit, InsertStatement
from devfix.text.source import Source, remembered


def as_buffer(link: Link, analysis: Analysis) -> tuple[Edit, ...]:
    """`register_buffer` in the place of the assignment of an attribute."""
    source = analysis.file.source
    if link.file is not analysis.file or link.name.startswith("_"):
        return ()
    statement = source.statement(link.node)
    function = source.enclosing(statement, ast.FunctionDef)
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or statement.targets[0] is not link.node
    ):
        return ()
    if (
        not isinstance(function, ast.FunctionDef)
        or function.name != "__init__"
        or not isinstance(link.node, ast.Attribute)
    ):
        return ()
    if not _initialised(function, statement) or _stored_again(source, function, link.node):
        return ()
    text = source.code(statement.value)
    if "\n" in text or "#" in text or isinstance(statement.value, (ast.Tuple, ast.Yield)):
        return ()
    span = source.span(statement)
    line = f'{source.code(link.node.value)}.register_buffer("{link.name}", {text}, persistent=False)'
    return InsertStatement(span, line), DeleteStatement(span)


def _initialised(function: ast.FunctionDef, statement: ast.stmt) -> bool:
    """Does a statement of the constructor itself, above this one, call `super().__init__`?"""
    for one in function.body:
        if one is statement:
            return False
        if (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and isinstance(one.value.func, ast.Attribute)
        ):
            if one.value.func.attr == "__init__":
                return True
        if one.lineno >= statement.lineno:
            return False
    return False


def _stored_again(source: Source, function: ast.FunctionDef, target: ast.Attribute) -> bool:
    return _stores(source, source.enclosing(function, ast.ClassDef))[target.attr] > 1


@remembered
def _stores(source: Source, owner: ast.AST | None) -> Counter[str]:
    """How often attributes of each name are stored in a class."""
    attributes = source.of_kind(ast.Attribute, owner)
    return Counter(node.attr for node in attributes if not isinstance(node.ctx, ast.Load))
