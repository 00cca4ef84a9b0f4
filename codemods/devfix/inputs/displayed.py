"""What a notebook displays: the value of the last expression of a cell."""

from __future__ import annotations

import ast

from devfix.source import Source

_MARK = "# %% [cell "  # of `Notebook.text`


def is_displayed(source: Source, node: ast.AST) -> bool:
    """Is a node all of the last statement of a notebook's cell, with no semicolon to hide its value?"""
    if not source.text.startswith(_MARK):
        return False
    statement = source.statement(node)
    body = source.tree.body
    if not isinstance(statement, ast.Expr) or statement.value is not node or statement not in body:
        return False
    index = body.index(statement)
    end = source.span(statement).end
    until = source.span(body[index + 1]).start if index + 1 < len(body) else len(source.text)
    between = source.text[end:until]
    last = index + 1 == len(body) or f"\n{_MARK}" in between
    return last and not between.lstrip(" \t").startswith(";")
