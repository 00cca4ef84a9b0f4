"""Put a report's changes on disk: file by file, and together where one fix spans several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from devfix.documents import DocumentError, replace_files
from devfix.documents.cache import cache_of
from devfix.documents.journal import record
from devfix.report import FileError, FileResult, Report


def write(report: Report, here: str = "") -> Report:
    """Write every changed file of the report, each whole or not at all; files that one fix spans, together.

    With `here`, the folder that devfix runs in, what they were is kept in cache folders first, for
    `devfix undo`: in that of `here`, or of their own repositories.
    Returns the report with `written`, and with an error for each file that could not be written.
    Ctrl-C ends it after the files at hand; the report says so.
    """
    written: list[str] = []
    errors = _recorded(report.changed, here) if here else []
    interrupted = False
    try:
        for unit in units(report.changed):
            try:
                replace_files([(result.path, result.digest, result.after) for result in unit])
                written.extend(result.path for result in unit)
            except DocumentError as error:
                at = error.path or unit[0].path
                errors.append(FileError(at, error.stage, error.message))
                for result in unit:
                    if result.path != at:
                        why = f"not written, since {at} could not be: one fix changes both"
                        errors.append(FileError(result.path, error.stage, why))
    except KeyboardInterrupt:
        interrupted = True
    everything = sorted((*report.errors, *errors), key=lambda error: error.path)
    return replace(report, written=tuple(written), errors=tuple(everything), interrupted=interrupted)


def _recorded(changed: Sequence[FileResult], here: str) -> list[FileError]:
    """Keep what the files were; errors for those of which that cannot be done."""
    by_cache: dict[str, list[FileResult]] = {}
    for result in changed:
        by_cache.setdefault(cache_of(result.path, here), []).append(result)
    errors = []
    for cache, results in by_cache.items():
        try:
            record(cache, [(one.path, None if one.made else one.before, one.after) for one in results])
        except DocumentError as error:
            errors.append(FileError(cache, error.stage, f"{error.message}; this apply cannot be undone"))
    return errors


def units(changed: Sequence[FileResult]) -> list[list[FileResult]]:
    """The files that have to be written together, in the order of the first of each."""
    unit_of: dict[str, list[FileResult]] = {}
    for result in changed:
        paths = [os.path.abspath(result.path)]
        paths += [os.path.abspath(path) for change in result.changes for path in change.also]
        joined = [result]
        for unit in {id(unit_of[path]): unit_of[path] for path in paths if path in unit_of}.values():
            joined = unit + joined
        for member in joined:
            unit_of[os.path.abspath(member.path)] = joined
        for path in paths:
            unit_of[path] = joined
    return list({id(unit): unit for unit in unit_of.values()}.values())
