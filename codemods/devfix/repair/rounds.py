"""Fixes for all device errors of a program: run, fix what was seen, run again, until nothing is left.

All edits are kept as edits of the texts that the repair began with, so that each fix can be left out again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from devfix.documents import Document, DocumentError, read_document, readable
from devfix.documents.overlay import overlaid
from devfix.findings import Span, TextEdit
from devfix.repair.explained import Findings, candidates, explained
from devfix.repair.from_run import Candidate, fixes
from devfix.reports.observed import Seen
from devfix.rewrite import CannotRewrite, apply, merge, select
from devfix.text.source import Source

ROUNDS = 10


@dataclass(frozen=True)
class Outcome:
    """How a run has ended. `unchecked` says why nothing follows from it, `error` what it died of."""

    code: int | None
    output: str = ""
    seen: tuple[Seen, ...] = ()
    unchecked: str = ""
    error: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repaired:
    """What has come of it: the fixes, and why they are not enough (empty: they are)."""

    fixes: tuple[Candidate, ...]
    why_not: str = ""


# A run with changed files (by their paths), going on after device errors or not.
Run = Callable[[Mapping[str, bytes], bool], Outcome]
Analyse = Callable[[Sequence[str]], Findings]


@dataclass
class Texts:
    """The files of the program as they were, and as they are with some fixes."""

    before: dict[str, Document] = field(default_factory=dict)

    def document(self, path: str) -> Document | None:
        if path not in self.before:
            try:
                self.before[path] = read_document(path)
            except DocumentError:
                return None
        return self.before[path]

    def edits(self, path: str, chosen: Sequence[Candidate]) -> tuple[TextEdit, ...]:
        return merge([edits for one in chosen for at, edits in one.parts if at == path])

    def changed(self, chosen: Sequence[Candidate]) -> dict[str, bytes]:
        """The new bytes of each changed file; raises CannotRewrite and DocumentError."""
        made = {}
        for path in dict.fromkeys(path for one in chosen for path, edits in one.parts if edits):
            document = self.before[path]
            text = apply(document.text, self.edits(path, chosen))
            if _is_python(path):
                Source(text)
            made[path] = document.encode(text)
        return made

    def of_the_beginning(self, one: Candidate, chosen: Sequence[Candidate]) -> Candidate | None:
        """A fix of the texts as they are, as one of the texts as they were; None where it touches other fixes."""
        parts = []
        for path, edits in one.parts:
            if self.document(path) is None:
                return None
            known = self.edits(path, chosen)
            moved = []
            for edit in edits:
                start, end = _back(edit.span.start, known), _back(edit.span.end, known)
                if start is None or end is None:
                    return None
                moved.append(TextEdit(Span(start, end), edit.text))
            parts.append((path, tuple(moved)))
        found = replace(one, edits=parts[0][1], others=tuple(parts[1:]))
        return (
            found
            if self.fits(found, chosen) and all(found.parts != other.parts for other in chosen)
            else None
        )

    def fits(self, one: Candidate, chosen: Sequence[Candidate]) -> bool:
        """Can a fix be made together with others?"""
        for path, edits in one.parts:
            before = [others for other in chosen for at, others in other.parts if at == path]
            source = Source(self.before[path].text) if _is_python(path) else None
            if edits and len(before) not in select([*before, edits], source):
                return False
        return True


def _is_python(path: str) -> bool:
    """Or else a recipe."""
    return path.endswith((".py", ".pyw", ".pyi", ".ipynb"))


def _back(position: int, edits: Sequence[TextEdit]) -> int | None:
    """Where a position of the changed text was before; None inside of what has changed."""
    shift = 0
    for edit in edits:
        start = edit.span.start + shift
        if position <= start:
            break
        if position < start + len(edit.text):
            return None
        shift += len(edit.text) - (edit.span.end - edit.span.start)
    return position - shift


def repair(
    run: Run, analyse: Analyse, same: Callable[[Outcome], str], tell: Callable[[str], None]
) -> Repaired:
    """Find the fixes with which the program runs strictly, and without which it does not; see `fixed`."""
    texts = Texts()
    found = fixed(run, analyse, same, tell, texts)
    if found.why_not or not found.fixes:
        return found
    return _needed(run, texts, found.fixes, same, tell)


def fixed(
    run: Run,
    analyse: Analyse,
    same: Callable[[Outcome], str],
    tell: Callable[[str], None],
    texts: Texts,
) -> Repaired:
    """Find fixes with which the program runs strictly; not all of them may be needed.

    `analyse` gives the static findings in files, `same` says what is not as it should be in the output of a
    strict run (empty: nothing), `tell` gets a line for each round, `texts` keeps what was read.
    """
    chosen: list[Candidate] = []
    tried: set[object] = set()
    first: Outcome | None = None
    picked: list[Candidate] = []
    for number in range(1, ROUNDS + 1):
        if chosen and not _strictly(run, texts, chosen, same):
            tell(f"round {number}: no device errors left")
            return Repaired(tuple(chosen))
        changed = texts.changed(chosen)
        outcome = run(changed, True)
        if outcome.unchecked:
            return Repaired((), outcome.unchecked)
        first = first or outcome
        if why := _worse(outcome, first, same):
            tell(f"the fixes of round {number - 1} are not all right: {why}")
            chosen, outcome = _without_the_worst(run, texts, chosen, picked, first, same)
            if why := outcome.unchecked or _worse(outcome, first, same):
                return Repaired((), f"with the fixes of round {number - 1}, {why}")
            changed = texts.changed(chosen)
        strays = sum(len(seen.each()) for seen in outcome.seen)
        if not outcome.seen:
            tell(f"round {number}: no device errors left")
            break
        picked = []
        with overlaid(changed):
            findings = analyse(outcome.files)
            for one in (each for seen in outcome.seen for each in seen.each()):
                found = _next(one, findings, texts, [*chosen, *picked], chosen, tried)
                if found is not None:
                    picked.append(found)
        errors = f"{_many(len(outcome.seen), 'device error')} of {_many(strays, 'stray')}"
        tell(f"round {number}: {errors}; {_many(len(picked), 'fix', 'fixes')} made")
        if not picked:
            return Repaired(tuple(chosen), f"no fix is known for {_told(outcome.seen)}")
        chosen += picked
    else:
        return Repaired(tuple(chosen), f"after {ROUNDS} rounds there still are device errors")
    return Repaired(tuple(chosen), _strictly(run, texts, chosen, same))


def _worse(outcome: Outcome, first: Outcome, same: Callable[[Outcome], str]) -> str:
    """Why a run that goes on after device errors is not as good as that without any fix; empty if it is."""
    if outcome.code != first.code and outcome.error:
        return f"the program ends otherwise: {outcome.error}"
    return same(outcome) if not same(first) else ""


def _without_the_worst(
    run: Run,
    texts: Texts,
    chosen: Sequence[Candidate],
    picked: Sequence[Candidate],
    first: Outcome,
    same: Callable[[Outcome], str],
) -> tuple[list[Candidate], Outcome]:
    """The fixes less the one of the last round that has made it worse; less all of them, if it was not one alone."""
    for one in reversed(picked):
        kept = [other for other in chosen if other is not one]
        outcome = run(texts.changed(kept), True)
        if not outcome.unchecked and not _worse(outcome, first, same):
            return kept, outcome
    kept = [one for one in chosen if one not in picked]
    return kept, run(texts.changed(kept), True)


def _next(
    seen: Seen,
    findings: Findings,
    texts: Texts,
    taken: Sequence[Candidate],
    chosen: Sequence[Candidate],
    tried: set[object],
) -> Candidate | None:
    """The first fix for a stray that has not been tried: of a static finding, or else from the run."""

    def all_fixes() -> Iterator[Candidate]:
        yield from fixes(seen, readable, drawn=True)
        yield from candidates(explained(seen, findings, readable), readable)
        yield from fixes(seen, readable)

    for one in all_fixes():
        found = texts.of_the_beginning(one, chosen)
        if found is None:
            continue
        if any(other.parts == found.parts for other in taken):
            return None  # the fix of another error of this round
        if found.parts in tried or not texts.fits(found, taken):
            continue
        tried.add(found.parts)
        try:
            texts.changed([*taken, found])
        except (CannotRewrite, DocumentError, SyntaxError):
            continue
        return found
    return None


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def _told(seen: Sequence[Seen]) -> str:
    at = seen[0].at
    where = f" at {os.path.basename(at.path)}:{at.line}" if at is not None else ""
    more = f" and {len(seen) - 1} more" if len(seen) > 1 else ""
    return f"`{seen[0].operation}`{where}{more}"


def _strictly(run: Run, texts: Texts, chosen: Sequence[Candidate], same: Callable[[Outcome], str]) -> str:
    """Why the program with these fixes does not run as it should; empty if it does."""
    outcome = run(texts.changed(chosen), False)
    if outcome.unchecked:
        return outcome.unchecked
    if outcome.error or outcome.code:
        return f"a strict run ends in {outcome.error or f'exit code {outcome.code}'}"
    return same(outcome)


def _needed(
    run: Run,
    texts: Texts,
    chosen: Sequence[Candidate],
    same: Callable[[Outcome], str],
    tell: Callable[[str], None],
) -> Repaired:
    """The fixes less each without which the strict run is as good."""
    kept = list(chosen)
    before = 0
    while before != len(kept):  # what was left out may have been all that another one was needed for
        before = len(kept)
        for one in reversed(kept):
            fewer = [other for other in kept if other is not one]
            if fewer and not _strictly(run, texts, fewer, same):
                kept = fewer
                tell(f"left out, since no error comes back: {one.title}")
    return Repaired(tuple(kept))
