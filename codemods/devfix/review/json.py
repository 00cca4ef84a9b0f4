"""Schema 1: findings for machines. Lines and columns count from 1, columns in characters.

`fix` is null where there is none, and where the code around it could not be rewritten. The
positions of `edits` are those of the file as it was read; they belong together. In `apply`,
`summary.applied` counts the fixes that were written, and the findings are those from before.
An edit with a `path` belongs to that other file: the fix is made in all its files or in none.
With `--smoke`, `changes` has the verdict on each fix; `lines` are first and last lines of the file as read.
In a notebook, `line` is a line of its JSON text; `cell` and `cell_line` (from 1) are there as well,
and columns are those of the cell's own text.
"""

from __future__ import annotations

import json
from typing import Any

from devfix import __version__
from devfix.reports.report import Place, PlacedEdit, PlacedFinding, Report

SCHEMA = 1


def render(report: Report) -> str:
    """The report as JSON text, ASCII only."""
    return json.dumps(document(report), indent=2)


def document(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "findings": [
            _finding(result.path, finding) for result in report.results for finding in result.findings
        ],
        "errors": [vars(error) for error in report.errors],
        **_verdicts(report),
        "summary": {
            "files": report.files,
            "files_read": report.files_read,
            "findings": report.findings,
            "fixable": report.fixable,
            "applied": report.applied,
        },
    }


def _verdicts(report: Report) -> dict[str, Any]:
    """With `--smoke` only: what came of running the program with each change."""
    judged = [
        {
            "path": result.path,
            "codemod": change.codemod,
            "title": change.title,
            "safety": change.safety.label,
            "lines": [[first + 1, last + 1] for first, last in change.lines],
            "verdict": change.verdict,
        }
        for result in report.results
        for change in result.changes
        if change.verdict
    ]
    return {"changes": judged} if judged else {}


def _finding(path: str, finding: PlacedFinding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "path": path,
        **_place(finding.place),
        "codemod": finding.codemod,
        "message": finding.message,
        "related": [
            {"path": other.path or path, "line": other.line or None, "message": other.message}
            for other in finding.related
        ],
        "fix": None
        if fix is None
        else {
            "title": fix.title,
            "safety": fix.safety.label,
            "edits": [_edit(edit) for edit in fix.edits],
        },
    }


def _edit(edit: PlacedEdit) -> dict[str, Any]:
    other = {"path": edit.path} if edit.path else {}
    return {**other, **_place(edit.place), "text": edit.text}


def _place(place: Place) -> dict[str, int]:
    return {name: at for name, at in vars(place).items() if place.cell or not name.startswith("cell")}
