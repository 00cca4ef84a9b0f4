"""What lies where in a project: looked at by the analysis, and again by those who ask whether it still holds.

Imports little, since a run that finds everything in the results of the last one needs nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from devfix.pipeline import depends

FILES = 3000  # in a larger project, callers are not looked for
_MARKS = (".git", "pyproject.toml")
_SETUPS = ("setup.py", "setup.cfg")
# What lies at the top of most repositories: of a copy without `.git` there is nothing else to go by.
_PAPERS = (
    *("README.md", "README.rst", "README.txt", "README", "LICENSE", "LICENSE.txt", "LICENSE.md"),
    *("requirements.txt", "environment.yml", "environment.yaml"),
)
MARKS = (*_MARKS, *_SETUPS, *_PAPERS)
_INIT = "__init__.py"
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist"})


def upward(folder: str) -> Iterator[str]:
    """A folder and those that it is in, the nearest first."""
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        yield (folder := above)


class Mark(IntEnum):
    """How much a folder looks like the top of a project."""

    NOTHING = 0
    PAPERS = 1
    PROJECT = 2


def mark_of(folder: str) -> Mark:
    """How much a folder looks like the top of a project. In a package, a `setup.py` builds an extension."""
    in_package = os.path.exists(os.path.join(folder, _INIT))
    marks = _MARKS if in_package else (*_MARKS, *_SETUPS)
    if any(os.path.exists(os.path.join(folder, mark)) for mark in marks):
        return Mark.PROJECT
    if in_package or folder in (
        os.path.expanduser("~"),
        os.path.dirname(folder),
    ):  # no repository, but all there is
        return Mark.NOTHING
    return (
        Mark.PAPERS if any(os.path.exists(os.path.join(folder, name)) for name in _PAPERS) else Mark.NOTHING
    )


def root_of(
    path: str,
    mark: Callable[[str], Mark] = mark_of,
    real: Callable[[str], str] = os.path.realpath,
) -> str:
    """The project that a file belongs to: the nearest folder above it that looks like one.

    Where none does: the nearest one with a README, a license or requirements; or the one above its outermost package.
    """
    home = os.path.dirname(real(path))
    described = ""
    for folder in upward(home):
        found = mark(folder)
        if found is Mark.PROJECT:
            return folder
        described = described or (folder if found is Mark.PAPERS else "")
    if described:
        return described
    while os.path.exists(os.path.join(home, _INIT)) and os.path.dirname(home) != home:
        home = os.path.dirname(home)
    return home


def kind_of(path: str) -> str:
    """'file', 'folder' or '' for neither."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else ""


def noted_kind(path: str) -> str:
    """The same, for something that is kept."""
    kind = kind_of(path)
    depends.note(f"?{path}", kind)
    return kind


def kind_inside(path: str, inside: str) -> str:
    """The same; a link to a file that is not below `inside` (which ends with a separator) is neither."""
    kind = kind_of(path)
    return "" if kind == "file" and not os.path.realpath(path).startswith(inside) else kind


def python_files(root: str, is_file: Callable[[str], bool], plain: bool = False) -> list[str]:
    """Every Python file of a project, but no more than are worth it.

    With `plain`, what is a file and no link needs no further look.
    """
    found: list[str] = []
    todo = [root]
    while todo and len(found) <= FILES:
        try:
            with os.scandir(todo.pop()) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        if any(entry.name == "pyvenv.cfg" for entry in listed):
            continue
        for entry in listed:
            if entry.name.endswith(".py"):
                if (plain and entry.is_file(follow_symlinks=False)) or is_file(entry.path):
                    found.append(entry.path)
            elif not entry.name.startswith(".") and entry.name not in _SKIPPED:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return found


def state_of_all(paths: Sequence[str], state_of: Callable[[str], str]) -> str:
    """One state for all files of a project; where there are too many, nobody reads them."""
    if len(paths) > FILES:
        return depends.LARGE
    every = "\0".join(f"{path}\0{state_of(path)}" for path in paths)
    return depends.digest(every.encode("utf-8", "surrogateescape"))
