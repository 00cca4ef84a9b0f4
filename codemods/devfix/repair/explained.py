"""Which static findings explain the device errors of a run: those about the lines that the strays have passed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from devfix.documents import Document
from devfix.errors.messages import kind_of
from devfix.findings import Safety, Span, TextEdit
from devfix.repair.from_run import Candidate
from devfix.reports.observed import At, Operand, Seen
from devfix.reports.report import Place, PlacedFinding
from devfix.text.lines import line_starts

Read = Callable[[str], Document | None]
Findings = Sequence[tuple[str, PlacedFinding]]  # with the paths, as the run tells them


def explained(seen: Seen, findings: Findings, read: Read) -> tuple[tuple[str, PlacedFinding], ...]:
    """The findings that explain an error, the likeliest first."""
    kind = kind_of(seen.error)
    ranked = []
    for number, (path, finding) in enumerate(findings):
        if kind is None or finding.codemod not in kind.codemods or finding.place.cell:
            continue  # the lines of a cell are not those that have run
        score = _score(seen, path, finding, read)
        if score:
            ranked.append((-score, kind.codemods.index(finding.codemod), number))
    return tuple(findings[number] for *_, number in sorted(ranked))


def _score(seen: Seen, path: str, finding: PlacedFinding, read: Read) -> int:
    """3 for where a stray was made or stored, 2 for where it met the others, 1 for where it was handed on."""
    strays = seen.strays
    past = [at for one in strays for at in (one.made, one.stored)]
    if not strays:  # a generator, a checkpoint, an autocast: the line is all there is
        return 2 * (seen.at is not None and _stands(seen.at, path, finding.place))
    if any(at is not None and _stands(at, path, finding.place) for at in past):
        return 3
    # A line may have several strays: a finding is about that which it stands on.
    for number, passed in enumerate(seen.passed):
        if not _stands(passed.at, path, finding.place):
            continue
        if not passed.found:
            continue
        if any(_overlap(found.at, finding.place, read(path)) for found in passed.found):
            return 2 if not number else 1
    related = [passed for passed in seen.passed if _related(passed.at, path, finding)]
    if is_recipe(path):  # which names the module by its entry, and the line of the script that runs it
        return int(any(found.within == "module" for passed in related for found in passed.found))
    return int(bool(related) and any(_named(one, finding) for one in strays))


def is_recipe(path: str) -> bool:
    """Is it a HyperPyYAML recipe, by its name?"""
    return path.endswith((".yaml", ".yml"))


def _stands(at: At, path: str, place: Place) -> bool:
    return at.path == path and place.line <= at.line <= place.end_line


def _related(at: At, path: str, finding: PlacedFinding) -> bool:
    return any(
        one.line == at.line and at.path == (os.path.realpath(one.path) if one.path else path)
        for one in finding.related
    )


def _named(stray: Operand, finding: PlacedFinding) -> bool:
    """Does a finding name the attribute of a stray?"""
    parts = stray.name.split(".")
    return any(
        f"`{'.'.join(parts[:end])}`" in finding.message for end in range(1, len(parts) + 1) if stray.name
    )


def _overlap(at: At, place: Place, document: Document | None) -> bool:
    if at.column < 0 or document is None:
        return True
    if place.line != place.end_line or place.line != at.line:
        return place.line <= at.line <= place.end_line
    start = line_starts(document.text)[at.line - 1]
    text = document.text[start:].encode("utf-8", "surrogatepass")
    first = len(text[: at.column].decode("utf-8", "replace")) + 1
    last = len(text[: at.end_column].decode("utf-8", "replace")) + 1 if at.end_line == at.line else 1 << 30
    return first < place.end_column and place.column < last


def candidates(found: Findings, read: Read) -> Iterator[Candidate]:
    """The fixes of findings that change files which are there, as edits of their texts.

    A recipe is changed only by a fix that is safe: what it lists is trained, saved and loaded with the rest.
    """
    for path, finding in found:
        fix = finding.fix
        if fix is None or fix.safety is Safety.MANUAL or (is_recipe(path) and fix.safety is not Safety.SAFE):
            continue
        parts: dict[str, tuple[TextEdit, ...]] = {path: ()}
        for edit in fix.edits:
            at = os.path.realpath(edit.path) if edit.path else path
            document = read(at)
            if document is None or edit.place.cell:
                parts.clear()
                break
            starts, place = line_starts(document.text), edit.place
            start = starts[place.line - 1] + place.column - 1
            end = starts[place.end_line - 1] + place.end_column - 1
            parts[at] = (*parts.get(at, ()), TextEdit(Span(start, end), edit.text))
        if parts:
            own = parts.pop(path)
            yield Candidate(path, finding.place.line, fix.title, own, finding.codemod, tuple(parts.items()))
