"""What a function returns: is it on one device, whichever way is taken?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.factories.meetings import Meeting
from devfix.factories.values import Fact, Form, Origin
from devfix.source import Source

Returns = list[tuple[ast.Return, Fact]]
Rows = list[tuple[ast.expr, tuple[Fact, ...]]]
_COUNT = re.compile(r"^\w+(?:\.shape\[0\]|\.numel\(\)|\.size\(0\))$|^len\(\w+\)$")


def returned(source: Source, returns: Returns) -> Iterator[Meeting]:
    """New tensors that are returned where other ways give one of the input's device. Never certain."""
    rows: Rows = []
    for node, fact in returns:
        if node.value is not None:
            rows.append((node.value, fact.items if isinstance(node.value, ast.Tuple) else (fact,)))
    for value, row in rows:
        for at, fact in enumerate(row):
            if fact.form is Form.LIST:
                yield from _mixed(source, value, fact)
            elif fact.stray and (fact.flat is False or _count(fact)):
                yield from _fallback(source, rows, value, at)


def _mixed(source: Source, value: ast.expr, fact: Fact) -> Iterator[Meeting]:
    """A list with elements on both devices."""
    placed = next((item.anchor for item in fact.items if item.placed), None)
    for item in fact.items:
        if placed is not None and item.stray and item.flat is False:
            how = "is returned in a list with tensors of"
            yield Meeting(item.origins, value, placed, source.code(value), how, False)


def _fallback(source: Source, rows: Rows, value: ast.expr, at: int) -> Iterator[Meeting]:
    row = next(row for node, row in rows if node is value)
    fact = row[at]
    if fact.filled is None and fact.flat is not False:
        beside = next((f.anchor for f in row if f.placed and f.anchor is not None and f.anchor.sure), None)
        if beside is not None:
            yield Meeting(fact.origins, value, beside, source.code(value), "is returned in", False)
        return
    anchor, other, how = fact.filled, value, "is filled with tensors from another device, and returned as"
    if anchor is None:
        how = "is returned, while other ways return"
        anchor = fact.anchor if fact.anchor is not None and fact.anchor.sure else None
        for elsewhere, others in rows:
            if elsewhere is not value and len(others) == len(row) and others[at].placed:
                anchor, other = others[at].anchor, elsewhere
                break
    told = frozenset(origin for origin in fact.origins if _constant(origin))
    if anchor is not None and told and anchor.text.endswith(".device"):
        yield Meeting(told, value, anchor, source.code(other), how, False)


def _count(fact: Fact) -> bool:
    """`torch.tensor(x.shape[0])`: a count of the input, made into a tensor to be summed over processes."""
    return all(
        o.name == "torch.tensor" and o.call.args and _COUNT.search(ast.unparse(o.call.args[0]))
        for o in fact.origins
    )


def _constant(origin: Origin) -> bool:
    """Is its content given in the program, not data of the host?"""
    last = origin.name.rpartition(".")[2]
    if last in ("tensor", "as_tensor", "asarray") or last.endswith("Tensor"):
        first = origin.call.args[0] if origin.call.args else None
        return isinstance(first, (ast.List, ast.Constant)) or len(origin.call.args) > 1
    return last not in ("from_numpy", "frombuffer")
