"""How the files around an analysed one are looked at: plain data, on its way to the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

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
