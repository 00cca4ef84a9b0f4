"""The project that a file belongs to, and what each file sees of the others.

A file asks for what it uses (pull), so its facts do not depend on which files are analysed with it.
"""

from __future__ import annotations

import os
from collections import OrderedDict

from devfix.documents.state import is_below
from devfix.engine.files import STAR, File
from devfix.flow.outside import Outside
from devfix.pipeline import depends
from devfix.pipeline.depends import Needs
from devfix.pipeline.listing import MARKS, Mark, mark_of, noted_kind, root_of
from devfix.project.callers import Callers
from devfix.project.facts import Facts
from devfix.project.files import Files
from devfix.project.imports import Imports
from devfix.project.outline import Definition, Outline, outline_of
from devfix.project.runs import Runs
from devfix.text.source import Source

OUTLINES = 4096
FILES = 512  # that the engine looks definitions up in
MANY_STARS = 8  # of one file, for which what they give is indexed


class Project:
    """All files below one root."""

    def __init__(self, root: str) -> None:
        self.files = Files(root)
        self.callers = Callers(self)
        self.imports = Imports(self)
        self.facts = Facts(self)
        self.runs = Runs(self)
        self._outlines: OrderedDict[str, Outline | None] = OrderedDict()
        self._files: OrderedDict[str, File] = OrderedDict()
        self._recorder: Needs | None = None

    # --- files ---------------------------------------------------------------------------

    def outline(self, path: str) -> Outline | None:
        if path in self._outlines:
            self._outlines.move_to_end(path)
            self.files.saw(path)
            return self._outlines[path]
        source = self.files.glimpse(path)
        found = self._outlines[path] = None if source is None else outline_of(source)
        if len(self._outlines) > OUTLINES:
            self._outlines.popitem(last=False)
        return found

    def outline_of(self, path: str, source: Source) -> Outline:
        """The outline of a file that is at hand; those that import it ask for it later."""
        made = outline_of(source)
        if path not in self._outlines:
            self._outlines[path] = made
            self.files.gave(path, source.text)
        return made

    # --- names ---------------------------------------------------------------------------

    @depends.kept
    def lookup(self, path: str, dotted: str) -> Definition | None:
        """What `dotted`, imported by the file `path`, is in the end; None if that is not certain."""
        return self._lookup(path, dotted, set())

    def _lookup(self, path: str, dotted: str, seen: set[tuple[str, str]]) -> Definition | None:
        if (path, dotted) in seen:
            return None
        seen.add((path, dotted))
        found = self.files.module(path, dotted)
        if found is None:
            return None
        file, names = found
        if len(names) == 1:
            return self._defined(file, names[0], seen)
        if names:
            return None
        # A submodule; its package may have given the name to something in it.
        folder, name = os.path.split(file)
        if name == "__init__.py":
            folder, name = os.path.split(folder)
        package = os.path.join(folder, "__init__.py")
        outline = self.outline(package) if self.files.is_file(package) and package != path else None
        name = name.removesuffix(".py")
        if outline is None or name not in outline.names:
            return None
        return self._defined(package, name, seen)

    def _defined(self, file: str, name: str, seen: set[tuple[str, str]]) -> Definition | None:
        if file not in self._outlines and not self.files.may_have(file, name):
            return None
        outline = self.outline(file)
        if outline is None:
            return None
        what = outline.names.get(name, "")
        if what.startswith(" "):
            return self._lookup(file, what[1:], seen)
        if what:
            return Definition(file, name, what) if what != "?" else None
        return None if name.startswith("_") else self.starred(file, outline.stars, name, seen)

    def starred(
        self, path: str, stars: list[str], name: str, seen: set[tuple[str, str]] | None = None
    ) -> Definition | None:
        """A name that comes from `from x import *`: of the last that has it."""
        seen = set() if seen is None else seen
        for star in reversed(stars if len(stars) < MANY_STARS else self._stars_with(path, stars, name)):
            module = self.files.module(path, star)
            if module is None or module[1] or (module[0], f"*{name}") in seen:
                continue
            seen.add((module[0], f"*{name}"))
            found = self._defined(module[0], name, seen)
            if found is not None:
                return found
        return None

    def _stars_with(self, path: str, stars: list[str], name: str) -> list[str]:
        """Those of many stars whose modules may have a name."""
        words, always = self._words_of(path, tuple(stars))
        return [stars[number] for number in sorted({*words.get(name, ()), *always})]

    @depends.kept
    def _words_of(self, path: str, stars: tuple[str, ...]) -> tuple[dict[str, list[int]], list[int]]:
        """Word -> the numbers of the stars whose modules have it; and of those that have stars of their own."""
        found: dict[str, list[int]] = {}
        always = []
        for number, star in enumerate(stars):
            module = self.files.module(path, star)
            if module is not None and not module[1]:
                words = self.files.words(module[0])
                for word in words:
                    found.setdefault(word, []).append(number)
                if "*" in words:
                    always.append(number)
        return found, always

    def names_of(self, path: str, seen: tuple[str, ...] = ()) -> set[str]:
        """The names that others may import of a file: what it defines, and what a package passes on."""
        outline = self.outline(path)
        if outline is None or path in seen:
            return set()
        package = path.endswith("__init__.py")
        found = {
            name
            for name, what in outline.names.items()
            if not what.startswith(" ") or (package and self.files.has(path, what[1:]))
        }
        for star in outline.stars[:MANY_STARS]:
            module = self.files.module(path, star)
            found |= (
                self.names_of(module[0], (*seen, path)) if module is not None and not module[1] else set()
            )
        return found

    def is_file(self, path: str) -> bool:
        """Is that the path of a file whose definitions were given to the engine?"""
        return path in self._files

    def resolve(self, path: str, dotted: str) -> tuple[File, str] | None:
        """The file that defines what `dotted`, imported by the file `path`, is in the end, and its name there."""
        if dotted.startswith(STAR):
            outline = self.outline(path)
            stars = outline.stars if outline is not None else []
            definition = self.starred(path, stars, dotted.removeprefix(STAR))
        else:
            definition = self.lookup(path, dotted)
        if definition is None or definition.what not in ("def", "class", "value"):
            return None
        source = self.files.source(definition.path)
        if source is None:
            return None
        if depends.recorder() is not self._recorder:  # another result: what it is made of is noted anew
            self._recorder = depends.recorder()
            for one in self._files.values():
                one.forget_others()
        file = self._files.get(definition.path)
        if file is None or file.source is not source:
            file = self._files[definition.path] = File(definition.path, source, self.resolve)
            if len(self._files) > FILES:
                for one in self._files.values():
                    one.forget_others()
                while len(self._files) > FILES // 2:
                    self._files.popitem(last=False)
        return file, definition.name


class Projects:
    """The projects of one run, one for each root."""

    def __init__(self, root: str = "", folders: tuple[str, ...] = ()) -> None:
        self._given = os.path.realpath(root) if root else ""
        self._folders = folders
        self._roots: dict[str, str] = {}
        self._projects: dict[str, Project] = {}

    def outside(self, path: str, source: Source) -> Outside | None:
        """What an analysed file sees of the others of its project; None where it has none."""
        real = os.path.realpath(path)
        if self._given and not is_below(real, self._given):
            return None
        root = self._given or self._asked_for(self._root(real))
        project = self._projects.get(root)
        if project is None:
            project = self._projects[root] = Project(root)
        return Outside(project, real, source)

    def _asked_for(self, root: str) -> str:
        """The folder that was asked for, around a file's root that nothing marks as one; else that."""
        around = [one for one in self._folders if is_below(root, one)]
        if not around or mark_of(root) is not Mark.NOTHING:
            return root
        for name in MARKS:  # there might be one the next time
            noted_kind(os.path.join(root, name))
        return max(around, key=len)

    def _root(self, path: str) -> str:
        folder = os.path.dirname(path)
        if folder not in self._roots:
            self._roots[folder] = root_of(path)
        depends.note(f"^{folder}", self._roots[folder])
        return self._roots[folder]
