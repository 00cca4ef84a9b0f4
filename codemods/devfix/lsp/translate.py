"""Findings -> what editors know: diagnostics, edits and quick fixes.

The protocol counts lines from 0 and characters in UTF-16 code units; devfix counts both from 1, columns
in characters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from devfix.findings import Safety
from devfix.reports.report import Place, PlacedFinding

SOURCE = "devfix"
_CODEC = PositionCodec()
Lines = Sequence[str]


def position(lines: Lines, line: int, column: int) -> types.Position:
    """A 1-based place as the protocol's own; past the end of a line it is that end."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return types.Position(max(line - 1, 0), units(text[: max(column - 1, 0)]))


def units(text: str) -> int:
    """How many UTF-16 code units a text has."""
    return int(_CODEC.client_num_units(text))


def column(lines: Lines, at: types.Position) -> int:
    """The 0-based character that a position of the protocol is at."""
    return int(_CODEC.position_from_client_units(lines, at).character)


def range_of(lines: Lines, place: Place) -> types.Range:
    start = position(lines, place.line, place.column)
    return types.Range(start, position(lines, place.end_line, place.end_column))


def diagnostic(
    uri: str, lines: Lines, finding: PlacedFinding, read: Callable[[str], Lines], address: str
) -> types.Diagnostic:
    """A finding with its other places; `read` gives the lines of another file, by path.

    `address` is that of the codemod's description; "" if it has none.
    """
    related = []
    for other in finding.related:
        if not other.line:
            continue
        where, text = (path_uri(other.path), read(other.path)) if other.path else (uri, lines)
        at = position(text, other.line, other.column or 1)
        location = types.Location(where, types.Range(at, at))
        related.append(types.DiagnosticRelatedInformation(location, other.message))
    return types.Diagnostic(
        range=range_of(lines, finding.place),
        message=finding.message,
        severity=types.DiagnosticSeverity.Warning,
        code=finding.codemod,
        code_description=types.CodeDescription(address) if address else None,
        source=SOURCE,
        related_information=related or None,
        data=finding.key,
    )


def quick_fix(
    uri: str, lines: Lines, finding: PlacedFinding, read: Callable[[str], Lines], shown: types.Diagnostic
) -> types.CodeAction | None:
    """The repair of a finding, or None if it has none that may be made."""
    fix = finding.fix
    if fix is None or fix.safety is Safety.MANUAL:
        return None
    changes: dict[str, list[types.TextEdit]] = {}
    for edit in fix.edits:
        if edit.path and not os.path.exists(edit.path):
            return None  # a new file; `devfix apply` makes it
        where, text = (path_uri(edit.path), read(edit.path)) if edit.path else (uri, lines)
        changes.setdefault(where, []).append(types.TextEdit(range_of(text, edit.place), edit.text))
    unsafe = " (unsafe: see the message)" if fix.safety is Safety.UNSAFE else ""
    return types.CodeAction(
        title=f"devfix: {fix.title}{unsafe}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[shown],
        is_preferred=fix.safety is Safety.SAFE,
        edit=types.WorkspaceEdit(changes=changes),
    )


def path_uri(path: str) -> str:
    return from_fs_path(os.path.abspath(path)) or ""


def whole(lines: Lines) -> types.Range:
    """Everything in a document."""
    last = len(lines) or 1
    return types.Range(types.Position(0, 0), position(lines, last, len(lines[-1]) + 1 if lines else 1))
