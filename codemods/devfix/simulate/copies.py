"""A copy of a repository, to run a program in."""

from __future__ import annotations

import os
import shutil
import stat

_SKIPPED = frozenset(
    {".git", ".hg", "__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
)
BYTES = 2 << 30
FILES = 100_000


class TooLarge(Exception):
    """The message says of what there is too much."""


def top(folder: str) -> str:
    """The repository that a folder is in; the folder itself where it is in none."""
    here = folder = os.path.realpath(folder)
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return here
        folder = parent


def copy(source: str, target: str, *, most: int = BYTES) -> None:
    """Copy a folder without version control, environments and caches; raises TooLarge and OSError.

    Links stay links, and what is neither a file, a folder nor a link is left out.
    """
    size = count = 0
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name not in _SKIPPED and not _environment(folder, name)]
        made = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(made, exist_ok=True)
        for name in [name for name in folders if os.path.islink(os.path.join(folder, name))] + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(path), os.path.join(made, name))
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            size, count = size + status.st_size, count + 1
            if size > most or count > FILES:
                what = f"{most >> 20} MiB" if size > most else f"{FILES} files"
                raise TooLarge(f"{source} has more than {what}")
            shutil.copy2(path, os.path.join(made, name))


def _environment(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, "pyvenv.cfg"))
