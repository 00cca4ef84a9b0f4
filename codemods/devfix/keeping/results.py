"""What was kept of a file, if it still holds, and keeping what is new: one small file for each folder.

Several runs at once do no harm: each file is replaced whole, the last one wins, and every entry of it
says what it is made of.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from devfix import __version__
from devfix.documents import bytes_of
from devfix.documents.kept import Kept
from devfix.documents.state import user_folder
from devfix.keeping.data import keepable, plain, result_of
from devfix.keeping.folder import Folder
from devfix.keeping.valid import Present
from devfix.pipeline import depends
from devfix.pipeline.listing import root_of
from devfix.reports.plain import Damaged

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.pipeline.around import Around
    from devfix.reports.report import FileResult

_FORMAT = "3"
_OWN = "devfix.rules."  # whoever changes other codemods need not change their names
_MOST = 20_000  # needs of one result; who has more is analysed anew
_SETTLED = 2_000_000_000  # nanoseconds; some file systems know no less


class Results:
    """What is kept under the same settings. With `repair`, only of files that have nothing to repair."""

    def __init__(self, kept: Kept, settings: str, repair: bool) -> None:
        self._kept = kept
        self._settings = settings
        self._repair = repair
        self._present = Present(kept, settings)
        self._folders: dict[str, Folder] = {}

    def known(self, paths: Sequence[str]) -> dict[str, FileResult]:
        """The results that still hold."""
        found: dict[str, FileResult] = {}
        for place, names in _by_folder(paths).items():
            folder = self._folder(place)
            most = len(names) * 2 > len(folder.files)
            all_hold = most and folder.all_hold(self._present)
            for name in names:
                path = os.path.join(place, name)
                needed, data = folder.files.get(name, (None, None))
                if needed is None or (self._repair and isinstance(data, list) and data[:1] != [[]]):
                    continue
                if os.path.islink(path):
                    continue
                if all_hold or folder.hold(needed, self._present):
                    try:
                        found[path] = result_of(path, data)
                    except Damaged:
                        continue
        return found

    def keep(self, result: FileResult, states: Mapping[str, str]) -> None:
        """Note what came of a file, and what that was made of; written by `save`."""
        path = result.path
        if not self._repair:
            result = replace(result, joint=())  # what a finding's fix does elsewhere is in its edits
        lasting = f"={os.path.abspath(path)}" in states and depends.CHANGED not in states.values()
        if lasting and len(states) <= _MOST and keepable(result) and not os.path.islink(path):
            folder, name = os.path.split(path)
            self._folder(folder).new[name] = states, plain(result)

    def save(self) -> None:
        changed = [(folder, one) for folder, one in self._folders.items() if one.new]
        for folder, one in changed:
            self._kept.write(one.name, one.body(folder))
            one.new.clear()
        if changed:
            self._kept.prune()

    def _folder(self, folder: str) -> Folder:
        known = self._folders.get(folder)
        if known is None:
            key = "\0".join((self._settings, folder, self._present.real(folder)))
            name = depends.digest(key.encode("utf-8", "surrogateescape"))
            known = self._folders[folder] = Folder(name, self._kept.read(name))
        return known


def _by_folder(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        place, name = os.path.split(path)
        found.setdefault(place, []).append(name)
    return found


def kept_results(
    paths: Sequence[str],
    codemods: Sequence[Codemod],
    around: Around | None,
    *,
    repair: bool,
    asked: str = "",
) -> Results | None:
    """The results that may be used for, and come from, a run over these paths; None where none may.

    What was `asked` for, if it says all there is to say about these codemods, leads `asked_before` to the same.
    """
    kept = _usable(paths)
    if kept is None or not all(type(codemod).__module__.startswith(_OWN) for codemod in codemods):
        return None
    installed = Installed.now()
    settings = (
        *_around(around),
        _sources(installed),
        *sorted(
            f"{type(codemod).__qualname__} {codemod!r} {codemod.level!r} {codemod.once!r}"
            for codemod in codemods
        ),
    )
    name = _digest(settings)
    if asked and installed.settled:
        kept.write(_digest((*_around(around), installed.state, asked)), name.encode())
    return Results(kept, name, repair)


def asked_before(paths: Sequence[str], around: Around | None, *, repair: bool, asked: str) -> Results | None:
    """The same, if the same was asked for before: no codemod need be imported for it, and no source read."""
    kept = _usable(paths)
    if kept is None or not asked:
        return None
    name = kept.read(_digest((*_around(around), Installed.now().state, asked)))
    return Results(kept, name.decode("ascii", "replace"), repair) if name else None


def _usable(paths: Sequence[str]) -> Kept | None:
    folder = user_folder("cache")
    if not folder:
        return None
    kept = Kept(os.path.join(folder, "results"))
    return kept if kept.usable([root_of(os.path.join(path, "file")) for path in paths]) else None


def _around(around: Around | None) -> tuple[str, ...]:
    """What the results of a run depend on, besides its codemods and devfix itself."""
    return (
        _FORMAT,
        __version__,
        sys.version,
        str(sys.flags.optimize),
        os.getcwd(),
        "alone" if around is None else f"among {os.path.realpath(around.root) if around.root else ''}",
        *(around.folders if around is not None else ()),
    )


def _digest(parts: Sequence[str]) -> str:
    return depends.digest("\0".join(parts).encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Installed:
    """The source of devfix, and the version of what writes its edits: another one may find something else.

    `state` is another one whenever one of these files is written or replaced: looking at their sizes and times
    takes a tenth of the time of reading them.
    """

    files: tuple[str, ...]
    state: str
    settled: bool  # none of them is so new that it may still change within the same tick of the clock

    @classmethod
    def now(cls) -> Installed:
        import devfix

        todo, found = [os.path.dirname(os.path.abspath(devfix.__file__))], []
        while todo:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != "__pycache__":
                            todo.append(entry.path)
                    elif entry.name.endswith(".py"):
                        found.append(entry.path)
        found = [*sorted(found), _libcst()]
        states, newest = [], 0
        for path in found:
            try:
                one = os.stat(path)
            except OSError:
                states.append(f"{path} is gone")
                continue
            states.append(f"{path} {one.st_size} {one.st_ino} {one.st_mtime_ns} {one.st_ctime_ns}")
            newest = max(newest, one.st_mtime_ns, one.st_ctime_ns)
        return cls(tuple(found), _digest(states), newest < time.time_ns() - _SETTLED)


def _sources(installed: Installed) -> str:
    return depends.digest(b"\0".join(os.fsencode(path) + b"\0" + bytes_of(path) for path in installed.files))


def _libcst() -> str:
    from importlib.util import find_spec

    spec = find_spec("libcst")
    places = spec.submodule_search_locations if spec is not None else None
    return os.path.join(places[0], "_version.py") if places else ""
