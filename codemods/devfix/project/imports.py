"""Which files of a project import which: what the index says of names, made sure by where each import leads."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from devfix.pipeline import depends
from devfix.project.importing import statements_in, tried_anyway

if TYPE_CHECKING:
    from devfix.project.project import Project

REACH = 64  # files
READERS = 64  # files in which a function is looked for
_NAME = re.compile(r"([\w.]+)(?:\s+as\s+\w+)?")
_BESIDES_NAMES = re.compile(r"#[^\n]*|[()\\]")  # comments, brackets and the ends of lines that go on
_INIT = "__init__.py"


class Imports:
    """The answers of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def reach(self, path: str) -> list[str]:
        """A file and those that it imports as it is loaded, in turn; not more than are worth it."""
        found, seen = [path], {path}
        for one in found:
            for other, outermost in self.imported(one):
                if outermost and other not in seen and len(found) < REACH:
                    seen.add(other)
                    found.append(other)
        return found

    def imported(self, path: str) -> list[tuple[str, bool]]:
        """The files of the project that a file imports, and whether that happens as it is loaded."""
        found: dict[str, bool] = {}
        for other, _, needed in self._imports(path):
            found[other] = found.get(other, False) or needed
        return list(found.items())

    def taken(self, path: str, other: str) -> set[bytes] | None:
        """The names of another file that a file imports by themselves; None if it imports the file, or all of it."""
        names = [given for one, given, _ in self._imports(path) if one == other]
        return {given[0].encode() for given in names} if names and all(names) else None

    @depends.kept
    def _imports(self, path: str) -> list[tuple[str, tuple[str, ...], bool]]:
        """What a file imports of the project: the file, the names in it, and whether that happens as it is loaded."""
        files = self.project.files
        found: list[tuple[str, tuple[str, ...], bool]] = []
        data = files.text(path).encode("utf-8", "replace")
        anyway = tried_anyway(data)
        for module, names, modules, outermost in statements_in(data):
            given = _BESIDES_NAMES.sub("", (names or modules).decode())
            base = module.decode()
            outermost = outermost or module in anyway
            joint = "" if not base or base.endswith(".") else "."
            for part in given.split(","):
                match = _NAME.match(part.strip())
                dotted = f"{base}{joint}{match.group(1)}" if match is not None else base
                needed = outermost or dotted.encode() in anyway
                place = files.module(path, dotted) if dotted and files.has(path, dotted) else None
                if place is not None and place[0] != path:
                    found.append((*place, needed))
        return found

    def importers(self, path: str) -> list[str]:
        """The files that import something of a file, sorted; none if those that may are too many to read."""
        namers = self.namers(path)
        if len(namers) > READERS:
            return []
        return [one for one in namers if any(other == path for other, _ in self.imported(one))]

    def namers(self, path: str) -> list[str]:
        """The files with an import that names something of a file, or the file."""
        folder, name = os.path.split(path)
        stem = os.path.basename(folder) if name == _INIT else name.removesuffix(".py")
        names = self.project.names_of(path)
        callers = self.project.callers
        return sorted({one for key in (*names, stem, f"*{stem}") for one in callers.importing(key)} - {path})
