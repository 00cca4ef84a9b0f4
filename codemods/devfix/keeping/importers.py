"""Which files of a project import a name, without reading again what is as it was the last time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from devfix.documents import bytes_of
from devfix.documents.kept import Kept
from devfix.pipeline import depends
from devfix.pipeline.listing import FILES
from devfix.project.importing import importers_state, index_of, names_in


class Importers:
    """The importers of one project's names; what each file imports is kept under its content."""

    def __init__(self, kept: Kept, settings: str, root: str) -> None:
        self._kept = kept
        key = "\0".join((settings, "importers", root))
        self._name = depends.digest(key.encode("utf-8", "surrogateescape"))
        self._index: dict[str, list[str]] = {}

    def look(self, paths: Sequence[str], content: Callable[[str], str]) -> None:
        """Learn what these files import; `content` gives the state of a file."""
        if len(paths) > FILES:
            return  # nobody asks in so large a project
        before = self._read()
        now: dict[str, list[str]] = {}
        found: list[tuple[str, list[str]]] = []
        for path in paths:
            state = content(path)
            names = before.get(state)
            if names is None:
                data = bytes_of(path)
                names = sorted(names_in(data))
                if depends.digest(data) == state:  # else it cannot be read, or changes right now
                    now[state] = names
            else:
                now[state] = names
            found.append((path, names))
        self._index = index_of(found)
        if now.keys() != before.keys():
            self._kept.write(self._name, json.dumps(now, separators=(",", ":")).encode())

    def state(self, name: str) -> str:
        return importers_state(self._index.get(name, ()))

    def _read(self) -> dict[str, list[str]]:
        try:
            data = json.loads(self._kept.read(self._name) or b"{}")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(data, dict):
            return {}
        return {
            state: names
            for state, names in data.items()
            if isinstance(names, list) and all(type(name) is str for name in names)
        }
