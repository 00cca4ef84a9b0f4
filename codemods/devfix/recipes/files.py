"""What may be read beside a recipe: files of its project, and the sources of an installed speechbrain."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from devfix.documents import Document, DocumentError, read_bytes
from devfix.documents.overlay import instead_of
from devfix.documents.state import is_below
from devfix.pipeline import depends
from devfix.pipeline.listing import noted_kind, upward

_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_LARGEST = 2_000_000  # bytes
LIBRARY = "speechbrain"
_MOST = 500
# What was read, and when the file was last changed then: the recipes of a project have many files in common.
_kept: dict[str, tuple[tuple[int, int], Document]] = {}


class Files:
    """The files around one recipe. Nothing outside of the two places is opened, links followed."""

    def __init__(self, path: str, written: Mapping[str, str] | None = None) -> None:
        """`written`: texts that will be files beside the recipe, by name."""
        self.path, self.folder = path, os.path.dirname(os.path.abspath(path))
        self.root = _project(self.folder)
        self.installed = installed(self.root)
        depends.note(f"+{self.root}", self.installed)
        self._within = tuple(os.path.realpath(place) for place in (self.root, self.installed) if place)
        self._documents: dict[str, tuple[Document | None, depends.Needs]] = {}
        self._written = dict(written or {})
        self.written = repr(written or "")
        for name, text in self._written.items():
            file = os.path.join(self.folder, name)
            document = Document(file, text.encode("utf-8", "replace"), text, "utf-8")
            self._documents[file] = document, depends.Needs()

    def document(self, path: str) -> Document | None:
        """A file as a document, or None where it is not there, not readable or not ours to read."""
        return depends.remembered(self._documents, path, lambda: self._read(path))

    def _read(self, path: str) -> Document | None:
        real = os.path.realpath(path)
        if not any(is_below(real, place) for place in self._within):
            depends.add(depends.UNKNOWN)
            return None
        try:
            try:
                status = os.stat(real)
            except OSError:
                depends.note_read(path, None)
                raise
            if status.st_size > _LARGEST:
                depends.add(depends.UNKNOWN)
                return None
            if instead_of(path) is not None:
                return Document.of(path, read_bytes(path))
            stamp = status.st_mtime_ns, status.st_size
            known = _kept.get(path)
            if known is None or known[0] != stamp:
                if len(_kept) >= _MOST:
                    _kept.clear()
                known = _kept[path] = stamp, Document.of(path, read_bytes(path))
            else:
                depends.note_read(path, known[1].data)
            return known[1]
        except (DocumentError, OSError, ValueError):
            return None

    def names(self, folder: str, *suffixes: str) -> list[str]:
        """The names of the files of a folder that end so, sorted."""
        depends.note_listing(folder)
        names = set(self._written) if folder == self.folder else set()
        with suppress(OSError):
            names.update(os.listdir(folder))
        return sorted(name for name in names if name.endswith(suffixes))

    @property
    def shared_roots(self) -> tuple[str, ...]:
        """Folders that a dotted name may start in, for every recipe of the project."""
        roots = [self.root, os.path.join(self.root, "src")]
        return (*roots, os.path.dirname(self.installed)) if self.installed else tuple(roots)

    def local_roots(self, *first: str) -> tuple[str, ...]:
        """Those before them: where the script is, and around the recipe."""
        near = dict.fromkeys((*first, self.folder, os.path.dirname(self.folder)))
        return tuple(folder for folder in near if folder not in self.shared_roots)


def _project(folder: str) -> str:
    """The nearest folder above that is the top of a project; without one, where a recipe's script may be."""
    for at in upward(folder):
        if any(noted_kind(os.path.join(at, mark)) for mark in _ROOT_MARKS):
            return at
    above = os.path.dirname(folder)
    return above if os.path.basename(folder) in ("hparams", "hyperparams", "configs", "config") else folder


def installed(root: str) -> str:
    """The folder of an installed speechbrain, found without importing anything, or an empty string."""
    homes = [os.environ.get("VIRTUAL_ENV", ""), os.path.join(root, ".venv"), os.path.join(root, "venv")]
    return _installed(tuple(home for home in homes if home), tuple(sys.path))


def _led_out(folder: str, own: tuple[str, ...]) -> bool:
    """True where a link in somebody's repository would have us read outside of it."""
    real = os.path.realpath(folder)
    for home in own:
        root = os.path.realpath(os.path.dirname(home)).rstrip(os.sep) + os.sep
        if folder.startswith(home + os.sep) and not real.startswith(root):
            return True
    return False


@cache
def _installed(homes: tuple[str, ...], path: tuple[str, ...]) -> str:
    places = list(path[1:])
    for home in homes:
        lib = os.path.join(home, "lib")
        places.append(os.path.join(home, "Lib", "site-packages"))
        try:
            pythons = sorted(name for name in os.listdir(lib) if name.startswith("python"))
        except OSError:
            continue
        places += [os.path.join(lib, name, "site-packages") for name in pythons]
    for place in places:
        folder = os.path.join(place, LIBRARY)
        if place and os.path.isfile(os.path.join(folder, "core.py")) and not _led_out(folder, homes[-2:]):
            return folder
    return ""
