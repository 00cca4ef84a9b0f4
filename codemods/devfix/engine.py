"""One file, then all files. The only place that catches every exception, file by file."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from devfix.around import Around
from devfix.codemod import Codemod, wanting
from devfix.discover import Discovered
from devfix.documents import Document, digest_of, document_of, read_bytes
from devfix.findings import Finding, Safety, TextEdit
from devfix.parallel import spread
from devfix.place import back, git_lines, git_scopes, line_feeds, place_finding
from devfix.report import Change, FileError, FileResult, Joint, PlacedFinding, Report, Scope, Skipped
from devfix.source import Source
from devfix.suppress import skips_file, unsuppressed
from devfix.trouble import BUG, Refused, explained

if TYPE_CHECKING:
    from devfix.joint import Begin

PASSES = 10
SECONDS = 60.0  # for one file


# --- one file ------------------------------------------------------------------------------


def process(
    document: Document,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    begin: Begin | None = None,
    around: Around | None = None,
) -> FileResult:
    """Analyse one document and, with `repair`, apply its fixes of at least `level`.

    With `around` its flow sees the files that it imports; without, it is alone. With `begin` the
    work goes on from that text, which fixes over several files have made of it.
    Writes nothing and raises nothing: whatever goes wrong is the result's `error`, and then the
    result changes nothing.
    """

    def do(work: _Work) -> FileResult:
        work.begin = begin
        return work.document(document)

    return _guarded(document.path, do, codemods, level, repair, around)


def process_file(
    path: str,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    around: Around | None = None,
) -> FileResult:
    """`process` of a file that is still to be read."""

    def do(work: _Work) -> FileResult:
        data = read_bytes(path)
        if path.endswith(".ipynb") and not work.may_want(data):
            return FileResult(path)  # taking a notebook apart costs more than a look at its bytes
        return work.document(document_of(path, data))

    return _guarded(path, do, codemods, level, repair, around)


def run_bytes(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    around: Around | None = None,
) -> Report:
    """The report of one file that is not on disk; `path` only names it."""
    around = around and around.anew()
    result = _guarded(path, lambda w: w.document(document_of(path, data)), codemods, level, repair, around)
    return _report(Discovered((path,)), [_Chunk.of([result])], level)


def _guarded(
    path: str,
    do: Callable[[_Work], FileResult],
    codemods: Sequence[Codemod],
    level: Safety,
    repair: bool,
    around: Around | None,
) -> FileResult:
    work = _Work(tuple(codemods), level, repair, path, around)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarnings of the analysed file are not ours
            result = do(work)
    except Exception as error:
        stage, message = explained(error, work.stage)
        result = FileResult(path, work.findings, error=FileError(path, stage, message))
    return replace(result, seconds=time.perf_counter() - start)


@dataclass
class _Work:
    """The work on one file; `stage` and `findings` outlive an exception."""

    codemods: tuple[Codemod, ...]
    level: Safety
    repair: bool
    path: str
    around: Around | None
    stage: str = "read"
    findings: tuple[PlacedFinding, ...] = ()
    history: list[tuple[TextEdit, ...]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    scopes: tuple[Scope, ...] = ()
    feeds: list[int] = field(default_factory=list)
    begin: Begin | None = None
    joint: list[Joint] = field(default_factory=list)

    def may_want(self, data: bytes) -> bool:
        """Has a notebook the words of a codemod at all? JSON writes them as Python does."""
        text = data.decode("utf-8", "replace")
        return bool(wanting(self.codemods, text))

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
        if self.begin is None:
            if not wanting(self.codemods, text):
                return FileResult(path)
            if skips_file(text):
                return FileResult(path, skipped="devfix: skip-file")
            source = self.parse(text)
        else:
            source = self.continued(text, self.begin)
        seen = {text, source.text}
        for number in range(PASSES + 1):
            found, edits = self.check(source)
            placed = tuple(place_finding(source, *pair) for pair in zip(found, edits, strict=True))
            if number == 0:
                placed = self.with_joint(document, found, edits, placed)
                self.findings = placed
            after = self.rewrite(source, found, edits) if self.repair else None
            if after is None:
                break
            if after.text in seen or number == PASSES:
                self.stage = "rewrite"
                ids = ", ".join(sorted({change.codemod for change in self.changes}))
                raise Refused(f"the fixes of {ids} come to no end, so none was applied; {BUG}")
            seen.add(after.text)
            source = after
        if source.text == text:
            return FileResult(path, self.findings, placed, joint=tuple(self.joint))
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
            joint=tuple(self.joint),
        )

    def continued(self, text: str, begin: Begin) -> Source:
        """The source that fixes over several files have made of `text`."""
        original = self.parse(text)
        self.scopes, self.feeds = git_scopes(original), line_feeds(text)
        self.history.extend(begin.history)
        self.changes.extend(begin.changes)
        return self.parse(begin.text)

    def with_joint(
        self,
        document: Document,
        found: list[Finding],
        edits: list[tuple[TextEdit, ...] | str],
        placed: tuple[PlacedFinding, ...],
    ) -> tuple[PlacedFinding, ...]:
        """The findings with what their fixes do in other files; those fixes are kept for later."""
        if not any(finding.fix is not None and finding.fix.elsewhere for finding in found):
            return placed
        from devfix.joint import placed_joint

        digest = digest_of(document.encode(self.begin.text)) if self.begin else document.digest
        return tuple(
            placed_joint(one, finding, document.path, digest, edit, self.joint)
            for one, finding, edit in zip(placed, found, edits, strict=True)
        )

    def parse(self, text: str) -> Source:
        self.stage = "parse"
        return Source(text)

    def check(self, source: Source) -> tuple[list[Finding], list[tuple[TextEdit, ...] | str]]:
        """What the codemods say, in order, and the text edits of each fix (or why there are none)."""
        from devfix.flow import analyse

        self.stage = "check"
        wanted = wanting(self.codemods, source.text)
        if not wanted:
            return [], []
        outside = None
        if self.around is not None:
            from devfix.project import outside as outside_of

            outside = outside_of(self.around, self.path, source)
        flow = analyse(source, outside)
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
            and not finding.fix.elsewhere
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
            raise Refused(f"the fixes of {ids} were not applied: {error}; {BUG}") from error
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
    may_change: Callable[[str], bool] = lambda path: True,
    around: Around | None = None,
) -> Report:
    """Process every file; the report is the same whatever `jobs` is (0: one per core).

    With `around` each file's flow sees the files that it imports, analysed themselves or not.

    A fix that reaches into other files is made only where `may_change` allows each of them.

    A file that takes longer than `seconds`, or kills its worker process, becomes an error of the
    report. Few files, or `jobs=1`, are done in this process, without the time limit.
    """
    start = time.perf_counter()
    task = _Task(tuple(codemods), level, repair, around and around.anew())
    chunks = tuple(spread(task, found.files, _lost, jobs=jobs, seconds=seconds))
    report = _report(found, chunks, level)
    if repair and any(result.joint for result in report.results):
        report = _settled(found, report, task, may_change)
    return replace(report, seconds=time.perf_counter() - start)


def _settled(found: Discovered, report: Report, task: _Task, may_change: Callable[[str], bool]) -> Report:
    """The report with the fixes made that span files."""
    from devfix.joint import settle

    def again(document: Document, begin: Begin) -> FileResult:
        around = task.around and task.around.anew()  # the texts that are read are others each time
        return process(document, task.codemods, task.level, begin=begin, around=around)

    results = settle(report.results, task.level, again, may_change)
    return _report(found, [_Chunk(results, report.files_read)], task.level)


def _lost(path: str, why: str) -> _Chunk:
    error = FileError(path, "check", f"{why}; exclude the file: {BUG}")
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


@dataclass(frozen=True)
class _Task:
    """The work on a chunk of files, as it is sent to a worker."""

    codemods: tuple[Codemod, ...]
    level: Safety
    repair: bool
    around: Around | None = None

    def __call__(self, paths: tuple[str, ...]) -> _Chunk:
        return _Chunk.of(
            [
                process_file(path, self.codemods, self.level, repair=self.repair, around=self.around)
                for path in paths
            ]
        )
