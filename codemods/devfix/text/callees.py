"""What is given to calls."""

from __future__ import annotations

import ast


def argument_of(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The argument of a call by keyword or position; None where it has none or has a `*` before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if 0 <= position < len(call.args):
        if not any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
            return call.args[position]
    return None
