"""The project that a file belongs to, and what each file sees of the others.

A file asks for what it uses (pull), so its facts do not depend on which files are analysed with it. What it
asks for is found out at a *depth*: an analysed file has depth 2, the files it asks 1, and those they ask 0,
which know of themselves only. So files that import each other come to an end, in the same way wherever one
begins.
"""

from __future__ import annotations

import ast
import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from devfix import depends
from devfix.depends import Needs
from devfix.engine.files import STAR, File
from devfix.flow.lattice import Kind, fresh_identity
from devfix.flow.outside import Bases, Outside, judged
from devfix.project.callers import Callers
from devfix.project.facts import Facts
from devfix.project.files import Files, root_of
from devfix.project.foreign import ForeignProgram
from devfix.project.names import PREFIX, Definition
from devfix.project.outline import ClassOutline, Outline, is_plain, outline_of
from devfix.project.runs import Runs
from devfix.source import Source

DEPTH = 2
PROGRAMS = 48  # interpreted files that are kept
OUTLINES = 4096
FILES = 40  # that the engine looks definitions up in
MANY_STARS = 8  # of one file, for which what they give is indexed


if TYPE_CHECKING:
    from devfix.project.view import View


class Project:
    """All files below one root."""

    def __init__(self, root: str) -> None:
        self.files = Files(root)
        self.callers = Callers(self)
        self.facts = Facts(self)
        self.runs = Runs(self)
        self._outlines: OrderedDict[str, Outline | None] = OrderedDict()
        self._programs: OrderedDict[tuple[str, int], tuple[ForeignProgram | None, Needs]] = OrderedDict()
        self._files: OrderedDict[str, File] = OrderedDict()
        self._definitions: dict[tuple[str, str], tuple[Definition | None, Needs]] = {}
        self._bases: dict[tuple[str, str], tuple[Bases | None, Needs]] = {}
        self._starred: dict[tuple[str, ...], tuple[tuple[dict[str, list[int]], list[int]], Needs]] = {}
        self._keys: dict[Definition, int] = {}
        self._devices: set[int] = set()
        self.known: dict[str, Definition] = {}  # by the project's names for functions and classes

    # --- files ---------------------------------------------------------------------------

    def outline(self, path: str) -> Outline | None:
        if path in self._outlines:
            self._outlines.move_to_end(path)
            self.files.saw(path)
            return self._outlines[path]
        source = self.files.source(path)
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

    def program(self, path: str, depth: int) -> ForeignProgram | None:
        """A file, interpreted with what it sees at that depth; None if that cannot be done."""
        key = path, depth
        if key in self._programs:
            self._programs.move_to_end(key)
            known, needs = self._programs[key]
            depends.add(needs)
            return known
        made: ForeignProgram | None = None
        with depends.aside() as needs:
            source = self.files.source(path)
            if source is not None:
                try:
                    made = ForeignProgram(path, source, self.outside(path, source, depth))
                except RecursionError:
                    made = None
                else:
                    made.needs = needs
                    self._name_devices(made)
        depends.add(needs)
        self._programs[key] = made, needs
        if len(self._programs) > PROGRAMS:
            _, (old, _) = self._programs.popitem(last=False)
            if old is not None and not old.busy:
                old.release()
        return made

    def _name_devices(self, program: ForeignProgram) -> None:
        """A device that a file defines is the same one in all files that import it."""
        outline = self.outline(program.path)
        for name, value in program.state.names.items():
            key = value.place.key
            if (
                value.kind is Kind.DEVICE
                and key
                and outline is not None
                and outline.names.get(name) == "value"
            ):
                if key not in self._devices:
                    program.keys[key] = self.key(Definition(program.path, name, "value"))

    def key(self, definition: Definition) -> int:
        """The key of places at a device, the same for all files."""
        key = self._keys.setdefault(definition, fresh_identity())
        self._devices.add(key)
        return key

    def outside(self, path: str, source: Source, depth: int = DEPTH) -> View:
        """What the file `path` with this text sees of the others."""
        from devfix.project.view import View

        return View(self, path, source, depth)

    # --- names ---------------------------------------------------------------------------

    def lookup(self, path: str, dotted: str) -> Definition | None:
        """What `dotted`, imported by the file `path`, is in the end; None if that is not certain."""
        key = path, dotted
        return depends.remembered(self._definitions, key, lambda: self._lookup(path, dotted, set()))

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
        key = (path, *stars)
        words, always = depends.remembered(self._starred, key, lambda: self._words_of(path, stars))
        return [stars[number] for number in sorted({*words.get(name, ()), *always})]

    def _words_of(self, path: str, stars: list[str]) -> tuple[dict[str, list[int]], list[int]]:
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

    # --- classes -------------------------------------------------------------------------

    def class_outline(self, definition: Definition) -> ClassOutline | None:
        outline = self.outline(definition.path)
        return outline.classes.get(definition.name) if outline is not None else None

    def bases(self, definition: Definition) -> Bases | None:
        """What a class is by its bases; None if not all of them are known and it is no module."""
        key = definition.path, definition.name
        return depends.remembered(self._bases, key, lambda: self._judged(definition, set()))

    def _judged(self, definition: Definition, seen: set[Definition]) -> Bases | None:
        outline = self.class_outline(definition)
        if outline is None or definition in seen:
            return None
        seen.add(definition)
        known: dict[str, Bases] = {}
        certain = True
        for base in outline.bases:
            parent = self.base(definition.path, base)
            found = None if parent is None else self._judged(parent, seen)
            if found is not None:
                known[base] = found
            elif not is_plain(base):
                certain = False
        made = judged(outline.bases, known)
        return made if certain or made != Bases() else None

    def base(self, path: str, base: str) -> Definition | None:
        """A base class, as the outline of the file that derives from it writes it."""
        outline = self.outline(path)
        if outline is None or base.startswith("torch."):
            return None
        if base in outline.names and not outline.names[base].startswith(" "):
            return Definition(path, base, "class") if outline.names[base] == "class" else None
        found = self.lookup(path, base) if "." in base else self.starred(path, outline.stars, base)
        return found if found is not None and found.what == "class" else None

    def line(self, definition: Definition) -> list[tuple[Definition, ClassOutline]]:
        """A class and those of the project that it derives from, nearest first, with their outlines."""
        found: list[tuple[Definition, ClassOutline]] = []
        todo, seen = [definition], {definition}
        while todo:
            one = todo.pop(0)
            outline = self.class_outline(one)
            if outline is None:
                continue
            found.append((one, outline))
            for base in outline.bases:
                parent = self.base(one.path, base)
                if parent is not None and parent not in seen:
                    seen.add(parent)
                    todo.append(parent)
        return found

    def written(self, path: str, name: str) -> tuple[str, Source, ast.ClassDef] | None:
        """See `Outside.written`: the last class of that name at the top of its file."""
        definition = self.known.get(name) or self.lookup(path, name)
        source = self.files.source(definition.path) if definition is not None else None
        if definition is None or source is None:
            return None
        found = [n for n in source.tree.body if isinstance(n, ast.ClassDef) and n.name == definition.name]
        return (definition.path, source, found[-1]) if found else None

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
        file = self._files.get(definition.path)
        if file is None or file.source is not source:
            file = self._files[definition.path] = File(definition.path, source, self.resolve)
            if len(self._files) > FILES:
                for one in self._files.values():
                    one.forget_others()
                while len(self._files) > FILES // 2:
                    self._files.popitem(last=False)
        return file, definition.name

    def name(self, definition: Definition) -> str:
        """The project's name of a function or class, under which it is known from now on."""
        name = PREFIX + self.files.dotted(definition.path, definition.name)
        self.known[name] = definition
        return name


class Projects:
    """The projects of one run, one for each root."""

    def __init__(self, root: str = "") -> None:
        self._given = os.path.realpath(root) if root else ""
        self._roots: dict[str, str] = {}
        self._projects: dict[str, Project] = {}

    def outside(self, path: str, source: Source) -> Outside | None:
        """What an analysed file sees of the others of its project; None where it has none."""
        real = os.path.realpath(path)
        if self._given and not real.startswith(self._given.rstrip(os.sep) + os.sep):
            return None
        root = self._given or self._root(real)
        project = self._projects.get(root)
        if project is None:
            project = self._projects[root] = Project(root)
        return project.outside(real, source)

    def _root(self, path: str) -> str:
        folder = os.path.dirname(path)
        if folder not in self._roots:
            self._roots[folder] = root_of(path)
        depends.note(f"^{folder}", self._roots[folder])
        return self._roots[folder]
