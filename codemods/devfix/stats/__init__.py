"""Where devices come from in a repository, and how portable that makes it: `devfix stats`.

A *placement* is an expression that decides where something lives: a factory of tensors, `.to(...)`,
`.cuda()`, `map_location=`, and so on (`sites.py`). Each has an origin (`origins.py`): where the device that it
names comes from. A placement is device-agnostic if the device that it names can change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from devfix.pipeline.discover import Discovered
from devfix.stats.kinds import FileStats, Site

WORDS = ("torch", "cuda")


@dataclass(frozen=True)
class Repository:
    """All files that have placements or could not be read, in order, and how many were looked at."""

    files: tuple[FileStats, ...]
    looked_at: int
    errors: tuple[FileStats, ...] = ()


def _chunk(paths: tuple[str, ...]) -> tuple[FileStats, ...]:
    """The work on a chunk of files, in a worker."""
    return tuple(found for found in map(file_stats, paths) if found.sites or found.error)


def file_stats(path: str) -> FileStats:
    """The placements of one file; raises nothing for what is wrong with the file."""
    from devfix.documents import DocumentError, document_of, read_bytes
    from devfix.pipeline.trouble import explained

    stage = "read"
    try:
        data = read_bytes(path)
        if not any(word.encode() in data for word in WORDS):
            return FileStats(path)
        document = document_of(path, data)
        stage = "parse"
        sites = _sites(document.text)
        if path.endswith(".ipynb"):
            from devfix.documents.notebook import Notebook

            assert isinstance(document, Notebook)
            placed = [(site, document.where(site.line)) for site in sites]
            sites = tuple(replace(site, line=line, cell=cell) for site, (_, cell, line) in placed)
        return FileStats(path, sites)
    except (DocumentError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return FileStats(path, error=explained(error, stage)[1])


def _sites(text: str) -> tuple[Site, ...]:
    import warnings

    from devfix.flow import analyse
    from devfix.stats.sites import sites_of
    from devfix.text.source import Source

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SyntaxWarnings of the analysed file are not ours
        flow = analyse(Source(text))
    try:
        return tuple(sorted(sites_of(flow), key=lambda site: site.line))
    finally:
        flow.release()
        flow.source.forget()


def repository(
    found: Discovered, *, jobs: int = 0, progress: Callable[[int], None] = lambda files: None
) -> Repository:
    """The statistics of all Python files and notebooks among the files found."""
    from devfix.pipeline.parallel import spread

    paths = [path for path in found.files if path.endswith((".py", ".ipynb"))]
    files: list[FileStats] = []
    chunks = spread(_chunk, paths, lambda path, why: (FileStats(path, error=why),), jobs=jobs)
    for chunk in chunks:
        files.extend(chunk)
        progress(1)
    errors = [FileStats(error.path, error=error.message) for error in found.errors]
    return Repository(
        tuple(one for one in files if not one.error),
        len(paths),
        (*errors, *(one for one in files if one.error)),
    )
