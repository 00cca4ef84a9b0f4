"""The files that dotted names lead to, as the engine has them; they are read and never imported."""

from __future__ import annotations

import os

from devfix.documents.overlay import instead_of
from devfix.engine.files import STAR, Class, File
from devfix.pipeline import depends
from devfix.pipeline.listing import noted_kind
from devfix.recipes.files import Files
from devfix.text.parsed import parsed
from devfix.text.source import Source

_FOLLOW = 8  # re-exports
_MOST = 8
Stamp = tuple[int, int]
Key = tuple[tuple[str, ...], str]  # folders, and what is written into the recipe's


class Library:
    """Everything that dotted names lead to, seen from a recipe; what is not found there, `base` may know."""

    def __init__(self, files: Files, roots: tuple[str, ...], base: Library | None = None) -> None:
        self.files = files
        self.roots = roots
        self.base = base
        self.stamps: dict[str, Stamp | None] = {}
        self.needs = depends.Needs()  # of all that was found, for whoever uses what was found for others
        self._modules: dict[tuple[str, str], File | None] = {}
        self._files: dict[str, File | None] = {}
        self._known: dict[Class, dict[object, object]] = {}
        self.scripts: dict[str, object] = {}
        self.near: dict[Key, Library] = {}  # those on top of it

    def module(self, dotted: str, path: str = "") -> File | None:
        """The file of a name, which may have leading dots in the file `path`; None where it is not in view."""
        name = dotted.lstrip(".")
        for _ in range(len(dotted) - len(name)):
            path = os.path.dirname(path)
        key = path if dotted.startswith(".") else "", name
        if key not in self._modules:
            with depends.aside() as needs:
                self._modules[key] = self._find(*key)
            self.needs.add(needs)
            depends.add(needs)
        return self._modules[key]

    def _find(self, folder: str, name: str) -> File | None:
        parts = name.split(".") if name else []
        if not (name or folder) or not all(part.isidentifier() for part in parts):
            return None
        for root in (folder,) if folder else self.roots:
            base = os.path.join(root, *parts)
            for path in (f"{base}.py", os.path.join(base, "__init__.py")):
                if noted_kind(path) == "file" and (file := self.of_file(path)):
                    return file
                if self.base is not None:
                    self.stamps[path] = stamp(path)  # in case it appears
        return self.base.module(name) if self.base is not None and not folder else None

    @property
    def fresh(self) -> bool:
        """Are the files still those that were read?"""
        return all(was is not None and stamp(path) == was for path, was in self.stamps.items())

    def known(self, cls: Class) -> dict[object, object]:
        """What was found out of a class, for all who ask."""
        if self.base is not None and cls.file.path in self.base.stamps:
            return self.base.known(cls)
        return self._known.setdefault(cls, {})

    def of_file(self, path: str) -> File | None:
        document = self.files.document(path)
        if path not in self._files:
            self.stamps[path] = stamp(path)
            source = source_of(document.text) if document is not None else None
            self._files[path] = File(path, source, self.resolve) if source is not None else None
        return self._files[path]

    def resolve(self, path: str, dotted: str, depth: int = 0) -> tuple[File, str] | None:
        """The file that defines what `dotted`, imported by the file `path`, is in the end, and its name there."""
        if dotted.startswith(STAR):
            return self._defined(self.of_file(path), dotted.removeprefix(STAR), depth)
        name = dotted.rpartition(".")[2]
        home = dotted[: len(dotted) - len(name)]
        return self._defined(self.module(home[:-1] if home.strip(".") else home, path), name, depth)

    def _defined(self, file: File | None, name: str, depth: int) -> tuple[File, str] | None:
        if file is None or depth > _FOLLOW:
            return None
        if name in file.classes or name in file.functions:
            return file, name
        if name in file.source.imports:
            return self.resolve(file.path, file.source.imports[name], depth + 1)
        stars = (self._defined(self.module(star, file.path), name, depth + 1) for star in file.stars)
        return next((found for found in stars if found is not None), None)

    def find(self, dotted: str) -> Class | None:
        """The class that a dotted name leads to, through re-exports."""
        found = self.resolve("", dotted)
        return found[0].classes.get(found[1]) if found is not None else None


def stamp(path: str) -> Stamp | None:
    """Tells whether a file is still the one that was read; None of a text that is only shown in its place."""
    if instead_of(path) is not None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def source_of(text: str) -> Source | None:
    """The source of a text, or None where it does not parse; recipes share a library."""
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_shared: dict[Key, Library] = {}
# The last recipe's: several scripts may stand beside it, and the files are looked at once for all.
_last: list[tuple[Files, dict[tuple[str, ...], Library]]] = []


def around(files: Files, *first: str) -> Library:
    """What is known around a recipe, names being looked for in the folders `first` before all others."""
    if not _last or _last[0][0] is not files:
        unwritten = Files(files.path) if files.written else files
        _last[:] = [(files, {(): _kept(_shared, (files.shared_roots, ""), unwritten)})]
    known = _last[0][1]
    local, base = files.local_roots(*first), known[()]
    if local not in known:
        known[local] = _kept(base.near, (local, files.written), files, base)
    depends.add(base.needs)
    depends.add(known[local].needs)
    return known[local]


def _kept(kept: dict[Key, Library], key: Key, files: Files, base: Library | None = None) -> Library:
    """What was found out for another recipe, if that still holds."""
    found = kept.get(key)
    if found is None or not found.fresh:
        if len(kept) > _MOST:
            kept.clear()
        found = kept[key] = Library(files, key[0], base)
    found.files = files
    return found
