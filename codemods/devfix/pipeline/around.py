"""How the files around an analysed one are looked at: plain data, on its way to the workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from devfix.pipeline.listing import Mark, mark_of, root_of

_RUNS = count(1)


@dataclass(frozen=True)
class Around:
    """The project of the analysed files.

    - `root`: its folder; empty: found for each file (the nearest with .git, pyproject.toml or setup.py).
    - `folders`: what was asked for, and is in nothing that looks like a project: of a file in one, it is the project.
    - `run`: files are read once in each run.
    """

    root: str = ""
    folders: tuple[str, ...] = ()
    run: int = 0

    def anew(self) -> Around:
        """For a new run: files may have changed since the last one."""
        return replace(self, run=next(_RUNS))


def asked_for(around: Around | None, paths: Sequence[str]) -> Around | None:
    """The project of files that are asked for by these paths, some of them folders."""
    if around is None or around.root:
        return around
    folders = {os.path.realpath(path) for path in paths if os.path.isdir(path)}
    bare = [one for one in folders if mark_of(root_of(os.path.join(one, "file"))) is Mark.NOTHING]
    return replace(around, folders=tuple(sorted(bare)))
