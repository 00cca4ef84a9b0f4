"""The statistics of `devfix stats` for a terminal and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devfix import __version__
from devfix.review.text import plural, printable
from devfix.stats import Repository
from devfix.stats.kinds import MEANING, Origin, Share, kind_of
from devfix.stats.tables import Tables

SCHEMA = 1
_FOLDERS, _FILES = 15, 8
_BAR = 24
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


def lines(repository: Repository, tables: Tables) -> Iterator[str]:
    """Charts and tables for a terminal."""
    read = f"{plural(repository.looked_at, 'file')} looked at"
    if not tables.placements:
        yield f"no placements: {read}"
        return
    share = tables.share
    yield f"{plural(tables.placements, 'placement')} in {plural(tables.files, 'file')}; {read}"
    if share.of:
        yield (
            f"device-agnostic: {share.text} ({share.open} use a device that can change, "
            f"{share.named} name an accelerator)"
        )
    yield ""
    yield "Where devices come from"
    most = max(number for _, number in tables.origins)
    for origin, number in sorted(tables.origins, key=lambda pair: -pair[1]):
        yield f"  {origin.value:24}{number:>7}  {_bar(number, most)}  {MEANING[origin]}"
    yield ""
    yield "How they are named" + " " * 21 + "all   open  named    CPU, none  not known"
    for how, origins in tables.forms:
        counts = {"open": 0, "named": 0, "cpu": 0, "unknown": 0}
        for origin, number in origins:
            counts[kind_of(origin)] += number
        yield (
            f"  {how.value:32}{sum(counts.values()):>8}{counts['open']:>7}{counts['named']:>7}"
            f"{counts['cpu']:>13}{counts['unknown']:>11}"
        )
    yield ""
    yield f"{'Folders':34}{'files':>8}{'all':>7}{'named':>7}  device-agnostic"
    for row in tables.folders[:_FOLDERS]:
        yield (
            f"  {_cut(printable(row.folder), 31):32}{row.files:>8}{row.placements:>7}{row.share.named:>7}"
            f"  {_share_bar(row.share)} {row.share.text:>6}"
        )
    if len(tables.folders) > _FOLDERS:
        yield f"  and {plural(len(tables.folders) - _FOLDERS, 'other folder')}; --depth 1 puts them together"
    if tables.named:
        yield ""
        yield "Most accelerators by name"
        for path, number, site in tables.named[:_FILES]:
            yield f"  {number:>5}  {printable(path)}, the first at {site.where}: {printable(site.code)}"
        if len(tables.named) > _FILES:
            yield f"         and {plural(len(tables.named) - _FILES, 'other file')}"


def _bar(number: int, most: int, width: int = _BAR) -> str:
    eighths = max(round(8 * width * number / most), 1)
    text = _FULL * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
    return f"{text:{width}}"


def _share_bar(share: Share) -> str:
    if not share.of:
        return " " * 10
    full = min(round(10 * share.open / share.of), 9 if share.named else 10)
    return _FULL * full + "░" * (10 - full)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[1 - width :]


def document(repository: Repository, tables: Tables) -> dict[str, Any]:
    """The statistics as JSON's values."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "files": repository.looked_at,
        "files_with_placements": tables.files,
        "placements": tables.placements,
        "share": _share(tables.share),
        "origins": {origin.name.lower(): number for origin, number in tables.origins},
        "forms": {how.name.lower(): _counts(origins) for how, origins in tables.forms},
        "folders": [
            {
                "folder": row.folder,
                "files": row.files,
                "placements": row.placements,
                "share": _share(row.share),
                "origins": _counts(row.kinds),
            }
            for row in tables.folders
        ],
        "named": [
            {"path": file.path, "line": site.line, "cell": site.cell or None, "code": site.code}
            for file in repository.files
            for site in file.sites
            if site.origin is Origin.NAMED
        ],
        "errors": [{"path": error.path, "message": error.error} for error in repository.errors],
    }


def _counts(origins: tuple[tuple[Origin, int], ...]) -> dict[str, int]:
    return {origin.name.lower(): number for origin, number in origins}


def _share(share: Share) -> dict[str, Any]:
    percent = share.percent
    return {
        "open": share.open,
        "named": share.named,
        "percent": None if percent is None else round(percent, 2),
    }
