"""`devfix stats --html`: one page with the look of the review page, without a script, that loads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from devfix.review.html.charts import Bar, bars
from devfix.review.html.frame import made, need_libraries
from devfix.review.text import printable
from devfix.stats import Repository
from devfix.stats.kinds import KINDS, MEANING, Origin, kind_of
from devfix.stats.tables import Tables

_FOLDERS, _FILES = 40, 30
# The colours of the review page: green is a device that can change, red one that is written down.
_COLOURS = {"open": "safe", "named": "manual", "cpu": "none", "unknown": "unsafe"}
_WORDS = {
    "open": "uses a device that can change",
    "named": "names an accelerator",
    "cpu": "the CPU, or nothing",
    "unknown": "not known",
}


@dataclass(frozen=True)
class BarRow:
    label: str
    note: str
    count: int
    bars: tuple[Bar, ...]
    share: str = ""


def render(repository: Repository, tables: Tables, name: str) -> bytes:
    """The page, UTF-8. Raises MissingLibraries."""
    need_libraries()
    most = max((sum(number for _, number in origins) for _, origins in tables.forms), default=1)
    return made(
        "devices.html",
        ["page.css", "devices.css"],
        name=printable(name),
        repository=repository,
        tables=tables,
        share=tables.share,
        origins=_origins(tables),
        forms=[_row(how.value, "", origins, most) for how, origins in tables.forms],
        folders=[
            _row(printable(row.folder), "", row.kinds, tables.folders[0].placements, row.share.text)
            for row in tables.folders[:_FOLDERS]
        ],
        more_folders=max(len(tables.folders) - _FOLDERS, 0),
        named=[
            (printable(path), number, site.where, printable(site.code))
            for path, number, site in tables.named[:_FILES]
        ],
        more_named=max(len(tables.named) - _FILES, 0),
        errors=[(printable(error.path), printable(error.error)) for error in repository.errors],
        colours=_COLOURS,
        words=_WORDS,
        legend=[(_COLOURS[kind], _WORDS[kind]) for kind in KINDS],
    )


def _origins(tables: Tables) -> list[BarRow]:
    ordered = sorted(tables.origins, key=lambda pair: -pair[1])
    most = max((number for _, number in ordered), default=1)
    return [_row(origin.value, MEANING[origin], ((origin, number),), most) for origin, number in ordered]


def _row(
    label: str, note: str, origins: tuple[tuple[Origin, int], ...], most: int, share: str = ""
) -> BarRow:
    counts = dict.fromkeys(KINDS, 0)
    for origin, number in origins:
        counts[kind_of(origin)] += number
    return BarRow(label, note, sum(counts.values()), bars(counts, most), share)
