"""What the engine knows of the values on one line, in words."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.documents import Document
from devfix.flow import Flow, analyse
from devfix.flow.values import Kind, Place, Where
from devfix.text.source import Source

_KINDS = {
    Kind.DEVICE: "a device",
    Kind.MODULE: "a module",
    Kind.PART: "part of a module",
    Kind.TENSOR: "a tensor",
    Kind.BATCH: "a batch",
    Kind.LOADER: "a data loader",
    Kind.OPTIMIZER: "an optimizer",
    Kind.ARRAY: "data of the host",
    Kind.OWNER: "a framework's object",
}


@dataclass(frozen=True)
class Known:
    """An expression as written, what it is and where it lives, and the line (0: not known) that says so."""

    expression: str
    what: str
    line: int = 0


def known_at(document: Document, line: int) -> tuple[Known, ...]:
    """The values on a line of a document, from left to right; empty where nothing is known.

    Raises what `ast.parse` raises.
    """
    source = Source(document.text)
    return _described(analyse(source), _expressions(source, line))


def under(document: Document, line: int, column: int) -> tuple[Known, ...]:
    """The values whose text is at a place, the innermost first; line from 1, column from 0, in characters.

    Raises what `ast.parse` raises.
    """
    source = Source(document.text)
    if not 0 < line < len(source.line_starts) + 1:
        return ()
    offset = source.line_starts[line - 1] + column
    flow = analyse(source)
    around: list[tuple[int, ast.expr]] = []
    for node in source.walk():
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            span = source.span(node)
            if span.start <= offset < span.end:
                around.append((span.end - span.start, node))
    return _described(flow, [node for _, node in sorted(around, key=lambda pair: pair[0])])[:2]


def _described(flow: Flow, nodes: list[ast.expr]) -> tuple[Known, ...]:
    """What is known of expressions, of equal ones once."""
    found: dict[str, Known] = {}
    for node in nodes:
        if known := describe(flow, node):
            found.setdefault(known.expression, known)
    return tuple(found.values())


def describe(flow: Flow, node: ast.expr) -> Known | None:
    """One expression, as far as it is known; None for what has no place of its own."""
    value = flow.value(node)
    what, where = _KINDS.get(value.kind), words(value.place)
    if what is None or not where:
        return None
    code = " ".join(flow.source.code(node).split())
    return Known(code, f"{what} {where}", getattr(value.place.node, "lineno", 0))


def words(place: Place) -> str:
    """Where a place is, in words; empty if it is not known."""
    guarded = " on some paths" if place.guarded else ""
    if place.where is Where.DEFAULT:
        return "on the CPU: nothing moved it"
    if place.where is Where.CPU:
        return "on the CPU, put there" + guarded
    if place.where is Where.OWNED:
        return "placed by a framework"
    if place.where is Where.UNKNOWN or not place.text:
        return ""
    if place.where is Where.OF:
        return f"where {place.text.removesuffix('.device')} is{guarded}"
    return f"on {place.text}{guarded}"


def _expressions(source: Source, line: int) -> list[ast.expr]:
    """Names and attributes on a line, outermost first, in the order they stand in."""
    found: list[ast.expr] = []
    for node in source.walk():
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and node.lineno == line:
            parent = source.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node and isinstance(node, ast.Attribute):
                continue  # a method is not a value of its own
            found.append(node)
    return sorted(found, key=lambda node: (node.col_offset, -(node.end_col_offset or 0)))
