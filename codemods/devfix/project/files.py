"""The files of a project as far as somebody asks for them, and which file an import means.

Only regular files below the root are read, links that lead out of it are not followed, and whatever
cannot be read or parsed is as good as not there.
"""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections import OrderedDict

from devfix.documents import Document, DocumentError
from devfix.parsed import parsed
from devfix.source import Source

SIZE = 1_000_000  # bytes; larger files are data, mostly
SOURCES = 48  # parsed files that are kept
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
# Never looked for in a project: flow knows them by tables of its own.
_LIBRARIES = frozenset({"torch", "torchvision", "torchaudio", "numpy", "__future__"})
_INIT = "__init__.py"


def root_of(path: str) -> str:
    """The project that a file belongs to: the nearest folder above it that looks like one.

    Where none does: the folder above its outermost package.
    """
    folder = home = os.path.dirname(os.path.realpath(path))
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in _MARKS):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    while os.path.exists(os.path.join(home, _INIT)) and os.path.dirname(home) != home:
        home = os.path.dirname(home)
    return home


class Files:
    """The files below `root`, an absolute path without links."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._inside = root.rstrip(os.sep) + os.sep
        self._kinds: dict[str, str] = {}
        self._sources: OrderedDict[str, Source | None] = OrderedDict()
        self._tops: dict[tuple[str, str], bool] = {}
        self._bases: dict[str, tuple[str, ...]] = {}
        self._modules: dict[tuple[str, str], tuple[str, tuple[str, ...]] | None] = {}

    # --- reading -------------------------------------------------------------------------

    def _kind(self, path: str) -> str:
        """'file', 'folder' or ''."""
        kind = self._kinds.get(path)
        if kind is None:
            try:
                mode = os.stat(path).st_mode
            except (OSError, ValueError):
                mode = 0
            kind = "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else ""
            if kind == "file" and not os.path.realpath(path).startswith(self._inside):
                kind = ""
            self._kinds[path] = kind
        return kind

    def is_file(self, path: str) -> bool:
        return self._kind(path) == "file"

    def text(self, path: str) -> str:
        """The text of a file; empty if it cannot be had."""
        known = self._sources.get(path)
        if known is not None:
            return known.text
        try:
            return Document.read(path).text if os.stat(path).st_size <= SIZE else ""
        except (OSError, DocumentError):
            return ""

    def may_have(self, path: str, name: str) -> bool:
        """May a file bind a name, as far as its text shows?"""
        text = self.text(path)
        return name in text or "*" in text or not text.isascii()

    def source(self, path: str) -> Source | None:
        """A file, parsed; None if that cannot be done."""
        if path in self._sources:
            self._sources.move_to_end(path)
            return self._sources[path]
        source = self._parsed(path)
        self._sources[path] = source
        if len(self._sources) > SOURCES:
            self._sources.popitem(last=False)
        return source

    def _parsed(self, path: str) -> Source | None:
        try:
            if os.stat(path).st_size > SIZE:
                return None
            text = Document.read(path).text
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarnings of the file are not ours
                return parsed(text)
        except (OSError, DocumentError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    # --- finding -------------------------------------------------------------------------

    def module(self, path: str, dotted: str) -> tuple[str, tuple[str, ...]] | None:
        """The file that holds what the file `path` imports as `dotted`, and the names to follow in it."""
        key = (os.path.dirname(path), dotted)
        if key not in self._modules:
            self._modules[key] = self._find(key[0], dotted)
        return self._modules[key]

    def has(self, path: str, dotted: str) -> bool:
        """May the project have what the file `path` imports as `dotted`? Most imports are of libraries."""
        top = dotted.partition(".")[0]
        if not top:
            return True
        key = os.path.dirname(path), top
        if key not in self._tops:
            self._tops[key] = not (top in _LIBRARIES or top in sys.stdlib_module_names) and any(
                self._kind(os.path.join(base, top)) == "folder"
                or self._kind(os.path.join(base, f"{top}.py")) == "file"
                for base in self._search(key[0])
            )
        return self._tops[key]

    def _find(self, folder: str, dotted: str) -> tuple[str, tuple[str, ...]] | None:
        name = dotted.lstrip(".")
        parts = tuple(name.split(".")) if name else ()
        level = len(dotted) - len(name)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            if not (folder + os.sep).startswith(self._inside):
                return None
            found = self._below(folder, parts)
            init = os.path.join(folder, _INIT)
            return found if found is not None or self._kind(init) != "file" else (init, parts)
        if not parts or parts[0] in _LIBRARIES or parts[0] in sys.stdlib_module_names:
            return None
        for base in self._search(folder):
            found = self._below(base, parts)
            if found is not None:
                return found
        return None

    def _below(self, folder: str, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
        found = None
        for index, part in enumerate(parts):
            folder = os.path.join(folder, part)
            init = os.path.join(folder, _INIT)
            if self._kind(init) == "file":
                found = init, parts[index + 1 :]
            elif self._kind(folder + ".py") == "file":
                return folder + ".py", parts[index + 1 :]
            elif self._kind(folder) != "folder":
                break
        return found

    def _search(self, folder: str) -> tuple[str, ...]:
        """Where an absolute import may begin, nearest first; inside of packages, as for scripts, last."""
        bases = self._bases.get(folder)
        if bases is None:
            outer: list[str] = []
            inner: list[str] = []
            up = folder
            while (up + os.sep).startswith(self._inside):
                if self._kind(os.path.join(up, _INIT)) == "file":
                    inner.append(up)
                else:
                    outer.append(up)
                    source = os.path.join(up, "src")
                    if self._kind(source) == "folder":
                        outer.append(source)
                parent = os.path.dirname(up)
                if parent == up:
                    break
                up = parent
            bases = self._bases[folder] = (*outer, *inner)
        return bases

    def dotted(self, path: str, name: str) -> str:
        """The name of something in a file, from the root on; one for each file and name."""
        relative = os.path.relpath(path, self.root).removesuffix(".py")
        return f"{relative.removesuffix(os.sep + '__init__').replace(os.sep, '.')}.{name}"
