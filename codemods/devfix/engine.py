"""One file, then all files. The only place that catches every exception, file by file."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from devfix.codemod import Codemod
from devfix.discover import Discovered
from devfix.documents import Document, DocumentError, document_of, read_bytes, replace_file
from devfix.findings import Finding, Safety, TextEdit
from devfix.parallel import spread
from devfix.place import back, git_lines, git_scopes, line_feeds, place_finding
from devfix.report import Change, FileError, FileResult, PlacedFinding, Report, Scope, Skipped
from devfix.source import Source
from devfix.suppress import skips_file, unsuppressed

PASSES = 10
SECONDS = 60.0  # for one file
_BUG = "this is devfix's own bug, please report it with the file"


class Refused(Exception):
    """devfix refuses to change a file; the message says why."""


# --- one file ------------------------------------------------------------------------------


def process(
    document: Document, codemods: Sequence[Codemod], level: Safety = Safety.SAFE, *, repair: bool = True
) -> FileResult:
    """Analyse one document and, with `repair`, apply its fixes of at least `level`.

    Writes nothing and raises nothing: whatever goes wrong is the result's `error`, and then the
    result changes nothing.
    """
    return _guarded(document.path, lambda work: work.document(document), codemods, level, repair)


def process_file(
    path: str, codemods: Sequence[Codemod], level: Safety = Safety.SAFE, *, repair: bool = True
) -> FileResult:
    """`process` of a file that is still to be read."""

    def do(work: _Work) -> FileResult:
        data = read_bytes(path)
        if path.endswith(".ipynb") and not work.may_want(data):
            return FileResult(path)  # taking a notebook apart costs more than a look at its bytes
        return work.document(document_of(path, data))

    return _guarded(path, do, codemods, level, repair)


def run_bytes(
    path: str, data: bytes, codemods: Sequence[Codemod], level: Safety = Safety.SAFE, *, repair: bool = True
) -> Report:
    """The report of one file that is not on disk; `path` only names it."""
    result = _guarded(path, lambda work: work.document(document_of(path, data)), codemods, level, repair)
    return _report(Discovered((path,)), [_Chunk.of([result])], level)


def _guarded(
    path: str,
    do: Callable[[_Work], FileResult],
    codemods: Sequence[Codemod],
    level: Safety,
    repair: bool,
) -> FileResult:
    work = _Work(tuple(codemods), level, repair)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarnings of the analysed file are not ours
            result = do(work)
    except Exception as error:
        stage, message = _explain(error, work.stage)
        result = FileResult(path, work.findings, error=FileError(path, stage, message))
    return replace(result, seconds=time.perf_counter() - start)


def _explain(error: Exception, stage: str) -> tuple[str, str]:
    """Stage and message for the user of whatever happened to one file."""
    if isinstance(error, DocumentError):
        return error.stage, error.message
    if isinstance(error, Refused):
        return stage, str(error)
    if isinstance(error, SyntaxError) and stage == "parse":
        return stage, _syntax(error)
    if isinstance(error, (RecursionError, MemoryError)):
        what = "too deeply nested" if isinstance(error, RecursionError) else "too large or too deeply nested"
        return stage, f"{what} for Python to {stage}; exclude the file"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return stage, f"{type(error).__name__}: {error} ({where}); {_BUG}"


_PYTHON2 = (
    "missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "invalid decimal literal",
)


def _syntax(error: SyntaxError) -> str:
    import platform

    line = f"line {error.lineno}: " if error.lineno else ""
    python2 = any(text in (error.msg or "").lower() for text in _PYTHON2)
    hint = "is it Python 2? devfix reads Python 3 only" if python2 else "correct or exclude the file"
    return f"{line}{error.msg} (read as Python {platform.python_version()}); {hint}"


@dataclass
class _Work:
    """The work on one file; `stage` and `findings` outlive an exception."""

    codemods: tuple[Codemod, ...]
    level: Safety
    repair: bool
    stage: str = "read"
    findings: tuple[PlacedFinding, ...] = ()
    history: list[tuple[TextEdit, ...]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    scopes: tuple[Scope, ...] = ()
    feeds: list[int] = field(default_factory=list)

    def may_want(self, data: bytes) -> bool:
        """Has a notebook the words of a codemod at all? JSON writes them as Python does."""
        text = data.decode("utf-8", "replace")
        return any(codemod.wants(text) for codemod in self.codemods)

    def document(self, document: Document) -> FileResult:
        """The result of one document; that of a notebook in the lines and cells of its file."""
        result = self.python(document)
        if not document.path.endswith(".ipynb"):
            return result
        from devfix.documents.notebook import Notebook
        from devfix.place import change_in_notebook, finding_in_notebook

        assert isinstance(document, Notebook)
        problems = "; ".join(document.problems)
        self.findings = tuple(finding_in_notebook(finding, document) for finding in result.findings)
        return replace(
            result,
            findings=self.findings,
            remaining=tuple(finding_in_notebook(finding, document) for finding in result.remaining),
            changes=tuple(change_in_notebook(change, document) for change in result.changes),
            scopes=(),
            skipped=result.skipped or (f"cells that do not parse: {problems}" if problems else ""),
        )

    def python(self, document: Document) -> FileResult:
        path, text = document.path, document.text
        if not any(codemod.wants(text) for codemod in self.codemods):
            return FileResult(path)
        if skips_file(text):
            return FileResult(path, skipped="devfix: skip-file")
        seen = {text}
        source = self.parse(text)
        for number in range(PASSES + 1):
            found, edits = self.check(source)
            placed = tuple(place_finding(source, *pair) for pair in zip(found, edits, strict=True))
            if number == 0:
                self.findings = placed
            after = self.rewrite(source, found, edits) if self.repair else None
            if after is None:
                break
            if after.text in seen or number == PASSES:
                self.stage = "rewrite"
                ids = ", ".join(sorted({change.codemod for change in self.changes}))
                raise Refused(f"the fixes of {ids} come to no end, so none was applied; {_BUG}")
            seen.add(after.text)
            source = after
        if source.text == text:
            return FileResult(path, self.findings, placed)
        self.stage = "write"
        return FileResult(
            path,
            self.findings,
            placed,
            before=document.data,
            after=document.encode(source.text),
            digest=document.digest,
            changes=tuple(self.changes),
            scopes=self.scopes,
        )

    def parse(self, text: str) -> Source:
        self.stage = "parse"
        return Source(text)

    def check(self, source: Source) -> tuple[list[Finding], list[tuple[TextEdit, ...] | str]]:
        """What the codemods say, in order, and the text edits of each fix (or why there are none)."""
        from devfix.flow import analyse

        self.stage = "check"
        wanted = [codemod for codemod in self.codemods if codemod.wants(source.text)]
        if not wanted:
            return [], []
        flow = analyse(source)
        unique = dict.fromkeys(finding for codemod in wanted for finding in codemod.check(flow))
        found = sorted(
            unsuppressed(source, tuple(unique)),
            key=lambda finding: (finding.span, finding.codemod, finding.message),
        )
        flow.release()
        self.stage = "rewrite"
        return found, [self.edits(source, finding) for finding in found]

    def edits(self, source: Source, finding: Finding) -> tuple[TextEdit, ...] | str:
        if finding.fix is None:
            return ()
        from devfix.rewrite import CannotRewrite, text_edits  # libcst: only if there is a fix

        try:
            return text_edits(source, finding.fix)
        except CannotRewrite as error:
            return str(error) or "the code around it cannot be rewritten"

    def rewrite(
        self, source: Source, found: list[Finding], edits: list[tuple[TextEdit, ...] | str]
    ) -> Source | None:
        """The source with the fixes of this pass, or None if there is nothing to apply."""
        wanted: list[tuple[Finding, tuple[TextEdit, ...]]] = [
            (finding, edit)
            for finding, edit in zip(found, edits, strict=True)
            if finding.fix is not None
            and finding.fix.safety >= self.level
            and not isinstance(edit, str)
            and edit
        ]
        if not wanted:
            return None
        from devfix import rewrite

        if not self.history:
            self.scopes, self.feeds = git_scopes(source), line_feeds(source.text)
        chosen = [wanted[index] for index in rewrite.select([edit for _, edit in wanted], source)]
        merged = rewrite.merge([edit for _, edit in chosen])
        text = rewrite.apply(source.text, merged)
        self.stage = "verify"
        try:
            rewrite.verify(source.text, merged, text)
        except rewrite.CannotRewrite as error:
            ids = ", ".join(sorted({finding.codemod for finding, _ in chosen}))
            raise Refused(f"the fixes of {ids} were not applied: {error}; {_BUG}") from error
        after = self.parse(text)
        self.changes.extend(self.change(*pair) for pair in chosen)
        self.history.append(merged)
        return after

    def change(self, finding: Finding, edits: tuple[TextEdit, ...]) -> Change:
        """A fix of this pass in the git lines of the file as it was read."""
        assert finding.fix is not None
        return Change(
            finding.codemod,
            finding.message,
            finding.fix.title,
            finding.fix.safety,
            tuple(git_lines(self.feeds, back(edit.span, self.history)) for edit in edits),
        )


# --- all files -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chunk:
    """What a worker sends back: only what is worth it, and how many files it could read."""

    results: tuple[FileResult, ...]
    files_read: int

    @classmethod
    def of(cls, results: Sequence[FileResult]) -> _Chunk:
        unread = sum(1 for result in results if result.error is not None and result.error.stage == "read")
        return cls(tuple(result for result in results if result.noteworthy), len(results) - unread)


def run(
    found: Discovered,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    jobs: int = 0,
    seconds: float = SECONDS,
) -> Report:
    """Process every file; the report is the same whatever `jobs` is (0: one per core).

    A file that takes longer than `seconds`, or kills its worker process, becomes an error of the
    report. Few files, or `jobs=1`, are done in this process, without the time limit.
    """
    start = time.perf_counter()
    task = _Task(tuple(codemods), level, repair)
    chunks = tuple(spread(task, found.files, _lost, jobs=jobs, seconds=seconds))
    return replace(_report(found, chunks, level), seconds=time.perf_counter() - start)


def _lost(path: str, why: str) -> _Chunk:
    error = FileError(path, "check", f"{why}; exclude the file: {_BUG}")
    return _Chunk((FileResult(path, error=error),), 1)


def _report(found: Discovered, chunks: Sequence[_Chunk], level: Safety) -> Report:
    results = tuple(result for chunk in chunks for result in chunk.results)
    errors = [*found.errors, *(result.error for result in results if result.error is not None)]
    skipped = [
        *found.skipped,
        *(Skipped(result.path, result.skipped) for result in results if result.skipped),
    ]
    return Report(
        results,
        tuple(sorted(errors, key=lambda error: error.path)),
        tuple(sorted(skipped, key=lambda skip: skip.path)),
        len(found.files),
        sum(chunk.files_read for chunk in chunks),
        level,
    )


def write(report: Report) -> Report:
    """Write every changed file of the report, each whole or not at all.

    Returns the report with `written`, and with an error for each file that could not be written.
    Ctrl-C ends it after the file at hand; the report says so.
    """
    written: list[str] = []
    errors: list[FileError] = []
    interrupted = False
    try:
        for result in report.changed:
            try:
                replace_file(result.path, result.digest, result.after)
                written.append(result.path)
            except DocumentError as error:
                errors.append(FileError(result.path, error.stage, error.message))
    except KeyboardInterrupt:
        interrupted = True
    everything = sorted((*report.errors, *errors), key=lambda error: error.path)
    return replace(report, written=tuple(written), errors=tuple(everything), interrupted=interrupted)


@dataclass(frozen=True)
class _Task:
    """The work on a chunk of files, as it is sent to a worker."""

    codemods: tuple[Codemod, ...]
    level: Safety
    repair: bool

    def __call__(self, paths: tuple[str, ...]) -> _Chunk:
        return _Chunk.of(
            [process_file(path, self.codemods, self.level, repair=self.repair) for path in paths]
        )
