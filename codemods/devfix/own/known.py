"""All codemods that a run may use: devfix's own, those of installed packages, and those that were loaded."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from devfix import codemod
from devfix.codemod import Codemod
from devfix.config import ConfigError

if TYPE_CHECKING:
    from devfix.own.loading import Origin

GROUP = "devfix.codemods"
_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>[\w-]+))?\Z", re.DOTALL)
_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)[.:](?P<name>[^\W\d]\w*)\Z")
_TOOLS = ("libcst:", "bowler:")

_loaded: dict[str, type[Codemod]] = {}


def is_code(spec: str) -> bool:
    """Does it name code to be loaded, and not a codemod by its id?"""
    return spec.startswith(_TOOLS) or bool(_FILE.match(spec)) or "/" in spec or os.sep in spec


def load(spec: str, folder: str = "") -> tuple[str, ...]:
    """Load what a text names; the ids of its codemods. Paths are relative to `folder`. Raises ConfigError.

    Its code is run: the text must come from whoever runs devfix.
    """
    from devfix.own.loading import classes

    found = classes(_origin(spec, folder))
    for id, kind in found.items():
        taken = _loaded.get(id)
        if id in codemod.registry():
            raise ConfigError(f"codemod {spec}: the id {id!r} is that of a codemod of devfix; choose another")
        if taken is not None and taken is not kind and taken.origin.path != kind.origin.path:
            raise ConfigError(f"codemod {spec}: the id {id!r} is that of {taken.origin.spec} as well")
        _loaded[id] = kind
    return tuple(found)


def forget() -> None:
    """Forget what was loaded, for another run in the same process."""
    _loaded.clear()


def _origin(spec: str, folder: str) -> Origin:
    from devfix.own.loading import How, Origin, of_file

    tool, colon, rest = spec.partition(":")
    how: How = "rule"
    if colon and f"{tool}:" in _TOOLS:
        how = "libcst" if tool == "libcst" else "bowler"
    text = rest if how != "rule" else spec
    file = _FILE.match(text)
    if file:
        path = os.path.join(folder, os.path.expanduser(file["path"]))
        if how == "bowler" and file["name"]:
            raise ConfigError(f"codemod {spec}: a Bowler script is run whole; write bowler:{file['path']}")
        if how == "libcst" and not file["name"]:
            raise ConfigError(f"codemod {spec} must name the class, too: libcst:{file['path']}:CLASS")
        return of_file(spec, how, path, file["name"] or "")
    if how == "bowler":
        raise ConfigError(f"codemod {spec} must name a script: bowler:path/to/script.py")
    module = _MODULE.match(text)
    if how == "libcst" and module:
        return Origin(spec, "libcst", module["module"], name=module["name"])
    if how == "libcst":
        raise ConfigError(f"codemod {spec} must be libcst:MODULE.CLASS or libcst:path/to/file.py:CLASS")
    raise ConfigError(f"codemod {spec} must be an id, path/to/file.py or path/to/file.py:CLASS")


class Known(Mapping[str, type[Codemod]]):
    """The codemods by id; devfix's own first, each imported when it is asked for."""

    def __init__(self) -> None:
        self._own = codemod.registry()
        self._installed = {id: origin for id, origin in installed().items() if id not in self._own}
        self.broken: dict[str, str] = {}

    @property
    def only_own(self) -> bool:
        """Are there no others than devfix's own?"""
        return not self._installed and not _loaded

    def __getitem__(self, id: str) -> type[Codemod]:
        if id in self._own:
            return self._own[id]
        if id in _loaded:
            return _loaded[id]
        return self._load(id)

    def _load(self, id: str) -> type[Codemod]:
        from devfix.own.loading import classes

        origin = self._installed[id]
        found = classes(origin)
        if id not in found:
            raise ConfigError(
                f"{origin.spec}: the entry point is called {id!r}, and its codemod {', '.join(found)!r}"
            )
        return found[id]

    def by_default(self, but: Collection[str] = ()) -> tuple[str, ...]:
        """The ids that are on by default, less some; what cannot be loaded is noted in `broken`."""
        on = []
        for id in (id for id in self if id not in but):
            try:
                on += [id] if self[id].default else []
            except ConfigError as error:
                self.broken[id] = str(error)
        return tuple(on)

    def __contains__(self, id: object) -> bool:
        return id in self._own or id in _loaded or id in self._installed

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from sorted({*_loaded, *self._installed})

    def __len__(self) -> int:
        return len(set(self))


def named(specs: Sequence[str], folder: str = "") -> tuple[str, ...]:
    """The ids that texts stand for, code loaded where they name code. Raises ConfigError."""
    found: list[str] = []
    for spec in specs:
        found += load(spec, folder) if is_code(spec) else [spec]
    return tuple(dict.fromkeys(found))


@cache
def installed() -> dict[str, Origin]:
    """Id -> origin of the codemods of installed packages; nothing of them is imported yet.

    What lies in the working directory is not installed: it may be the analysed repository.
    """
    from devfix.documents.installed import has_group

    here = os.getcwd()
    folders = [path for path in sys.path if path and os.path.realpath(path) != os.path.realpath(here)]
    if not has_group(folders, GROUP):
        return {}
    from importlib.metadata import distributions

    from devfix.own.loading import Origin

    found: dict[str, Origin] = {}
    for distribution in distributions(path=folders):
        for point in distribution.entry_points:
            if point.group == GROUP and point.name not in found:
                name = f"{distribution.name} {distribution.version}"
                spec = f"{point.name} (of the package {name})"
                found[point.name] = Origin(spec, "rule", point.module, name=point.attr)
    return found
