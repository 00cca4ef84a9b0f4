"""The device errors of a run as findings: those of the analysis that explain them are marked, the rest is added."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from devfix.errors.messages import kind_of
from devfix.findings import Finding, Safety, Span
from devfix.pipeline.suppress import unsuppressed
from devfix.repair.explained import Read
from devfix.repair.from_run import Candidate
from devfix.reports.observed import At, Operand, Seen
from devfix.reports.place import code_line, place_by, scope_at
from devfix.reports.report import (
    SEEN,
    FileResult,
    Place,
    PlacedEdit,
    PlacedFinding,
    PlacedFix,
    PlacedRelated,
    Report,
)
from devfix.review.device_errors import findings_of, reader, remedy, shown
from devfix.text.lines import line_starts
from devfix.text.parsed import parsed

_ASSUMES = "The fix assumes that other runs do what this one has done"


def with_seen(
    report: Report,
    seen: Sequence[Seen],
    *,
    wanted: Callable[[str], bool] = lambda path: True,
    only: bool = False,
) -> Report:
    """The report with what a run has seen.

    A finding that explains an error says where and how often it was seen. What no finding explains, or none that has
    a fix, is a finding of its own (`SEEN`) in a file that is `wanted`. With `only`, findings that were not seen
    are left out, and fixes stay as safe as the analysis has them; else a fix is safe where the run proves it.
    """
    read = reader()
    findings = findings_of(report)
    marks: dict[tuple[str, PlacedFinding], list[Seen]] = {}
    added: dict[str, list[PlacedFinding]] = {}
    for error in seen:
        for one in error.each():
            cause, fix = remedy(one, findings, read)
            if cause is not None:
                marks.setdefault(cause, []).append(one)
            at = one.at or next((stray.made for stray in one.strays), None)
            if at is not None and wanted(at.path) and (cause is None or fix is not None):
                found = _finding(one, at, fix, read)
                added.setdefault(at.path, []).extend([found] if found is not None else [])
    results = []
    for result in report.results:
        path = os.path.realpath(result.path)
        kept = [
            _marked(path, finding, marks.get((path, finding), ()), read, proving=not only)
            for finding in result.findings
            if not only or (path, finding) in marks
        ]
        own = tuple(sorted([*kept, *added.pop(path, ())], key=lambda one: one.place))
        results.append(replace(result, findings=own))
    results += [FileResult(shown(path), tuple(own)) for path, own in added.items()]
    results = sorted((one for one in results if one.noteworthy), key=lambda one: one.path)
    return replace(report, results=tuple(results))


# --- findings of the analysis ----------------------------------------------------------------


def _marked(
    path: str, finding: PlacedFinding, seen: Sequence[Seen], read: Read, *, proving: bool
) -> PlacedFinding:
    related = [_related(path, at, _seen(one), read) for one in seen if (at := one.at) is not None]
    fix = finding.fix
    if proving and fix is not None and any(_proves(one, path, fix, read) for one in seen):
        fix = replace(fix, safety=Safety.SAFE)
    return replace(finding, fix=fix, related=(*finding.related, *dict.fromkeys(related)))


def seen_at(seen: Sequence[Seen], path: str, line: int) -> list[str]:
    """What a run has seen of the values on a line, in words."""

    def names(one: Seen) -> bool:
        return any(at.path == path and at.line <= line <= max(at.line, at.end_line) for at in one.places())

    return list(dict.fromkeys(_seen(one) for one in seen if names(one)))


def _seen(one: Seen) -> str:
    """`seen on cuda:0, needed on cpu: `numpy` raised TypeError, 3 times`."""
    places = ", ".join(sorted({stray.device for stray in one.strays}))
    where = f" on {places}, needed on {one.device}" if places else ""
    times = f", {one.count} times" if one.count > 1 else ""
    return f"seen{where}: `{one.operation}` raised {one.error.partition(':')[0]}{times}"


def _proves(one: Seen, path: str, fix: PlacedFix, read: Read) -> bool:
    """Does an error prove that a fix is safe?

    Of one kind only: `x.cpu().numpy()`. The run has seen `x` at this very place as a tensor on an accelerator, which
    was all that the analysis had to assume: on the CPU `.cpu()` gives the tensor itself, so that no other run differs.
    For other fixes more has to hold in every run: that a value is always a tensor, or never None.
    """
    kind, document = kind_of(one.error), read(path)
    if kind is None or kind.id != "numpy" or one.operation != "numpy" or document is None or not one.passed:
        return False
    if len(fix.edits) != 1 or fix.edits[0].text != ".cpu()" or fix.edits[0].path:
        return False
    edit = fix.edits[0].place
    for found in one.passed[0].found:
        place = _place(found.at, document.text) if found.at.column >= 0 and found.at.path == path else None
        if place is None or found.within or not one.operands[found.operand].stray:
            continue
        end = (place.end_line, place.end_column)
        if end == (edit.line, edit.column) == (edit.end_line, edit.end_column):
            offset = line_starts(document.text)[place.end_line - 1] + place.end_column - 1
            return document.text.startswith(".numpy(", offset)
    return False


# --- findings of the run ---------------------------------------------------------------------


def _finding(one: Seen, at: At, fix: Candidate | None, read: Read) -> PlacedFinding | None:
    document = read(at.path)
    place = _place(at, document.text) if document is not None else None
    if document is None or place is None:
        return None
    strays = "; ".join(_stray(stray) for stray in one.strays)
    times = f", {one.count} times" if one.count > 1 else ""
    message = f"`{one.operation}` raised this in a run{times}: {one.error}".rstrip(".")
    message += f"; {strays}" if strays else ""
    made = _fix(fix, at.path, read) if fix is not None else None
    starts, source = line_starts(document.text), parsed(document.text)
    start = starts[place.line - 1] + place.column - 1
    if not unsuppressed(source, (Finding(SEEN, Span(start, start), ""),)):
        return None
    past = [
        _related(at.path, line, f"the stray was {word} here", read)
        for stray in one.strays
        for word, line in (("made", stray.made), ("moved", stray.moved), ("stored", stray.stored))
        if line is not None and line.key != at.key
    ]
    return PlacedFinding(
        SEEN,
        f"{message}. {_ASSUMES}" if made is not None else message,
        place,
        tuple(dict.fromkeys(past)),
        made,
        "",
        code_line(document.text, starts, start),
        scope_at(source, start),
    )


def _stray(stray: Operand) -> str:
    name = f"`{stray.name}`" if stray.name else f"a {stray.kind} of shape {list(stray.shape)}"
    return f"the stray is {name} on {stray.device}"


def _fix(fix: Candidate, path: str, read: Read) -> PlacedFix | None:
    document = read(fix.path)
    if document is None:
        return None
    starts, other = line_starts(document.text), shown(fix.path) if fix.path != path else ""
    edits = tuple(PlacedEdit(place_by(starts, edit.span), edit.text, other) for edit in fix.edits)
    return PlacedFix(fix.title, Safety.UNSAFE, edits)


def _related(path: str, at: At, message: str, read: Read) -> PlacedRelated:
    document = read(at.path)
    place = _place(at, document.text) if document is not None else None
    return PlacedRelated(
        shown(at.path) if at.path != path else "", at.line, place.column if place else 1, message
    )


def _place(at: At, text: str) -> Place | None:
    """A line of a run in characters; without columns, the code of the whole line. None if there is no such line."""
    starts = line_starts(text)
    last = max(at.line, at.end_line)
    if not 0 < at.line <= last <= len(starts):
        return None

    def line(number: int) -> str:
        return text[starts[number - 1] :].split("\n", 1)[0].rstrip("\r")

    def column(number: int, count: int) -> int:
        before = line(number).encode("utf-8", "surrogatepass")[:count]
        return len(before.decode("utf-8", "replace")) + 1

    if at.column < 0:
        code = line(at.line)
        return Place(at.line, len(code) - len(code.lstrip()) + 1, at.line, len(code.rstrip()) + 1)
    return Place(at.line, column(at.line, at.column), last, column(last, at.end_column))
