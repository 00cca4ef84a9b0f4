"""The report of a run that went on after its device errors: what, how often, whose tensors, and the fix."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from devfix.checkers.effects import moves
from devfix.codemod import registry
from devfix.documents import Document, DocumentError, digest_of, read_bytes, readable
from devfix.findings import Safety
from devfix.pipeline.discover import Discovered
from devfix.repair.explained import Findings, Read, explained
from devfix.repair.from_run import Candidate, fixes
from devfix.repair.reading import source_of
from devfix.reports.observed import At, Compared, Copies, Operand, Seen, as_json
from devfix.reports.report import PlacedFinding, Report
from devfix.review.text import printable

_FILES = 200


def shown(path: str) -> str:
    """A path as people write it from here."""
    here = os.path.realpath(os.curdir) + os.sep
    return path[len(here) :] if path.startswith(here) else path


def reader() -> Callable[[str], Document | None]:
    """Reads each file once; what cannot be read is None."""
    return cache(readable)


def analysed(files: Sequence[str]) -> Report:
    """What the static analysis says of the files of a program."""
    if not files:
        return Report((), level=Safety.UNSAFE)
    from devfix.pipeline import runner
    from devfix.pipeline.around import Around
    from devfix.rules.map_location import MapLocation

    codemods = [made() for made in registry().values() if made.default and made is not MapLocation]
    codemods.append(MapLocation(all=True))  # a run without CUDA has shown where it matters
    report = runner.run(
        Discovered(tuple(files[:_FILES])), codemods, Safety.UNSAFE, repair=False, jobs=1, around=Around()
    )
    return replace(report, results=tuple(replace(one, path=shown(one.path)) for one in report.results))


def findings_of(report: Report) -> tuple[tuple[str, PlacedFinding], ...]:
    """The findings of a report, with the paths as a run tells them."""
    return tuple(
        (os.path.realpath(result.path), finding) for result in report.results for finding in result.findings
    )


def findings_in(files: Sequence[str]) -> tuple[tuple[str, PlacedFinding], ...]:
    return findings_of(analysed(files))


def files_of(seen: Sequence[Seen], loaded: Sequence[str]) -> tuple[str, ...]:
    """The program's files: those that the errors have passed first."""
    passed = [one.at.path for error in seen for one in error.passed]
    near = [path for path in loaded if path.startswith(os.path.realpath(os.curdir) + os.sep)]
    return tuple(dict.fromkeys([*map(os.path.realpath, passed), *near]))


def remedy(
    one: Seen, findings: Findings, read: Read
) -> tuple[tuple[str, PlacedFinding] | None, Candidate | None]:
    """The finding that explains an error of one stray; where that has no fix, or there is none, a fix of the run."""
    cause = next(iter(explained(one, findings, read)), None)
    has_fix = cause is not None and cause[1].fix is not None
    return cause, None if has_fix else next(fixes(one, read), None)


def rows(seen: Sequence[Seen], report: Report) -> Iterator[dict[str, Any]]:
    """Each error as plain data for `--format json`; for each stray what explains it, or else a fix."""
    read = reader()
    findings = findings_of(report)
    for error in seen:
        row = as_json(error)
        row["findings"], row["fixes"] = [], []
        for one in error.each():
            cause, fix = remedy(one, findings, read)
            found = _finding(*cause) if cause is not None else None
            row["findings"] += [found] if found is not None and found not in row["findings"] else []
            made = {"path": fix.path, "line": fix.line, "title": fix.title} if fix is not None else None
            row["fixes"] += [made] if made is not None and made not in row["fixes"] else []
        yield row


def _finding(path: str, finding: PlacedFinding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "codemod": finding.codemod,
        "path": path,
        "line": finding.place.line,
        "message": finding.message,
        "fix": fix.title if fix is not None else "",
        "safety": fix.safety.label if fix is not None else "",
    }


def text(seen: Sequence[Seen], found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The report in lines."""
    for error, row in zip(seen, found, strict=True):
        at = f"{shown(error.at.path)}:{error.at.line}" if error.at is not None else "backward"
        times = f" ({error.count} times)" if error.count > 1 else ""
        yield printable(f"{at}: {error.operation}: {error.error}{times}")
        for operand in sorted(error.operands, key=lambda one: not one.stray)[:4]:
            yield printable(f"  {_operand(operand)}")
        for one in row["findings"]:
            yield printable(f"  {one['codemod']}: {shown(one['path'])}:{one['line']}: {one['message']}")
            if one["fix"]:
                yield printable(f"  fix ({one['safety']}): {one['fix']}")
        for fix in row["fixes"]:
            at = f"{shown(fix['path'])}:{fix['line']}"
            yield printable(f"  fix (unsafe, from this run): {at}: {fix['title']}")
        if not row["findings"] and not row["fixes"]:
            yield "  no fix is known"


def notes(found: Sequence[Copies]) -> Iterator[str]:
    """A line for each copy that is made again and again."""
    for one in found:
        tensor = f"a tensor of shape {list(one.shape)}" if one.shape else "a number"
        if one.same:
            told = f"moves the same tensor of shape {list(one.shape)} to {one.device}, {one.count} times; once would do"
        else:
            told = f"copies {tensor} from {one.device} and waits for it, {one.count} times"
        yield printable(f"note: {_line(one.at)}: `{one.operation}` {told}")


def comparisons(found: Sequence[Compared]) -> Iterator[str]:
    """A line for each comparison that can never hold."""
    for one in found:
        times = f", {one.count} times" if one.count > 1 else ""
        why = (
            "a device never equals a text"
            if one.other[:1] in "'\""
            else "one has an index, so they never are equal"
        )
        yield printable(f"note: {_line(one.at)}: {one.device} is compared with {one.other}{times}: {why}")


def matters(one: Compared) -> bool:
    """Does a comparison decide on more than a move, which does nothing where the value is there already?"""
    document = reader()(one.at.path)
    source = source_of(document)
    if document is None or source is None or one.at.column < 0:
        return True
    for node in source.walk():
        if isinstance(node, ast.Compare) and (node.lineno, node.col_offset) == (one.at.line, one.at.column):
            return moves(source, node) != "device"
    return True


def _operand(operand: Operand) -> str:
    name = f"`{operand.name}`" if operand.name else f"a {operand.kind} of shape {list(operand.shape)}"
    if operand.owner:
        name += f" of {operand.owner}"
    past = [
        f"{word} at {_line(at)}"
        for word, at in (("made", operand.made), ("moved", operand.moved), ("stored", operand.stored))
        if at is not None
    ]
    view = "a view of what was " if operand.view and past else ""
    return (
        f"{'stray' if operand.stray else 'with'}: {name} on {operand.device}, {view}{', '.join(past)}".rstrip(
            " ,"
        )
    )


def _line(at: At) -> str:
    return f"{shown(at.path)}:{at.line}"


def digest(path: str) -> str:
    """The SHA-256 of a file; empty where it cannot be read."""
    try:
        return digest_of(read_bytes(path))
    except DocumentError:
        return ""


def as_json_text(
    rows: Sequence[dict[str, Any]],
    code: int,
    files: Sequence[str],
    copies: Sequence[Copies] = (),
    compared: Sequence[Compared] = (),
) -> str:
    """The report for machines, with the digests of the files that the errors name."""
    digests = {path: digest(path) for path in files}
    found = {"exit_code": code, "errors": list(rows), "files": digests}
    noted = {"copies": [asdict(one) for one in copies], "comparisons": [asdict(one) for one in compared]}
    return json.dumps({**found, **noted}, indent=2)
