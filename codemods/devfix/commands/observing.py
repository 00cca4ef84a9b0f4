"""`--observed FILE`: what a run has seen, for `check`, `diff` and `apply`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from devfix.documents.state import is_below

if TYPE_CHECKING:
    from devfix.commands.running import Run
    from devfix.reports.observed import Seen
    from devfix.reports.report import Report


def observed(run: Run, path: str, repair: bool) -> Report:
    """The report of a run of devfix with what the run of a program has seen, which may make a fix safe."""
    from devfix.findings import Safety
    from devfix.pipeline.selection import Selection, fingerprints
    from devfix.review.seen import with_seen

    if run.from_stdin:
        raise click.UsageError("--observed is about files, so the program cannot come from stdin")
    seen = _seen(run, path)
    before = run.analysed(False, None, None)
    report = with_seen(before, seen, wanted=lambda name: _covers(run, name))
    if not repair:
        return report
    safe, known = (
        {print_ for _, one, print_ in fingerprints(some) if one.fix and one.fix.safety is Safety.SAFE}
        for some in (report, before)
    )
    return run.analysed(True, Selection(only=frozenset(safe - known), raises=True), None)


def _covers(run: Run, path: str) -> bool:
    """Is a file one of those that are looked at?"""
    roots = [os.path.realpath(root) for root in run.paths]
    return any(path == root or is_below(path, root) for root in roots) and (run.may_change(path))


def _seen(run: Run, path: str) -> tuple[Seen, ...]:
    """The errors of a run, but for those that name a file which has changed since: that is said."""
    from devfix.documents import DocumentError, read_bytes
    from devfix.reports.observed import ObservedError, files_of, read
    from devfix.review.device_errors import digest, shown
    from devfix.review.text import printable

    try:
        seen, files = read(read_bytes(path).decode("utf-8", "replace"))
    except (DocumentError, ObservedError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    changed = {name for name in files_of(seen) if not files.get(name) or digest(name) != files[name]}
    for name in sorted(changed):
        run.note(
            f"devfix: {printable(shown(name))}: changed since the run, so what it has seen there is not used"
        )
    return tuple(one for one in seen if changed.isdisjoint(at.path for at in one.places()))
