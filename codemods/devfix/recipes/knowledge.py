"""What is known of classes: of the library once for all recipes of a process, of a recipe's folder for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from devfix import depends
from devfix.recipes.files import Files
from devfix.recipes.holding import Holders
from devfix.recipes.library import Library, stamp
from devfix.recipes.making import Made, Maker
from devfix.recipes.running import reads_raw
from devfix.recipes.script import Script, read_script

_MOST = 8
Key = tuple[tuple[str, ...], str]  # folders, and what is written into the recipe's


@dataclass(eq=False)
class Knowledge:
    """A library, and what was found out of its classes."""

    library: Library
    maker: Maker
    holders: Holders
    base: Knowledge | None = None
    near: dict[Key, Knowledge] = field(default_factory=dict)  # by the folders before all others
    _scripts: dict[str, Script | None] = field(default_factory=dict)
    _raw: dict[int, tuple[Made, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, library: Library, base: Knowledge | None = None) -> Knowledge:
        maker = Maker(library, base.maker if base is not None else None)
        return cls(library, maker, Holders(library, maker, base.holders if base is not None else None), base)

    def reads_raw(self, made: Made) -> bool:
        if self.base is not None and not self.library.owns(made.cls):
            return self.base.reads_raw(made)
        if id(made) not in self._raw:
            self._raw[id(made)] = made, reads_raw(made)
        return self._raw[id(made)][1]

    @property
    def fresh(self) -> bool:
        """Are the files still those that were read?"""
        stamps = self.library.stamps.items()
        return all(was is not None and stamp(path) == was for path, was in stamps)

    def script(self, path: str) -> Script | None:
        if path not in self._scripts:
            self._scripts[path] = read_script(self.library, path)
        return self._scripts[path]


_shared: dict[Key, Knowledge] = {}
# The last recipe's: several scripts may stand beside it, and the files are looked at once for all.
_last: list[tuple[Files, dict[tuple[str, ...], Knowledge]]] = []


def around(files: Files, *first: str) -> Knowledge:
    """What is known around a recipe, names being looked for in the folders `first` before all others."""
    if not _last or _last[0][0] is not files:
        unwritten = Files(files.path) if files.written else files
        _last[:] = [(files, {(): _kept(_shared, (files.shared_roots, ""), unwritten)})]
    known = _last[0][1]
    local, base = files.local_roots(*first), known[()]
    if local not in known:
        known[local] = _kept(base.near, (local, files.written), files, base)
    depends.add(base.library.needs)
    depends.add(known[local].library.needs)
    return known[local]


def _kept(kept: dict[Key, Knowledge], key: Key, files: Files, base: Knowledge | None = None) -> Knowledge:
    """What was found out for another recipe, if that still holds."""
    found = kept.get(key)
    if found is None or not found.fresh:
        if len(kept) > _MOST:
            kept.clear()
        library = Library(files, key[0], base.library if base is not None else None)
        found = kept[key] = Knowledge.of(library, base)
    found.library.files = files
    return found
