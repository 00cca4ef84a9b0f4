"""The statistics as tables: by origin and form, and by folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.pipeline.selection import posix
from devfix.stats import Repository
from devfix.stats.kinds import FileStats, How, Origin, Share, Site, share_of


@dataclass(frozen=True)
class Row:
    """A folder, with everything below it."""

    folder: str
    files: int
    placements: int
    share: Share
    kinds: tuple[tuple[Origin, int], ...]


@dataclass(frozen=True)
class Tables:
    """What is shown. `named` are the files that name an accelerator most often."""

    placements: int
    files: int
    share: Share
    origins: tuple[tuple[Origin, int], ...]
    forms: tuple[tuple[How, tuple[tuple[Origin, int], ...]], ...]
    folders: tuple[Row, ...]
    named: tuple[tuple[str, int, Site], ...]


def tables(repository: Repository, depth: int = 2, base: str = "") -> Tables:
    """Folders are told apart down to `depth` names below `base`, a folder that holds all files."""
    sites = [site for file in repository.files for site in file.sites]
    counts = Counter(site.origin for site in sites)
    forms = []
    for how in How:
        of_form = Counter(site.origin for site in sites if site.how is how)
        if of_form:
            forms.append((how, _ordered(of_form)))
    return Tables(
        len(sites),
        len(repository.files),
        share_of(site.origin for site in sites),
        _ordered(counts),
        tuple(sorted(forms, key=lambda form: -sum(number for _, number in form[1]))),
        tuple(sorted(_folders(repository.files, depth, base), key=lambda row: (-row.placements, row.folder))),
        tuple(sorted(_named(repository.files), key=lambda file: (-file[1], file[0]))),
    )


def _ordered(counts: Counter[Origin]) -> tuple[tuple[Origin, int], ...]:
    return tuple((origin, counts[origin]) for origin in Origin if counts[origin])


def _folders(files: tuple[FileStats, ...], depth: int, base: str) -> Iterator[Row]:
    found: dict[str, list[FileStats]] = {}
    for file in files:
        found.setdefault(_folder(file.path, depth, base), []).append(file)
    for folder, inside in found.items():
        counts = Counter(site.origin for file in inside for site in file.sites)
        yield Row(folder, len(inside), sum(counts.values()), share_of(counts.elements()), _ordered(counts))


def _folder(path: str, depth: int, base: str) -> str:
    shown = posix(path)
    if base and shown.startswith(base + "/"):
        shown = shown[len(base) + 1 :]
    parts = shown.split("/")[:-1]
    up = sum(1 for part in parts if part in ("", ".."))  # what leads to a path from elsewhere is no depth
    return "/".join(parts[: depth + up]) or "."


def _named(files: tuple[FileStats, ...]) -> Iterator[tuple[str, int, Site]]:
    for file in files:
        inside = [site for site in file.sites if site.origin is Origin.NAMED]
        if inside:
            yield file.path, len(inside), inside[0]
