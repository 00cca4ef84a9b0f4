"""Whether what a result was made of is still so; every file is looked at once in a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from devfix.documents import DocumentError, read_bytes
from devfix.pipeline import depends
from devfix.pipeline.listing import kind_inside, kind_of, mark_of, python_files, root_of, state_of_all

if TYPE_CHECKING:
    from devfix.documents.kept import Kept
    from devfix.keeping.importers import Importers

_LARGE = 1_000_000  # bytes, as in `devfix.project.files`

# Elsewhere a name may stand for a file that is written in other letters.
_LISTED = sys.platform.startswith("linux")


class Present:
    """How things are now."""

    def __init__(self, kept: Kept, settings: str) -> None:
        self._kept, self._settings = kept, settings
        self._importers: dict[str, Importers] = {}
        self._known: dict[str, str] = {}
        self._mark = cache(mark_of)  # many folders lie in the same ones
        self._reals: dict[str, str] = {}
        self._folders: dict[str, dict[str, str] | None] = {}
        self._listed: dict[str, list[str]] = {}

    def real(self, folder: str) -> str:
        """`os.path.realpath`, with one look at each folder on the way."""
        known = self._reals.get(folder)
        if known is None:
            parent, name = os.path.split(folder)
            if name in ("", os.curdir, os.pardir) or os.path.islink(folder):
                known = os.path.realpath(folder)
            else:
                known = os.path.join(self.real(parent), name)
            self._reals[folder] = known
        return known

    def holds(self, key: str, state: str) -> bool:
        if state == depends.LARGE and key.startswith("="):
            try:
                return os.stat(key[1:]).st_size > _LARGE
            except (OSError, ValueError):
                return False
        if key.startswith("@"):
            return self._importing(key[1:], state)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._state(key[:1], key[1:])
        return found == state

    def all_hold(self, keys: Sequence[str], states: Sequence[str]) -> bool:
        """Are all these needs as they were?"""
        known = self._known
        return all(
            known.get(key) == state or self.holds(key, state) for key, state in zip(keys, states, strict=True)
        )

    def _kind(self, path: str) -> str:
        folder, name = os.path.split(path)
        kinds = self._kinds(folder) if _LISTED and name else None
        return kind_of(path) if kinds is None else kinds.get(name, "")

    def _kinds(self, folder: str) -> dict[str, str] | None:
        """What a folder has, listed once; None where it cannot be listed."""
        if folder in self._folders:
            return self._folders[folder]
        parent, name = os.path.split(folder)
        above = self._kinds(parent) if _LISTED and name and name != os.pardir else None
        found: dict[str, str] | None = {}
        if not _LISTED:
            found = None
        elif above is None or above.get(name) == "folder":
            try:
                with os.scandir(folder or os.curdir) as entries:
                    found = {entry.name: _kind_of(entry) for entry in entries}
            except (FileNotFoundError, NotADirectoryError):
                pass
            except (OSError, ValueError):
                found = None
        self._folders[folder] = found
        return found

    def _importing(self, key: str, state: str) -> bool:
        """Do the same files import a name? Where no file has changed, there is nothing to find out."""
        root, _, name = key.partition("\0")
        all_files, _, those = state.partition(" ")
        if self._all(root) == all_files:
            return True
        known = self._importers.get(root)
        if known is None:
            from devfix.keeping.importers import Importers

            known = self._importers[root] = Importers(self._kept, self._settings, root)
            known.look(self._python_files(root), self._of_content)
        return known.state(name) == those

    def _all(self, root: str) -> str:
        """The state of all Python files of a project."""
        key = f"*{root}"
        if key not in self._known:
            self._known[key] = state_of_all(self._python_files(root), self._of_content)
        return self._known[key]

    def _python_files(self, root: str) -> list[str]:
        if root not in self._listed:
            inside = root.rstrip(os.sep) + os.sep
            plain = os.path.realpath(root) + os.sep == inside  # so that only links may lead out of it
            self._listed[root] = python_files(
                root, lambda file: kind_inside(file, inside) == "file", plain=plain
            )
        return self._listed[root]

    def _state(self, what: str, path: str) -> str:
        if not os.path.isabs(path):
            return "nothing"
        if what == "=":
            return self._content(path)
        if what == "?":
            return self._kind(path)
        if what == "%":
            return depends.listing(path)
        if what == "+":
            from devfix.recipes.files import installed

            return installed(path)
        if what == "^":
            return root_of(os.path.join(path, "file"), self._mark, self.real)
        return "nothing"

    def _of_content(self, path: str) -> str:
        key = f"={path}"
        if key not in self._known:
            self._known[key] = self._content(path)
        return self._known[key]

    def _content(self, path: str) -> str:
        try:
            return depends.digest(read_bytes(path))
        except DocumentError:
            return depends.unreadable(path)


def _kind_of(entry: os.DirEntry[str]) -> str:
    """As `kind_of`, with no look at what is no link."""
    if entry.is_symlink():
        return kind_of(entry.path)
    return "folder" if entry.is_dir(follow_symlinks=False) else "file" if entry.is_file() else ""
