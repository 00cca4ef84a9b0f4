"""Results: what came of one file, and of a run. Plain data that crosses process borders.

Positions are lines and columns here, 1-based and in characters, since the texts stay behind
in the worker. "Git lines" are lines that end with LF only, 0-based: the lines of a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from devfix.findings import Safety, TextEdit


@dataclass(frozen=True)
class FileError:
    """Something that could not be done with one path; the others were still done."""

    path: str
    stage: str
    message: str


# Stands for the codemod in findings that only a run knew: `devfix repair` makes their fixes, `devfix apply` none.
SEEN = "seen-in-run"
UNREAD = "cells that do not parse: "  # how the reason begins where a notebook was read in part


@dataclass(frozen=True)
class Skipped:
    path: str
    reason: str


@dataclass(frozen=True, order=True)
class Place:
    """Lines and columns from 1. In a notebook, `line` is the line of the JSON text, and columns are those
    of the cell's own text."""

    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0  # number of the notebook's cell, from 1
    cell_line: int = 0  # line in the cell, from 1


@dataclass(frozen=True)
class PlacedEdit:
    """`path` is empty for the finding's own file; a file that the edit makes has an empty place."""

    place: Place
    text: str
    path: str = ""


@dataclass(frozen=True)
class PlacedFix:
    title: str
    safety: Safety
    edits: tuple[PlacedEdit, ...]


@dataclass(frozen=True)
class PlacedRelated:
    """`path` is empty for the finding's own file; `line` is 0 where it is not known."""

    path: str
    line: int
    column: int
    message: str
    cell: int = 0
    cell_line: int = 0


@dataclass(frozen=True)
class PlacedFinding:
    """A finding as it is shown.

    `refusal` says why a fix that the codemod had could not be turned into text; `fix` is None then.
    `code` is the first line that it is on, without its end, and `scope` the function or class around
    it ("Net.forward"; empty at the top of the file).
    """

    codemod: str
    message: str
    place: Place
    related: tuple[PlacedRelated, ...] = ()
    fix: PlacedFix | None = None
    refusal: str = ""
    code: str = ""
    scope: str = ""

    @property
    def key(self) -> str:
        """What stays the same when lines move: the codemod, the scope and the code, as 16 hex digits.

        The path is not in it, and two findings of one file may share a key.
        """
        import hashlib

        parts = "\0".join((self.codemod, self.scope, " ".join(self.code.split())))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class Change:
    """An applied fix, for the reader of a patch: the git lines of `before` that it touched.

    `also` names the other files of a fix that spans several; `home` is False in all but the
    finding's own, so that a fix counts once. `verdict` says on what the program has been run with it,
    such as "verified: cuda (simulated)"; empty where nobody asked. `found_in` names the files with the
    findings that it repairs, where it changes other files only. `cell` and `cell_line` are those of a
    notebook where it begins.
    """

    codemod: str
    message: str
    title: str
    safety: Safety
    lines: tuple[tuple[int, int], ...]
    also: tuple[str, ...] = ()
    home: bool = True
    verdict: str = ""
    found_in: tuple[str, ...] = ()
    cell: int = 0
    cell_line: int = 0


@dataclass(frozen=True)
class Part:
    """What a fix over several files does to one of them.

    `digest` is the SHA-256 of the bytes that `edits` refer to; empty where the file is to be made
    of `new`.
    """

    path: str
    digest: str
    edits: tuple[TextEdit, ...] = ()
    new: str = ""


@dataclass(frozen=True)
class Joint:
    """A fix over several files; the first part is the finding's own file."""

    codemod: str
    message: str
    title: str
    safety: Safety
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Scope:
    """A function or class of `before` in git lines: its `def` line, and first to last line."""

    header: int
    first: int
    last: int


@dataclass(frozen=True)
class FileResult:
    """What came of one file.

    `findings` are those of the file as it was read, `remaining` those of `after`. `before` and
    `after` are the whole bytes of a changed file, and empty for one that did not change. `joint`
    are the fixes that reach into other files, relative to the text as it was read.
    """

    path: str
    findings: tuple[PlacedFinding, ...] = ()
    remaining: tuple[PlacedFinding, ...] = ()
    before: bytes = b""
    after: bytes = b""
    digest: str = ""
    changes: tuple[Change, ...] = ()
    scopes: tuple[Scope, ...] = ()
    error: FileError | None = None
    skipped: str = ""
    seconds: float = 0.0
    joint: tuple[Joint, ...] = ()
    unused: tuple[
        tuple[int, str], ...
    ] = ()  # suppressions that silence nothing: line, and id if it names one
    troubles: tuple[FileError, ...] = ()  # what some codemods could not do; the rest was done

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def made(self) -> bool:
        """The file did not exist: a fix makes it."""
        return self.changed and not self.digest and not self.before

    @property
    def own_changes(self) -> list[Change]:
        """Those of its own findings: a fix that spans files is in this list of one of them."""
        return [change for change in self.changes if change.home]

    @property
    def applied(self) -> int:
        """How many fixes went into `after`; one that spans files counts in the finding's own."""
        return len(self.own_changes)

    @property
    def noteworthy(self) -> bool:
        return bool(
            self.findings or self.error or self.changed or self.skipped or self.unused or self.troubles
        )


@dataclass(frozen=True)
class Report:
    """A run: the noteworthy results in the order of their paths, and counts over all files."""

    results: tuple[FileResult, ...]
    errors: tuple[FileError, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    files: int = 0
    files_read: int = 0
    level: Safety = Safety.SAFE
    levels: tuple[tuple[str, Safety], ...] = ()  # of codemods that a recipe gives a level of their own
    written: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def findings(self) -> int:
        return sum(len(result.findings) for result in self.results)

    def only(self, keep: Callable[[str, Sequence[PlacedFinding]], Sequence[bool]]) -> Report:
        """The report with those findings that `keep` selects from each file's."""
        results = []
        for result in self.results:
            kept = keep(result.path, result.findings)
            found = tuple(one for one, wanted in zip(result.findings, kept, strict=True) if wanted)
            results.append(replace(result, findings=found))
        return replace(self, results=tuple(result for result in results if result.noteworthy))

    def level_of(self, codemod: str) -> Safety:
        """From which safety the fixes of a codemod are applied."""
        return dict(self.levels).get(codemod, self.level)

    @property
    def fixable(self) -> int:
        """Findings whose fix is allowed at this run's levels."""
        return sum(
            1
            for result in self.results
            for finding in result.findings
            if finding.fix is not None and finding.fix.safety >= self.level_of(finding.codemod)
            if finding.codemod != SEEN
        )

    @property
    def applied(self) -> int:
        """Fixes in the files that were written."""
        written = set(self.written)
        return sum(result.applied for result in self.results if result.path in written)

    @property
    def changed(self) -> tuple[FileResult, ...]:
        return tuple(result for result in self.results if result.changed)
