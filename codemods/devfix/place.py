"""Offsets -> lines and columns, for results that outlive their text."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Sequence

from devfix.findings import Finding, Span, TextEdit
from devfix.report import Place, PlacedEdit, PlacedFinding, PlacedFix, PlacedRelated, Scope
from devfix.source import Source


def place(source: Source, span: Span) -> Place:
    return Place(*source.position(span.start), *source.position(span.end))


def place_finding(source: Source, finding: Finding, edits: tuple[TextEdit, ...] | str) -> PlacedFinding:
    """A finding with the text edits of its fix, or the reason why it has none."""
    fix = None
    if finding.fix is not None and not isinstance(edits, str):
        placed = tuple(PlacedEdit(place(source, edit.span), edit.text) for edit in edits)
        fix = PlacedFix(finding.fix.title, finding.fix.safety, placed)
    related = []
    for other in finding.related:
        # The text of another file is not at hand.
        line, column = (0, 0) if other.path else source.position(other.span.start)
        related.append(PlacedRelated(other.path, line, column, other.message))
    return PlacedFinding(
        finding.codemod,
        finding.message,
        place(source, finding.span),
        tuple(related),
        fix,
        edits if isinstance(edits, str) else "",
    )


# --- git lines -------------------------------------------------------------------------------


def line_feeds(text: str) -> list[int]:
    """Offset of every LF, which is all that ends a line for git."""
    found = []
    at = text.find("\n")
    while at >= 0:
        found.append(at)
        at = text.find("\n", at + 1)
    return found


def git_lines(feeds: list[int], span: Span) -> tuple[int, int]:
    """First and last 0-based git line of a span; of an empty one, the line it stands before."""
    first = bisect_left(feeds, span.start)
    return first, max(first, bisect_left(feeds, span.end - 1))


def git_scopes(source: Source) -> tuple[Scope, ...]:
    """Every function and class, outer ones before those in them."""
    feeds = line_feeds(source.text)
    found = []
    for node in source.walk():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first, last = git_lines(feeds, source.span(node))
            # `lineno` of a decorated function is that of its `def`.
            header = bisect_left(feeds, source.offset(node.lineno, node.col_offset))
            found.append(Scope(header, first, last))
    return tuple(sorted(found, key=lambda scope: (scope.first, -scope.last)))


def back(span: Span, history: Sequence[tuple[TextEdit, ...]]) -> Span:
    """A span of the text after several passes of edits -> the span of the first text it stems from."""
    start, end = span.start, span.end
    for edits in reversed(history):
        start, end = _back(start, edits, False), _back(end, edits, True)
    return Span(start, max(start, end))


def _back(offset: int, edits: tuple[TextEdit, ...], is_end: bool) -> int:
    shift = 0
    for edit in edits:
        start = edit.span.start + shift
        if offset < start or (is_end and offset == start):
            break
        if offset < start + len(edit.text) or (is_end and offset == start + len(edit.text)):
            return edit.span.end if is_end else edit.span.start
        shift += len(edit.text) - (edit.span.end - edit.span.start)
    return offset - shift
