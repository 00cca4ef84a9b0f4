"""Paths on the command line -> the Python files that they stand for, sorted and once each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devfix.documents import SUFFIXES, DocumentError, read_bytes
from devfix.documents.state import is_below, leads_out
from devfix.pipeline.listing import upward
from devfix.reports.report import FileError, Skipped
from devfix.text.globs import Globs, any_ignored, of_file

_SKIPPED_FOLDERS = frozenset(
    {"node_modules", "__pycache__", "site-packages", "__pypackages__", "_build", "buck-out"}
)
# Names that are also good names for packages: skipped only if they hold no `__init__.py`.
_BUILD_FOLDERS = frozenset({"build", "dist"})
_MOST = 200_000  # bytes of a file of patterns


@dataclass(frozen=True)
class Discovered:
    files: tuple[str, ...]
    errors: tuple[FileError, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def discover(paths: Sequence[str], include: Globs | None = None, exclude: Globs | None = None) -> Discovered:
    """Find the files to analyse.

    A named file is taken as it is, whatever its name. A named folder gives its `*.py`, `*.ipynb`,
    `*.yaml` and `*.yml` files, without what .gitignore files, `exclude` and the list of folders above leave
    out, and with
    `include` only those that match it. Links to folders are not followed, links to files only if they
    stay inside the folder. Paths are relative to the working directory. Never raises: what cannot be
    used is in `errors`, and the reasons for leaving a file out in `skipped`.
    """
    walk = _Walk(include if include and include.patterns else None, exclude)
    for path in paths:
        walk.add(path)
    files = sorted(walk.files.values())
    errors = tuple(sorted(walk.errors, key=lambda error: error.path))
    return Discovered(tuple(files), errors, tuple(sorted(walk.skipped, key=lambda skipped: skipped.path)))


class _Walk:
    def __init__(self, include: Globs | None, exclude: Globs | None) -> None:
        self.include = include
        self.exclude = exclude
        self.files: dict[str, str] = {}  # real path -> path as shown
        self.errors: list[FileError] = []
        self.skipped: list[Skipped] = []
        self.cwd = os.getcwd()
        self.behind = ("", "")  # the folder behind a link that leads out of its tree, and the link

    def add(self, path: str) -> None:
        shown = self._shown(path)
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            self._error(shown, "no such file or folder; check the path")
            return
        except PermissionError:
            self._error(shown, "permission denied; make its folder readable or leave it out")
            return
        except (OSError, ValueError) as error:
            self._error(shown, f"{getattr(error, 'strerror', None) or error}; check the path")
            return
        if stat.S_ISDIR(mode):
            self._folder(path)
        elif stat.S_ISREG(mode):
            self.files.setdefault(os.path.realpath(path), shown)
        else:
            self._error(shown, "is neither a file nor a folder; name a Python file or a folder")

    def _folder(self, root: str) -> None:
        real = os.path.realpath(root)
        self.behind = (real, root) if leads_out(os.path.join(root, "*"), self.cwd) else ("", "")
        todo: list[tuple[str, tuple[Globs, ...]]] = [(real, _outer_ignores(real))]
        while todo:
            folder, ignores = todo.pop()
            entries = self._entries(folder)
            names = {entry.name for entry in entries}
            if folder != real and (reason := _foreign(folder, names)):
                self._skip(folder, reason)
                continue
            if ".gitignore" in names:
                ignores = (*ignores, *_read_ignores(os.path.join(folder, ".gitignore"), folder))
            for entry in entries:
                self._entry(entry, real, ignores, todo)

    def _entry(
        self,
        entry: os.DirEntry[str],
        root: str,
        ignores: tuple[Globs, ...],
        todo: list[tuple[str, tuple[Globs, ...]]],
    ) -> None:
        name = entry.name
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not name.endswith(SUFFIXES):
                return
            if is_folder and (name.startswith(".") or name in _SKIPPED_FOLDERS or name.endswith(".egg-info")):
                self._skip(entry.path, "hidden folder" if name.startswith(".") else "not the project's own")
                return
            real = entry.path
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not is_below(real, root):
                    self._skip(entry.path, "links out of the folder")
                    return
            if not is_folder and not entry.is_file():
                self._skip(entry.path, "broken link" if not os.path.exists(real) else "not a regular file")
                return
        except OSError as error:
            if entry.is_symlink():
                self._skip(entry.path, "broken link")  # a link to itself
                return
            self._error(self._shown(entry.path), f"{error.strerror}; make it readable or exclude it")
            return
        if any_ignored(ignores, entry.path, is_folder):
            self._skip(entry.path, "ignored by .gitignore")
        elif self.exclude is not None and self.exclude.decide(entry.path, is_folder):
            self._skip(entry.path, "excluded")
        elif is_folder:
            todo.append((entry.path, ignores))
        elif self.include is not None and not self.include.below(entry.path):
            self._skip(entry.path, "not included")
        elif real == entry.path and not self.behind[1]:
            self.files[real] = self._shown(entry.path)  # a file's own name wins over a link to it
        else:
            self.files.setdefault(real, self._shown(entry.path))

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except PermissionError:
            self._error(self._shown(folder), "permission denied; make the folder readable or exclude it")
        except OSError as error:
            self._error(self._shown(folder), f"cannot be listed: {error.strerror}; exclude it")
        return []

    def _shown(self, path: str) -> str:
        """Relative to the working directory; outside of it with `..`, or by the link that leads there."""
        real, link = self.behind
        if link and is_below(path, real):
            return os.path.join(link, os.path.relpath(path, real))
        prefix = self.cwd.rstrip(os.sep) + os.sep
        if path.startswith(prefix) and os.pardir not in path:
            return path[len(prefix) :]
        try:
            return os.path.relpath(path, self.cwd)
        except ValueError:  # another drive, or an empty path
            return path

    def _error(self, shown: str, message: str) -> None:
        self.errors.append(FileError(shown, "discover", message))

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append(Skipped(self._shown(path), reason))


def _foreign(folder: str, names: set[str]) -> str:
    """Why a folder is not the project's own code, or an empty string."""
    if "pyvenv.cfg" in names:
        return "virtual environment"
    if os.path.basename(folder) in _BUILD_FOLDERS and "__init__.py" not in names:
        return "build folder"
    return ""


def _read_ignores(path: str, base: str) -> Iterator[Globs]:
    """The patterns of a file, if it can be read and has any."""
    try:
        globs = of_file(read_bytes(path, most=_MOST).decode("utf-8", "surrogateescape"), base)
    except DocumentError:
        return
    if globs is not None:
        yield globs


def _outer_ignores(root: str) -> tuple[Globs, ...]:
    """The .gitignore files above a named folder, up to the top of its repository.

    None if they ignore the folder itself: who names it wants it.
    """
    above = []
    for top in upward(root):
        above.append(top)
        if os.path.exists(os.path.join(top, ".git")):
            break
    else:
        return ()  # in no repository
    found = [*_read_ignores(os.path.join(top, ".git", "info", "exclude"), top)]
    for folder in reversed(above[1:]):
        found.extend(_read_ignores(os.path.join(folder, ".gitignore"), folder))
    outer = tuple(found)
    chain = [folder for folder in above[:-1] if any_ignored(outer, folder, True)]
    return () if chain else outer
