"""Put a report's changes on disk: file by file, and together where one fix spans several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from devfix.documents import DocumentError, replace_files
from devfix.documents.journal import finished, record, running
from devfix.documents.state import leads_out, tree_for
from devfix.pipeline.signals import held
from devfix.reports.report import FileError, FileResult, Report


def write(report: Report, here: str = "") -> Report:
    """Write every changed file of the report, each whole or not at all; files that one fix spans, together.

    With `here`, the folder that devfix runs in, what they were is kept first, for `devfix undo` and for the run
    after a crash: as that of the tree of `here`, or of their own trees. Where that cannot be done, only files
    that stand alone are written. A name whose links lead out of its tree is not written through.
    Returns the report with `written`, and with an error for each file that could not be written, whose findings remain.
    Ctrl-C ends it after the files at hand; the report says so.
    """
    written: list[str] = []
    errors: list[FileError] = []
    unsafe: set[str] = set()
    interrupted = False
    together = [unit for unit in units(report.changed) if not here or _stays(unit, here, errors)]
    journals: dict[str, str] = {}
    try:
        journals = _recorded(together, here, errors, unsafe) if here else {}
        with running(list(journals.values())):
            for unit in together:
                if len(unit) > 1 and unit[0].path in unsafe:
                    errors += [FileError(one.path, "write", _NO_JOURNAL) for one in unit]
                    continue
                with held():
                    _write(unit, written, errors)
    except DocumentError as error:
        errors.append(FileError(here, error.stage, f"{error.message}; nothing was written"))
    except KeyboardInterrupt:
        interrupted = True
    with held():
        real = {os.path.realpath(path) for path in written}
        for tree, folder in journals.items():
            finished(tree, folder, real)
    everything, done = sorted((*report.errors, *errors), key=lambda error: error.path), set(written)
    results = tuple(
        replace(one, remaining=one.findings) if one.changed and one.path not in done else one
        for one in report.results
    )
    return replace(
        report, results=results, written=tuple(written), errors=tuple(everything), interrupted=interrupted
    )


_NO_JOURNAL = "not written: a fix over several files needs a journal, or a crash could leave it half done"


def _stays(unit: Sequence[FileResult], here: str, errors: list[FileError]) -> bool:
    """Are all files where their names say? What leads out of its tree may be anybody's idea of a good place."""
    out = {one.path: tree for one in unit if (tree := leads_out(one.path, here))}
    for path in (one.path for one in unit if out):
        why = "not written: one fix changes both it and a file behind a link"
        if path in out:
            target = os.path.realpath(path)
            why = f"not written: a link leads from it to {target}, out of {out[path]}; name that file itself"
        errors.append(FileError(path, "write", why))
    return not out


def _write(unit: Sequence[FileResult], written: list[str], errors: list[FileError]) -> None:
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


def _recorded(
    together: Sequence[Sequence[FileResult]], here: str, errors: list[FileError], unsafe: set[str]
) -> dict[str, str]:
    """Keep what the files were; tree -> journal. Of those that cannot be kept the first paths go into `unsafe`."""
    by_tree: dict[str, list[Sequence[FileResult]]] = {}
    for unit in together:
        by_tree.setdefault(tree_for(unit[0].path, here), []).append(unit)
    found = {}
    for tree, its in by_tree.items():
        try:
            entries = [[(r.path, None if r.made else r.before, r.after) for r in unit] for unit in its]
            found[tree] = record(tree, entries)
        except DocumentError as error:
            errors.append(FileError(tree, error.stage, f"{error.message}; this apply cannot be undone"))
            unsafe.update(unit[0].path for unit in its)
    return found


def units(changed: Sequence[FileResult]) -> list[list[FileResult]]:
    """The files that have to be written together, in the order of the first of each."""
    leader: dict[str, str] = {}  # of a path, another one of its unit; the last one leads itself

    def first(path: str) -> str:
        while leader.setdefault(path, path) != path:
            path = leader[path]
        return path

    for result in changed:
        for other in (path for change in result.changes for path in change.also):
            leader[first(os.path.abspath(other))] = first(os.path.abspath(result.path))
    found: dict[str, list[FileResult]] = {}
    for result in changed:
        found.setdefault(first(os.path.abspath(result.path)), []).append(result)
    return list(found.values())
