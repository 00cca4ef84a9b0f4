"""Results as plain data, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from devfix.reports.plain import Damaged, made
from devfix.reports.plain import plain as plain_of
from devfix.reports.report import FileResult, PlacedFinding

_KIND = tuple[tuple[PlacedFinding, ...], str, tuple[tuple[int, str], ...]]


def keepable(result: FileResult) -> bool:
    """Does `result_of` give back all that there is to say about a file, whatever is to be done with it?"""
    if result.error is not None or result.changed or result.joint:
        return False
    try:
        return result_of(result.path, plain(result)) == replace(result, seconds=0.0)
    except Damaged:
        return False


def plain(result: FileResult) -> list[Any] | None:
    """A result without its path; None for the usual one, which says nothing."""
    if not result.noteworthy:
        return None
    return [plain_of(one) for one in (result.findings, result.skipped, result.unused)]


def result_of(path: str, data: object) -> FileResult:
    """The result of the file `path`; raises Damaged."""
    if data is None:
        return FileResult(path)
    found, skipped, silent = made(_KIND, data)
    return FileResult(path, found, found, skipped=skipped, unused=silent)
