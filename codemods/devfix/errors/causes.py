"""Which finding explains an error: the analysis of the files that the traceback goes through, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devfix.codemod import Codemod
from devfix.documents import Document
from devfix.documents.notebook import Notebook
from devfix.errors.messages import Kind, kind_of
from devfix.errors.operations import Hint, hint_for
from devfix.errors.places import Located, locate, shown_line
from devfix.errors.settings import Setting, settings_in
from devfix.errors.tracebacks import Traceback, read
from devfix.errors.values import Known, known_at
from devfix.findings import Safety, Span, TextEdit
from devfix.pipeline.runner import process
from devfix.reports.report import PlacedFinding
from devfix.rewrite import apply
from devfix.text.lines import line_starts
from devfix.text.source import FUNCTIONS, Source

MOST = 3  # causes that are shown
_OF_A_DEFAULT = ("generator", "pinned")  # kinds that a default device causes by itself
_MEETS_A_DEFAULT = (*_OF_A_DEFAULT, "mixed", "index", "rnn", "weight-type", "numpy", "lengths", "no-cuda")
_MAY_BE = 35  # the score from which on a finding may be the cause


@dataclass(frozen=True)
class Cause:
    """A finding that may explain the error; the higher the score, the likelier."""

    path: str
    finding: PlacedFinding
    score: int
    texts: tuple[str, str] = ("", "")  # the file before and after this one repair; of a notebook, nothing


@dataclass(frozen=True)
class Explanation:
    """What there is to say of a pasted error. `kind` is None for one that is not about devices."""

    traceback: Traceback
    kind: Kind | None
    places: tuple[Located, ...] = ()
    causes: tuple[Cause, ...] = ()
    known: tuple[Known, ...] = ()
    settings: tuple[Setting, ...] = ()
    hint: Hint | None = None

    @property
    def explained(self) -> bool:
        """Is there a cause, or a default of the whole program that is one?"""
        default = self.kind is not None and self.kind.id in _OF_A_DEFAULT
        return bool(self.causes or (default and self.settings))


def explain(text: str, files: Sequence[str], codemods: Sequence[Codemod]) -> Explanation:
    """Explain a pasted traceback by the files of a repository; reads them, runs and writes nothing."""
    traceback = read(text)
    kind = kind_of(traceback.message) or kind_of(text)
    if kind is None:
        return Explanation(traceback, None)
    places = locate(traceback.frames, files)
    causes = _causes(kind, places, codemods)
    inner = next((place for place in reversed(places) if place.certain), None)  # of the frames that are here
    return Explanation(
        traceback,
        kind,
        places,
        causes,
        known_at(inner.document, inner.line) if inner is not None else (),
        settings_in(files) if kind.id in _MEETS_A_DEFAULT else (),
        None if causes else hint_for(traceback.message, kind),
    )


def _causes(kind: Kind, places: tuple[Located, ...], codemods: Sequence[Codemod]) -> tuple[Cause, ...]:
    found: dict[tuple[str, PlacedFinding], Cause] = {}
    for document in {place.document.path: place.document for place in places}.values():
        result = process(document, codemods, Safety.UNSAFE, repair=False)
        scopes = _scopes(document)
        for finding in result.findings:
            score = max(
                _score(finding, kind, place, scopes, depth)
                for depth, place in enumerate(reversed(places))
                if place.document.path == document.path
            )
            if score >= _MAY_BE:
                found[document.path, finding] = Cause(
                    document.path, finding, score, _texts(document, finding)
                )
    ranked = sorted(
        found.values(),
        key=lambda cause: (-cause.score, cause.path, cause.finding.place, cause.finding.codemod),
    )
    # Far behind the likeliest one, a finding is true of the file but not the cause.
    return tuple(cause for cause in ranked[:MOST] if cause.score >= ranked[0].score - 45)


def _score(
    finding: PlacedFinding, kind: Kind, place: Located, scopes: Sequence[tuple[int, int]], depth: int
) -> int:
    """How well a finding explains an error in a frame, `depth` frames out from the innermost one."""
    if finding.codemod not in kind.codemods:
        return 0
    score = 40 - 3 * kind.codemods.index(finding.codemod) - min(2 * depth, 12)
    first, last = finding.place.line, finding.place.end_line
    line = shown_line(place.document, place.line)
    if first <= line <= last:
        score += 60
    if any(other.line == line for other in finding.related):
        score += 45
    if any(a <= line <= b and a <= first <= b for a, b in scopes):
        score += 25
    score -= min(abs(first - line) // 20, 15)
    return score if place.certain else score - 10


def _scopes(document: Document) -> tuple[tuple[int, int], ...]:
    """First and last line of every function."""
    try:
        source = Source(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(
        (shown_line(document, node.lineno), shown_line(document, node.end_lineno or node.lineno))
        for node in source.walk()
        if isinstance(node, FUNCTIONS)
    )


def _texts(document: Document, finding: PlacedFinding) -> tuple[str, str]:
    if finding.fix is None or isinstance(document, Notebook):
        return "", ""
    starts = line_starts(document.text)

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column - 1

    edits = tuple(
        TextEdit(
            Span(
                offset(edit.place.line, edit.place.column), offset(edit.place.end_line, edit.place.end_column)
            ),
            edit.text,
        )
        for edit in finding.fix.edits
        if not edit.path
    )
    return document.text, apply(document.text, edits)
