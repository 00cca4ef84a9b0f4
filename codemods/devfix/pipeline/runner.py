"""All files: spread over processes, and what came of each put together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from devfix.findings import Safety
from devfix.pipeline import depends
from devfix.pipeline.around import Around
from devfix.pipeline.discover import Discovered
from devfix.pipeline.parallel import TookTooLong, limited, no_gc, spread, tidy
from devfix.pipeline.trouble import BUG
from devfix.reports.report import FileError, FileResult, Report, Skipped

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.documents import Document
    from devfix.keeping import Results
    from devfix.pipeline.joint import Begin
    from devfix.pipeline.selection import Selection
    from devfix.pipeline.work import Task

SECONDS = 60.0  # for one file


def process(
    document: Document,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    around: Around | None = None,
) -> FileResult:
    """Analyse one document alone and, with `repair`, apply its fixes of at least `level`.

    Writes nothing and raises nothing: whatever goes wrong is the result's `error`, and then the
    result changes nothing.
    """
    return _task(codemods, level, repair, around).document(document)


def run_bytes(
    path: str,
    data: bytes,
    codemods: Sequence[Codemod],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    around: Around | None = None,
    selection: Selection | None = None,
) -> Report:
    """The report of one file that is not on disk; `path` only names it."""
    task = _task(codemods, level, repair, around and around.anew(), selection)
    report = _report(Discovered((path,)), [_Chunk.of([task.data(path, data)])], level)
    return replace(report, levels=tuple(task.levels.items()))


def _task(
    codemods: Sequence[Codemod],
    level: Safety,
    repair: bool,
    around: Around | None,
    selection: Selection | None = None,
) -> Task:
    from devfix.pipeline.work import Task  # not for what is kept

    return Task(tuple(codemods), level, repair, around, selection)


@dataclass(frozen=True)
class _Chunk:
    """What a worker sends back: only what is worth it, and how many files it could read."""

    results: tuple[FileResult, ...]
    files_read: int
    files: int = 1
    made_of: tuple[tuple[FileResult, Mapping[str, str]], ...] = ()  # where results are to be kept

    @classmethod
    def of(cls, results: Sequence[FileResult]) -> _Chunk:
        unread = sum(1 for result in results if result.error is not None and result.error.stage == "read")
        noteworthy = tuple(result for result in results if result.noteworthy)
        return cls(noteworthy, len(results) - unread, len(results))


def run(
    found: Discovered,
    codemods: Sequence[Codemod] | Callable[[], Sequence[Codemod]],
    level: Safety = Safety.SAFE,
    *,
    repair: bool = True,
    jobs: int = 0,
    seconds: float = SECONDS,
    may_change: Callable[[str], bool] = lambda path: True,
    around: Around | None = None,
    selection: Selection | None = None,
    progress: Callable[[int], None] = lambda files: None,
    kept: Results | None = None,
    each: Callable[[FileResult], None] | None = None,
) -> Report:
    """Process every file; the report is the same whatever `jobs` is (0: one per core).

    With `around` each file's flow sees the files that it imports, analysed themselves or not. With a
    `selection` only its findings are repaired (a report always has all of them). `progress` is told
    how many more files are done. What is `kept` of earlier runs and still holds is not found out again.
    Without `repair`, `each` is told the results of the report in their order, each as soon as those before it are
    there. It need not be told of the last ones, nor of any.
    A fix that reaches into other files is made only where `may_change` allows each of them.
    `codemods` may be a function: it is called only if there is something to analyse (so that codemods with a
    level of their own are no case for it), since importing them takes longer than looking up what is kept.

    A file that takes longer than `seconds`, or kills its worker process, becomes an error of the
    report. Few files, or `jobs=1`, are done in this process, without the time limit.
    """
    start = time.perf_counter()
    known = {}
    if kept is not None:
        with no_gc():
            known = kept.known(found.files)
    progress(len(known))
    if callable(codemods):
        if len(known) == len(found.files):
            report = _report(found, [_Chunk.of([known[path] for path in found.files])], level)
            return replace(report, seconds=time.perf_counter() - start)
        codemods = codemods()
    task = _task(codemods, level, repair, around and around.anew(), selection)
    chunks = []
    early = _Early(found.files, known, each) if each is not None and not repair else None
    todo = [path for path in found.files if path not in known] if known else found.files
    try:
        for chunk in spread(_Chunks(task, kept is not None), todo, _lost, jobs=jobs, seconds=seconds):
            chunks.append(chunk)
            if early is not None:
                early.tell(chunk)
            progress(chunk.files)
            if kept is not None:
                for result, states in chunk.made_of:
                    kept.keep(result, states)
    finally:
        if kept is not None:
            kept.save()
    if known:
        chunks = _in_order(found.files, [*chunks, _Chunk.of(tuple(known.values()))])
    report = _report(found, chunks, level)
    if repair and any(result.joint for result in report.results):
        report = _settled(found, report, task, may_change)
    return replace(report, seconds=time.perf_counter() - start, levels=tuple(task.levels.items()))


def alone(task: Task, prints: frozenset[str]) -> Task:
    """The task that makes nothing but the fixes of these findings, those too that `task` makes though unsafe."""
    from devfix.pipeline.selection import Selection

    known = task.selection
    raised = known is not None and known.raises and prints & (known.only or frozenset())
    return replace(task, level=Safety.UNSAFE if raised else task.level, selection=Selection(only=prints))


def again(task: Task, paths: Sequence[str], may_change: Callable[[str], bool]) -> Report:
    """The report of some files for a task of an earlier run, in this process."""
    return run(
        Discovered(tuple(paths)),
        task.codemods,
        task.level,
        jobs=1,
        may_change=may_change,
        around=task.around,
        selection=task.selection,
    )


def as_it_will_be(
    report: Report, codemods: Sequence[Codemod], around: Around | None, seconds: float = SECONDS
) -> Report:
    """The report of a run with repairs, with the `remaining` findings of a project that has all of them.

    A repair may lie in another file than its finding, or take away the cause of a finding in a third one. Looked
    at again are the files that have findings, and those that change. One that cannot be keeps what it had.
    """
    from devfix.documents import overlaid

    if not report.changed:
        return replace(report, results=tuple(replace(one, remaining=one.findings) for one in report.results))
    files: dict[str, bytes] = {}
    for result in report.changed:
        files[os.path.realpath(result.path)] = files[os.path.abspath(result.path)] = result.after
    task = _task(codemods, report.level, False, around and around.anew())
    results = []
    with overlaid(files):
        for result in report.results:
            if result.error is not None:
                result = replace(result, remaining=result.findings)
            elif result.findings or result.changed:
                with suppress(TookTooLong), limited(seconds):
                    after = task.file(result.path)
                    if after.error is None:
                        result = replace(result, remaining=after.findings)
            results.append(result)
    return replace(report, results=tuple(results))


def _settled(found: Discovered, report: Report, task: Task, may_change: Callable[[str], bool]) -> Report:
    """The report with the fixes made that span files."""
    from devfix.pipeline.joint import settle

    def again(document: Document, begin: Begin) -> FileResult:
        around = task.around and task.around.anew()  # the texts that are read are others each time
        try:
            with limited(SECONDS):
                return replace(task, around=around).document(document, begin)
        except TookTooLong as error:
            return _lost(document.path, str(error)).results[0]

    results = settle(report.results, task.applies, again, may_change)
    return _report(found, [_Chunk(results, report.files_read)], task.level)


class _Early:
    """Tells of results in the order of the paths, while later ones are still to come."""

    def __init__(
        self, paths: Sequence[str], known: Mapping[str, FileResult], each: Callable[[FileResult], None]
    ) -> None:
        self.paths, self.known, self.each = paths, known, each
        self.at = 0

    def tell(self, chunk: _Chunk) -> None:
        """Of what has become final by the next chunk of those that were not known."""
        results = {result.path: result for result in chunk.results}
        left = chunk.files
        while self.at < len(self.paths):
            path = self.paths[self.at]
            result = self.known.get(path)
            if result is None:
                if not left:
                    break
                left -= 1
                result = results.get(path)
            self.at += 1
            if result is not None and result.noteworthy:
                self.each(result)


def _in_order(paths: Sequence[str], chunks: Sequence[_Chunk]) -> list[_Chunk]:
    """One chunk with the results in the order of the paths."""
    at = {path: number for number, path in enumerate(paths)}
    results = sorted((one for chunk in chunks for one in chunk.results), key=lambda one: at[one.path])
    read, files = sum(chunk.files_read for chunk in chunks), sum(chunk.files for chunk in chunks)
    return [_Chunk(tuple(results), read, files)]


def _lost(path: str, why: str) -> _Chunk:
    error = FileError(path, "check", f"{why}; exclude the file: {BUG}")
    return _Chunk((FileResult(path, error=error),), 1)


def _report(found: Discovered, chunks: Sequence[_Chunk], level: Safety) -> Report:
    results = tuple(result for chunk in chunks for result in chunk.results)
    errors = [*found.errors, *(result.error for result in results if result.error is not None)]
    errors += [trouble for result in results for trouble in result.troubles]
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
class _Chunks:
    """The work on a chunk of files, as it is sent to a worker."""

    task: Task
    record: bool = False  # what each result is made of

    def __call__(self, paths: tuple[str, ...]) -> _Chunk:
        results, made_of = [], []
        for path in paths:
            if self.record:
                with depends.recording() as needs:
                    result = self.task.file(path)
                made_of.append((result, needs.states))
            else:
                result = self.task.file(path)
            results.append(result)
            tidy()
        return replace(_Chunk.of(results), made_of=tuple(made_of))
