"""What is known of classes: of the library once for all recipes of a process, of a recipe's folder for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from devfix import depends
from devfix.documents.overlay import instead_of
from devfix.recipes.files import Files
from devfix.recipes.holding import Holders
from devfix.recipes.library import Library, stamp
from devfix.recipes.making import Made, Maker
from devfix.recipes.running import reads_raw


@dataclass(eq=False)
class Knowledge:
    """A library, and what was found out of its classes."""

    library: Library
    maker: Maker
    holders: Holders
    base: Knowledge | None = None
    _raw: dict[int, tuple[Made, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, library: Library, base: Knowledge | None = None) -> Knowledge:
        maker = Maker(library, base.maker if base is not None else None)
        return cls(library, maker, Holders(library, maker, base.holders if base is not None else None), base)

    def reads_raw(self, made: Made) -> bool:
        if self.base is not None and not self.library.owns(made.cls):
            return self.base.reads_raw(made)
        if id(made) not in self._raw:
            self._raw[id(made)] = made, reads_raw(self.library, made)
        return self._raw[id(made)][1]

    @property
    def fresh(self) -> bool:
        """Are the files still those that were read?"""
        stamps = self.library.stamps.items()
        return all(instead_of(path) is None and stamp(path) == was for path, was in stamps)


_shared: dict[tuple[str, ...], Knowledge] = {}
# The last recipe's: several scripts may stand beside it, and the files are looked at once for all.
_last: list[tuple[Files, Knowledge, dict[tuple[str, ...], Knowledge]]] = []


def around(files: Files, *first: str) -> Knowledge:
    """What is known around a recipe, names being looked for in the folders `first` before all others."""
    if not _last or _last[0][0] is not files:
        _last[:] = [(files, _base(files), {})]
    _, base, known = _last[0]
    depends.add(base.library.needs)
    local = files.local_roots(*first)
    if local not in known:
        known[local] = Knowledge.of(Library(files, local, base.library), base)
    return known[local]


def _base(files: Files) -> Knowledge:
    roots = files.shared_roots
    base = _shared.get(roots)
    if base is None or not base.fresh:
        if len(_shared) > 8:
            _shared.clear()
        base = _shared[roots] = Knowledge.of(Library(files, roots))
    return base
