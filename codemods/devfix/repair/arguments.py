"""The argument of a function that a value is, or is made of by methods: it is where the caller has it."""

from __future__ import annotations

import ast

from devfix.engine.facts import Mismatch, Term
from devfix.engine.places import OF
from devfix.engine.values import MODULE
from devfix.models.loader import models, tensor_attributes
from devfix.repair.expressible import expressible
from devfix.text.names import stores
from devfix.text.source import FUNCTIONS, Source

_MOVES = frozenset({"to", "cuda", "cpu", "type_as"})


def same_device(node: ast.AST | None) -> ast.expr | None:
    """`x` of `x[1:]`, `x.forward` and `x.float().abs()`, which are where it is."""
    if isinstance(node, ast.Attribute) and node.attr == "forward":
        return node.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        name = node.func.attr
        if name in tensor_attributes() and models().method(name).form in ("same", "follow"):
            return node.func.value if name not in _MOVES else None
    return None


def method_of(node: ast.AST | None) -> ast.expr | None:
    """`x` of `x.view(1)`, a call of a method of tensors."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) and called.attr in tensor_attributes() else None


def argument_of(mismatch: Mismatch) -> str:
    """The parameter that the other value is, where only what a method of a module is given says where that is."""
    function, node, key = mismatch.function, mismatch.anchor_node, mismatch.anchor_place.key
    if function is None or mismatch.anchor.kind == MODULE or mismatch.anchor_place.kind != OF:
        return ""
    if not isinstance(key, tuple) or key[0] != "self":
        return ""
    while (base := _held(node)) is not None:
        node = base
    name = node.id if isinstance(node, ast.Name) else ""
    given = name in {one.arg for one in function.parameters[0 if function.static else 1 :]}
    return name if given and not stores(function.file.source, function.node, name) else ""


def _held(node: ast.AST | None) -> ast.expr | None:
    """`x` of `x[:, None]` and `x.view(1)`, which are where it is; not of `x[0]`, an element of a list perhaps."""
    if isinstance(node, ast.Subscript):
        at = node.slice
        whole = isinstance(at, (ast.Tuple, ast.Slice)) or (isinstance(at, ast.Constant) and at.value is None)
        return node.value if whole else None
    base = method_of(node)
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return base if name not in _MOVES and models().method(name).form in ("same", "follow") else None


def device_of_argument(mismatch: Mismatch, source: Source, at: ast.AST) -> str | None:
    """The device of that argument as it can be written at a node: that of other arguments need not be the same.

    None where the other value is no argument of the function that the node is in.
    """
    name, function = argument_of(mismatch), mismatch.function
    if not name or function is None or source.enclosing(at, *FUNCTIONS) is not function.node:
        return None
    visible = next((terms for one, terms in mismatch.scopes if one is function), ())
    of_it = [
        term
        for term in visible
        if term.form == "device"
        and any(
            name in source.names(source.statement(one)) for one in stores(source, function.node, term.text)
        )
    ]
    terms = (*of_it, Term(name, "tensor", mismatch.anchor_place, frozenset()))
    return expressible(source, mismatch.anchor_place, ((function, terms),), at)
