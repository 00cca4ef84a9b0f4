"""A move of its own for a module: below the last thing that changes it, above its first use."""

from __future__ import annotations

import ast

from devfix.findings import InsertStatement
from devfix.flow.events import Event, What
from devfix.flow.lattice import Kind
from devfix.placing import around, bound_before, siblings, stores
from devfix.source import Source, walk


def changes(event: Event) -> list[ast.stmt]:
    """The statements of a scope that attach layers to the module of an event, or load it, before it is run."""
    value = event.value
    objects = {value.identity, *value.arms}
    return [
        one.statement
        for one in event.scope.events[: event.order]
        if one.what in (What.ATTACH, What.RESTORE)
        and (one.value.identity in objects or not objects.isdisjoint(one.value.arms))
        and one.value.kind in (Kind.MODULE, Kind.PART)
    ]


def own_move(
    source: Source, path: str, text: str, values: tuple[ast.expr, ...], event: Event
) -> InsertStatement | None:
    """`model.to(device)` in the block where the module is run, below all that makes or changes it."""
    block, below = _block(source, values, event)
    if not block:
        return None
    expression = ast.parse(text, mode="eval").body
    wanted: list[ast.stmt] = [source.statement(value) for value in values]
    wanted += changes(event)
    for part in walk(expression):
        if isinstance(part, ast.Name):
            wanted += [source.statement(node) for node in stores(source, event.scope.node, part.id)]
    anchor = -1
    for statement in wanted:
        at = next((block.index(one) for one in around(source, statement) if one in block), None)
        if at is not None and at < below:
            anchor = max(anchor, at)
    if anchor < 0 or not bound_before(source, expression, block[anchor + 1]):
        return None
    return InsertStatement(source.span(block[anchor]), f"{path}.to({text})")


def _block(source: Source, values: tuple[ast.expr, ...], event: Event) -> tuple[list[ast.stmt], int]:
    """The block that holds the making of the module and, further down, its run; and where the run is."""
    pairs = [siblings(source, value, event.statement) for value in values]
    found = [pair for pair in pairs if pair is not None and pair[0] is not pair[1]]
    if not found or len(found) < len(pairs) or len({pair[1] for pair in found}) != 1:
        return [], 0
    block = source.block(found[0][1])
    below = block.index(found[0][1])
    return (block, below) if all(block.index(pair[0]) < below for pair in found) else ([], 0)
