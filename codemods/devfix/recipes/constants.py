"""Expressions and conditions whose value can be told; everything else is UNKNOWN."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from devfix.documents.yaml import Node
from devfix.engine.transfer.conditions import OPERATORS


class Some(Enum):
    """Values that are no constants."""

    UNKNOWN = "anything"
    OBJECT = "an object: something, and not None"


UNKNOWN, OBJECT = Some.UNKNOWN, Some.OBJECT
_OPERATORS = {**OPERATORS, ast.Is: operator.eq, ast.IsNot: operator.ne}
Lookup = Callable[[ast.expr], Any]
_BOOLS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*)?(?:\.\d*)?(?:[eE][-+]?\d+)?")


def evaluate(node: ast.expr, lookup: Lookup) -> Any:
    """The constant that an expression is; names, attributes and calls are looked up."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        return lookup(node)
    if isinstance(node, ast.UnaryOp):
        return _unary(node, lookup)
    if isinstance(node, ast.BoolOp):
        return _bool(node, lookup)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compare(node, lookup)
    if isinstance(node, (ast.List, ast.Tuple)):
        parts = [evaluate(item, lookup) for item in node.elts]
        return UNKNOWN if any(isinstance(part, Some) for part in parts) else tuple(parts)
    return UNKNOWN


def truth(node: ast.expr, lookup: Lookup) -> bool | None:
    """Whether a condition holds, or None where that cannot be told."""
    value = evaluate(node, lookup)
    return None if isinstance(value, Some) else bool(value)


def _unary(node: ast.UnaryOp, lookup: Lookup) -> Any:
    value = evaluate(node.operand, lookup)
    if isinstance(value, Some):
        return UNKNOWN
    if isinstance(node.op, ast.Not):
        return not value
    if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
        return -value
    return UNKNOWN


def _bool(node: ast.BoolOp, lookup: Lookup) -> Any:
    wins = isinstance(node.op, ast.Or)
    truths = [truth(value, lookup) for value in node.values]
    if wins in truths:
        return wins
    return UNKNOWN if None in truths else not wins


def _compare(node: ast.Compare, lookup: Lookup) -> Any:
    left, right = evaluate(node.left, lookup), evaluate(node.comparators[0], lookup)
    op = type(node.ops[0])
    if OBJECT in (left, right) and None in (left, right):
        return op in (ast.IsNot, ast.NotEq)
    if isinstance(left, Some) or isinstance(right, Some):
        return UNKNOWN
    try:
        return bool(_OPERATORS[op](left, right))
    except TypeError:  # what raises is not compared
        return UNKNOWN


def scalar(node: Node) -> Any:
    """The constant that an untagged YAML scalar is; of anything else, OBJECT."""
    if node.kind != "scalar" or node.tag:
        return OBJECT
    text = node.value
    if not node.plain:
        return text
    if text.lower() in ("", "~", "null"):
        return None
    if text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if _NUMBER.fullmatch(text) and any(character.isdigit() for character in text):
        digits = text.replace("_", "")
        return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
    return text
