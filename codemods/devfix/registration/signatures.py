"""Dtypes of calls, read from the tree."""

from __future__ import annotations

import ast

from devfix.text.source import Source

_WHOLE_DTYPES = frozenset(
    {"long", "int", "int64", "int32", "int16", "int8", "uint8", "bool", "short", "complex64"}
)


def only_dtype(source: Source, node: ast.Call) -> bool:
    """`.to(torch.float32)`, `.to(dtype=...)`, `.to(x.dtype)`: the place stays."""
    if any(k.arg not in ("dtype", "copy", "non_blocking") for k in node.keywords):
        return False
    for argument in node.args:
        name = source.qualified(argument)
        dtype = name.startswith("torch.") and name.rpartition(".")[2].islower()
        if not dtype and not source.code(argument).endswith("dtype"):
            return False
    return bool(node.args or node.keywords)


def whole_dtype(node: ast.Call) -> bool:
    given = [k.value for k in node.keywords if k.arg == "dtype"] + [
        a for a in node.args if isinstance(a, ast.Attribute)
    ]
    return any(isinstance(g, ast.Attribute) and g.attr in _WHOLE_DTYPES for g in given)


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
