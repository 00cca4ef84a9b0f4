"""A review of a pull request on GitHub, with suggestions that a click commits.

The body of `POST /repos/{owner}/{repo}/pulls/{number}/reviews` (https://docs.github.com/rest/pulls/reviews). GitHub
takes comments on changed lines only, and a suggestion replaces whole lines: a fix that reaches further is only named,
and a finding on other lines is in the text of the review.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from devfix.documents import DocumentError, read_bytes
from devfix.findings import Safety
from devfix.pipeline.selection import in_tree, posix
from devfix.reports.report import PlacedFinding, Report
from devfix.review.html.texts import Text
from devfix.review.text import plural, printable

_Lines = Sequence[tuple[int, int]]


def render(report: Report, lines: Mapping[str, _Lines]) -> str:
    """The review as JSON; `lines` are the changed lines (from 1) by path."""
    comments: list[dict[str, Any]] = []
    others = []
    for result in report.results:
        path = in_tree(result.path)
        ranges = lines.get(posix(result.path), ())
        text = _text(result.path) if result.findings else None
        for finding in result.findings:
            said = f"**{finding.codemod}**: {printable(finding.message)}"
            suggestion = _suggestion(finding, text, ranges) if text is not None else None
            place = finding.place
            if suggestion is not None:
                first, last, new = suggestion
                fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", new))])
                body = f"{said}\n\n{_fix(finding)}\n{fence}suggestion\n{new}{fence}"
                comments.append(_comment(path, first, last, body))
            elif _inside(place.line, place.line, ranges) and not place.cell:
                comments.append(_comment(path, place.line, place.line, f"{said}\n\n{_fix(finding)}".rstrip()))
            else:
                others.append(f"- {printable(path)}:{place.line}: {said}")
    summary = f"devfix: {plural(report.findings, 'finding')}"
    body = "\n".join([summary, *(["", "Beside the changed lines:", "", *others] if others else [])])
    return json.dumps({"event": "COMMENT", "body": body, "comments": comments}, indent=2)


def _text(path: str) -> Text | None:
    try:
        return Text.of(path, read_bytes(path))
    except DocumentError:
        return None


def _comment(path: str, first: int, last: int, body: str) -> dict[str, Any]:
    start = {"start_line": first, "start_side": "RIGHT"} if first < last else {}
    return {"path": path, **start, "line": last, "side": "RIGHT", "body": body}


def _fix(finding: PlacedFinding) -> str:
    fix = finding.fix
    return f"Fix ({fix.safety.label}): {printable(fix.title)}" if fix is not None else ""


def _inside(first: int, last: int, ranges: _Lines) -> bool:
    return any(a <= first and last <= b for a, b in ranges)


def _suggestion(finding: PlacedFinding, text: Text, ranges: _Lines) -> tuple[int, int, str] | None:
    """First and last line (from 1) and the new lines; None where the fix cannot be made by replacing them."""
    fix = finding.fix
    if fix is None or fix.safety is Safety.MANUAL or finding.place.cell or not fix.edits:
        return None
    edits = [(text.span(edit.place), edit.text) for edit in fix.edits if not edit.path]
    spans = [span for span, _ in edits if span is not None]
    if len(spans) < len(fix.edits):
        return None
    start = text.text.rfind("\n", 0, min(span.start for span in spans)) + 1
    end = max(span.end for span in spans)
    if end == start or text.text[end - 1] != "\n" or edits[-1][1][-1:] not in ("", "\n"):
        end = text.text.find("\n", end) + 1 or len(text.text)
    new = text.text[:end]
    for span, replacement in reversed(edits):
        assert span is not None
        new = new[: span.start] + replacement + new[span.end :]
    new = new[start:].replace("\r\n", "\n")
    first = text.text.count("\n", 0, start) + 1
    last = text.text.count("\n", 0, end - 1) + 1
    if new and not new.endswith("\n"):
        new += "\n"
    return (first, last, new) if _inside(first, last, ranges) else None
