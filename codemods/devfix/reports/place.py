"""Offsets -> lines and columns, for results that outlive their text."""

from __future__ import annotations

import ast
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.findings import Finding, Span, TextEdit, brief
from devfix.reports.report import (
    UNREAD,
    Change,
    FileResult,
    Place,
    PlacedEdit,
    PlacedFinding,
    PlacedFix,
    PlacedRelated,
    Scope,
)
from devfix.text.source import FUNCTIONS, Source, remembered

if TYPE_CHECKING:
    from devfix.documents import Document
    from devfix.documents.notebook import Notebook


_LONGEST = 500  # characters of a line of code that are kept


def place(source: Source, span: Span) -> Place:
    return Place(*source.position(span.start), *source.position(span.end))


def place_by(line_starts: Sequence[int], span: Span) -> Place:
    """`place` in a text that is not Python, by the offsets of its lines."""
    first, last = bisect_right(line_starts, span.start), bisect_right(line_starts, span.end)
    return Place(first, span.start - line_starts[first - 1] + 1, last, span.end - line_starts[last - 1] + 1)


def place_finding(source: Source, finding: Finding, edits: tuple[TextEdit, ...] | str) -> PlacedFinding:
    """A finding with the text edits of its fix, or the reason why it has none."""
    fix = None
    if finding.fix is not None and not isinstance(edits, str):
        placed = tuple(PlacedEdit(place(source, edit.span), edit.text) for edit in edits)
        fix = PlacedFix(finding.fix.title, finding.fix.safety, placed)
    related = []
    for other in finding.related:
        if other.path:  # its text is not at hand
            related.append(PlacedRelated(_shown(other.path), other.line, other.column, brief(other.message)))
        else:
            related.append(PlacedRelated("", *source.position(other.span.start), brief(other.message)))
    return PlacedFinding(
        finding.codemod,
        finding.message,
        place(source, finding.span),
        tuple(related),
        fix,
        brief(edits) if isinstance(edits, str) else "",
        code_line(source.text, source.line_starts, finding.span.start),
        brief(scope_at(source, finding.span.start)),
    )


def code_line(text: str, line_starts: Sequence[int], offset: int) -> str:
    """The line that an offset is on, without its end, and cut where it is very long."""
    line = bisect_right(line_starts, offset)
    end = line_starts[line] if line < len(line_starts) else len(text)
    return text[line_starts[line - 1] : min(end, line_starts[line - 1] + _LONGEST)].rstrip("\r\n")


def scope_at(source: Source, offset: int) -> str:
    """The qualified name of the function or class that an offset is in; empty at the top."""
    return _scopes(source).get(source.position(offset)[0], "")


@remembered
def _scopes(source: Source) -> dict[int, str]:
    """The name of the function or class that each line is in, where it is in one."""
    found: dict[int, str] = {}
    for node in sorted(source.definitions, key=lambda node: (node.lineno, node.col_offset)):
        outer = found.get(node.lineno)
        name = f"{outer}.{node.name}" if outer else node.name
        found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name))
    return found


def _shown(path: str) -> str:
    """A path of another file as those of the analysed files are shown."""
    try:
        return os.path.relpath(path)
    except ValueError:  # another drive
        return path


# --- git lines -------------------------------------------------------------------------------


def line_feeds(text: str) -> list[int]:
    """Offset of every LF, which is all that ends a line for git."""
    return [match.start() for match in re.finditer("\n", text)]


def git_lines(feeds: list[int], span: Span) -> tuple[int, int]:
    """First and last 0-based git line of a span; of an empty one, the line it stands before."""
    first = bisect_left(feeds, span.start)
    return first, max(first, bisect_left(feeds, span.end - 1))


def git_scopes(source: Source) -> tuple[Scope, ...]:
    """Every function and class, outer ones before those in them."""
    feeds = line_feeds(source.text)
    found = []
    for node in source.walk():
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
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


# --- notebooks -------------------------------------------------------------------------------


def placed_in(
    document: Document, source: Source, found: Sequence[Finding], edits: Sequence[tuple[TextEdit, ...] | str]
) -> tuple[PlacedFinding, ...]:
    """Findings as they are reported of a document: in a notebook, by its lines and cells."""
    placed = tuple(place_finding(source, *pair) for pair in zip(found, edits, strict=True))
    if not document.path.endswith(".ipynb"):
        return placed
    from devfix.documents.notebook import Notebook

    assert isinstance(document, Notebook)
    return tuple(finding_in_notebook(finding, document) for finding in placed)


_LINE = re.compile(r"\b(on )?line (\d+)")


def result_in_notebook(result: FileResult, notebook: Notebook, more: tuple[PlacedFinding, ...]) -> FileResult:
    """The result of a notebook's text in the lines of its file and cells, and with more findings."""
    problems = "; ".join(notebook.problems)
    return replace(
        result,
        findings=tuple(finding_in_notebook(finding, notebook) for finding in result.findings) + more,
        remaining=tuple(finding_in_notebook(finding, notebook) for finding in result.remaining) + more,
        changes=tuple(change_in_notebook(change, notebook) for change in result.changes),
        scopes=(),
        skipped=result.skipped or (f"{UNREAD}{problems}" if problems else ""),
    )


def finding_in_notebook(finding: PlacedFinding, notebook: Notebook) -> PlacedFinding:
    """A finding in the text of a notebook, by its lines in the file and in its cells."""
    fix = finding.fix
    if fix is not None:
        edits = tuple(replace(edit, place=placed_in_notebook(edit.place, notebook)) for edit in fix.edits)
        fix = replace(fix, edits=edits)
    related = []
    for other in finding.related:
        if not other.path and other.line:
            line, cell, inside = notebook.where(other.line)
            other = replace(other, line=line, cell=cell, cell_line=inside)
        related.append(other)
    return replace(
        finding,
        message=message_in_notebook(finding.message, notebook),
        place=placed_in_notebook(finding.place, notebook),
        related=tuple(related),
        fix=fix,
    )


def change_in_notebook(change: Change, notebook: Notebook) -> Change:
    """A change in the git lines of the notebook's file, with the cell that it begins in."""
    lines = tuple((notebook.where(a + 1)[0] - 1, notebook.where(b + 1)[0] - 1) for a, b in change.lines)
    _, cell, inside = notebook.where(min(change.lines)[0] + 1) if change.lines else (0, 0, 0)
    message = message_in_notebook(change.message, notebook)
    return replace(change, message=message, lines=lines, cell=cell, cell_line=inside)


def placed_in_notebook(place: Place, notebook: Notebook) -> Place:
    """A place in the text of a notebook, by its line in the file and in its cell."""
    line, cell, inside = notebook.where(place.line)
    return replace(place, line=line, end_line=notebook.where(place.end_line)[0], cell=cell, cell_line=inside)


def message_in_notebook(message: str, notebook: Notebook) -> str:
    """Messages name lines of the text; a reader of the notebook wants the cell."""

    def named(match: re.Match[str]) -> str:
        _, cell, line = notebook.where(int(match[2]))
        return f"{'in ' if match[1] else ''}cell {cell}, line {line}"

    return _LINE.sub(named, message)
