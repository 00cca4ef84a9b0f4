"""What was kept of a file, if it still holds, and keeping what is new: one small file for each folder.

Several runs at once do no harm: each file is replaced whole, the last one wins, and every entry of it
says what it is made of.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from devfix import __version__, depends
from devfix.documents import DocumentError, read_bytes
from devfix.documents.kept import Kept, user_folder
from devfix.keeping.data import Damaged, keepable, plain, result_of
from devfix.keeping.valid import Present
from devfix.listing import root_of

if TYPE_CHECKING:
    from devfix.around import Around
    from devfix.codemod import Codemod
    from devfix.report import FileResult

_FORMAT = "1"
_OWN = "devfix.rules."  # whoever changes other codemods need not change their names
_MOST = 20_000  # needs of one result; who has more is analysed anew
_SETTLED = 2_000_000_000  # nanoseconds; some file systems know no less


class _Folder:
    """The results of the files of one folder."""

    def __init__(self, name: str, body: bytes) -> None:
        self.name = name
        self.needs: list[tuple[str, str]] = []
        self.files: dict[str, tuple[list[int], object]] = {}
        self.new: dict[str, tuple[Mapping[str, str], object]] = {}
        self.held: dict[int, bool] = {}  # which needs are as they were, as far as it was looked at
        if body:
            try:
                self._read(json.loads(body))
            except (ValueError, RecursionError, Damaged):
                self.needs, self.files = [], {}

    def _read(self, data: object) -> None:
        if not isinstance(data, list) or len(data) != 2:
            raise Damaged
        needs, files = data
        if not isinstance(needs, list) or not isinstance(files, dict):
            raise Damaged
        for one in needs:
            if type(one) is not list or len(one) != 2 or type(one[0]) is not str or type(one[1]) is not str:
                raise Damaged
            self.needs.append((one[0], one[1]))
        for name, entry in files.items():
            if type(entry) is not list or len(entry) != 2 or type(entry[0]) is not list:
                raise Damaged
            numbers = entry[0]
            if not set(map(type, numbers)) <= {int}:
                raise Damaged
            if numbers and not 0 <= min(numbers) <= max(numbers) < len(self.needs):
                raise Damaged
            self.files[name] = numbers, entry[1]

    def body(self, folder: str) -> bytes:
        """All of it with what is new, without what is gone."""
        numbers: dict[tuple[str, str], int] = {}
        files: dict[str, list[Any]] = {}
        for name, (needed, result) in self.files.items():
            if name not in self.new and os.path.lexists(os.path.join(folder, name)):
                known = [numbers.setdefault(self.needs[one], len(numbers)) for one in needed]
                files[name] = [known, result]
        for name, (states, result) in self.new.items():
            files[name] = [[numbers.setdefault(one, len(numbers)) for one in states.items()], result]
        return json.dumps([list(numbers), files], separators=(",", ":")).encode()


class Results:
    """What is kept under the same settings. With `repair`, only of files that have nothing to repair."""

    def __init__(self, kept: Kept, settings: str, repair: bool) -> None:
        self._kept = kept
        self._settings = settings
        self._repair = repair
        self._present = Present(kept, settings)
        self._folders: dict[str, _Folder] = {}

    def known(self, paths: Sequence[str]) -> dict[str, FileResult]:
        """The results that still hold."""
        found: dict[str, FileResult] = {}
        for path in paths:
            place, name = os.path.split(path)
            folder = self._folder(place)
            needed, data = folder.files.get(name, (None, None))
            if needed is None or (self._repair and isinstance(data, list) and data[:1] != [[]]):
                continue
            own = f"={os.path.abspath(path)}"
            if own not in (folder.needs[one][0] for one in needed) or os.path.islink(path):
                continue
            if self._holds(folder, needed):
                try:
                    found[path] = result_of(path, data)
                except Damaged:
                    continue
        return found

    def _holds(self, folder: _Folder, needed: list[int]) -> bool:
        held = folder.held
        for one in needed:
            found = held.get(one)
            if found is None:
                found = held[one] = self._present.holds(*folder.needs[one])
            if not found:
                return False
        return True

    def keep(self, result: FileResult, states: Mapping[str, str]) -> None:
        """Note what came of a file, and what that was made of; written by `save`."""
        path = result.path
        if not self._repair:
            result = replace(result, joint=())  # what a finding's fix does elsewhere is in its edits
        lasting = depends.CHANGED not in states.values() and len(states) <= _MOST
        if lasting and keepable(result) and not os.path.islink(path):
            folder, name = os.path.split(path)
            self._folder(folder).new[name] = states, plain(result)

    def save(self) -> None:
        changed = [(folder, one) for folder, one in self._folders.items() if one.new]
        for folder, one in changed:
            self._kept.write(one.name, one.body(folder))
            one.new.clear()
        if changed:
            self._kept.prune()

    def _folder(self, folder: str) -> _Folder:
        known = self._folders.get(folder)
        if known is None:
            key = "\0".join((self._settings, folder, self._present.real(folder)))
            name = depends.digest(key.encode("utf-8", "surrogateescape"))
            known = self._folders[folder] = _Folder(name, self._kept.read(name))
        return known


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
    folder = user_folder()
    if not folder:
        return None
    kept = Kept(folder)
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
    return depends.digest(b"\0".join(_content(path) for path in installed.files))


def _libcst() -> str:
    from importlib.util import find_spec

    spec = find_spec("libcst")
    places = spec.submodule_search_locations if spec is not None else None
    return os.path.join(places[0], "_version.py") if places else ""


def _content(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape") + b"\0" + read_bytes(path)
    except DocumentError:
        return b""
