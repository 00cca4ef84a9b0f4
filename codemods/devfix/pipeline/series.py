"""The same repairs as several steps, one after the other: by codemod, by file or by fix.

Each step is a report of its own, relative to what the steps before it have made, so that its patch applies
after theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from devfix.documents import overlaid
from devfix.pipeline.joint import Allowed
from devfix.pipeline.runner import again, alone
from devfix.pipeline.selection import prints
from devfix.pipeline.work import Task
from devfix.pipeline.writing import units
from devfix.reports.report import FileResult, Report

By = Literal["codemod", "file", "fix"]


@dataclass(frozen=True)
class Step:
    """A part of the repairs: what it is about, and its report, of the changed files only."""

    name: str
    report: Report


def steps(report: Report, task: Task, by: By, may_change: Allowed = lambda path: True) -> Iterator[Step]:
    """The repairs of `report`, made with `task`, one step at a time.

    Each yields other bytes of its files than the step before; together they are those of `report`,
    unless one fix makes another one needless or impossible, or waits for one of another codemod. Of a fix that reaches
    into a file that `may_change` does not allow, nothing is made.
    """
    if by == "file":
        for unit in units(report.changed):
            names = ", ".join(result.path for result in unit)
            yield Step(names, replace(report, results=tuple(unit)))
        return
    overlay: dict[str, bytes] = {}
    paths = tuple(result.path for result in report.results if result.findings)
    if by == "codemod":
        for codemod in task.codemods:
            step = _made(replace(task, codemods=(codemod,)), paths, overlay, may_change)
            if step.changed:
                yield Step(codemod.id, step)
        return
    for path in paths:
        yield from _by_fix(task, path, overlay, may_change)


def together(report: Report, steps: Sequence[Step]) -> Report:
    """The report with what the steps make in the place of what was made at once."""
    parts: dict[str, list[FileResult]] = {}
    for step in steps:
        for result in step.report.results:
            parts.setdefault(result.path, []).append(result)
    results = []
    for result in report.results:
        its = parts.get(result.path, [])
        changes = tuple(change for one in its for change in one.changes)
        results.append(replace(result, after=its[-1].after if its else result.before, changes=changes))
    return replace(report, results=tuple(results))


def _by_fix(task: Task, path: str, overlay: dict[str, bytes], may_change: Allowed) -> Iterator[Step]:
    tried: set[str] = set()
    changed = False
    while True:
        with overlaid(overlay):
            found = replace(task, repair=False).file(path)
        names = list(prints(path, found.findings))
        print_ = next((name for name in names if name not in tried), None)
        if print_ is None:
            if not changed:
                return
            tried, changed = set(), False  # what needs another fix first has its turn now
            continue
        finding = found.findings[names.index(print_)]
        step = _made(alone(task, frozenset([print_])), (path,), overlay, may_change)
        if step.changed:
            changed = True
            yield Step(f"{finding.codemod} {path}:{finding.place.line}", step)
        else:
            tried.add(print_)


def _made(task: Task, paths: Sequence[str], overlay: dict[str, bytes], may_change: Allowed) -> Report:
    """One step on top of those before, which are in `overlay`; its own changes are added to that."""
    with overlaid(overlay):
        report = again(task, paths, may_change)
    overlay.update((os.path.abspath(result.path), result.after) for result in report.changed)
    return replace(report, results=report.changed)
