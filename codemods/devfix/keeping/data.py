"""Results as plain data, and back: everything that is read is looked at, nothing in it is ever run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from devfix.findings import Safety
from devfix.reports.report import FileResult, Place, PlacedEdit, PlacedFinding, PlacedFix, PlacedRelated


class Damaged(Exception):
    """Not what `plain` makes."""


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
    return [[_finding(one) for one in result.findings], result.skipped, [list(one) for one in result.unused]]


def result_of(path: str, data: object) -> FileResult:
    """The result of the file `path`; raises Damaged."""
    if data is None:
        return FileResult(path)
    findings, skipped, unused = list_(data, 3)
    found = tuple(_found(one) for one in list_(findings))
    silent = tuple((_int(line), _str(id)) for line, id in (list_(one, 2) for one in list_(unused)))
    return FileResult(path, found, found, skipped=_str(skipped), unused=silent)


def _finding(one: PlacedFinding) -> list[Any]:
    fix = None
    if one.fix is not None:
        edits = [[_place(edit.place), edit.text, edit.path] for edit in one.fix.edits]
        fix = [one.fix.title, int(one.fix.safety), edits]
    related = [
        [other.path, other.line, other.column, other.message, other.cell, other.cell_line]
        for other in one.related
    ]
    place = _place(one.place)
    return [one.codemod, one.message, place, related, fix, one.refusal, one.code, one.scope]


def _place(place: Place) -> list[int]:
    return [place.line, place.column, place.end_line, place.end_column, place.cell, place.cell_line]


def _found(data: object) -> PlacedFinding:
    codemod, message, place, related, fix, refusal, code, scope = list_(data, 8)
    made = None
    if fix is not None:
        title, safety, edits = list_(fix, 3)
        if _int(safety) not in tuple(Safety):
            raise Damaged
        placed = tuple(
            PlacedEdit(_placed(place), _str(text), _str(path))
            for place, text, path in (list_(edit, 3) for edit in list_(edits))
        )
        made = PlacedFix(_str(title), Safety(safety), placed)
    others = tuple(
        PlacedRelated(_str(path), _int(line), _int(column), _str(text), _int(cell), _int(inside))
        for path, line, column, text, cell, inside in (list_(one, 6) for one in list_(related))
    )
    texts = (_str(refusal), _str(code), _str(scope))
    return PlacedFinding(_str(codemod), _str(message), _placed(place), others, made, *texts)


def _placed(data: object) -> Place:
    return Place(*(_int(number) for number in list_(data, 6)))


def list_(data: object, length: int = -1) -> list[Any]:
    if not isinstance(data, list) or (length >= 0 and len(data) != length):
        raise Damaged
    return data


def _int(data: object) -> int:
    if type(data) is not int:
        raise Damaged
    return data


def _str(data: object) -> str:
    if not isinstance(data, str):
        raise Damaged
    return data
