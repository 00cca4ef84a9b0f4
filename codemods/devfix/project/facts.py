"""What a file can know of its project as a whole: is CUDA a choice there, is a function used at all?

Everything is found out from texts, by the index of the project: see `devfix.project.marks`. Where the
project is too large for an index, nothing is known.
"""

from __future__ import annotations

import ast
import keyword
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from devfix.pipeline import depends
from devfix.project.calling import Place, fetches, is_called, places_in
from devfix.project.cuda import Block, blocks_of, goes_to_cuda
from devfix.project.importing import SAVED
from devfix.project.imports import READERS
from devfix.project.marks import BUILDS, CHOOSES, INSISTS, MOVES, ONLY, OTHER, WRITES, extensions_in, places
from devfix.text.source import FUNCTIONS, FunctionNode, Source, remembered

if TYPE_CHECKING:
    from devfix.project.project import Project

# What writes them for the program, by its name or that of its library.
_LIBRARY_WRITERS = ("Trainer", "ModelCheckpoint", "Accelerator", "lightning", "pytorch_lightning")
_WRITERS = (*_LIBRARY_WRITERS, "save_checkpoint", "save")
_STATE = re.compile(r"(?<!\w)(\w+)\.state_dict\(")
_USERS = 2  # functions, each the user of another one
_PROSE = re.compile(r"\b([A-Za-z]+)[- ]$")
_OWNER = re.compile(r"(?<![\w.])(\w+)[ \t]*\.[ \t]*$")
_COMMENT = re.compile(r"#[^\n]*")
_WORD = re.compile(r"\w+")
_SCRIPT = re.compile(r"^torch\.save\(", re.MULTILINE)
_DEVICES = re.compile(r"cuda|device")
_INIT = "__init__.py"
# A script that is installed with what lies beside it, not only one that compiles something.
_INSTALLS = re.compile(r"find_(?:namespace_)?packages|\bpackages\s*=|\bpy_modules\b")
_INSTALLED = re.compile(r"^\[(?:project|build-system|tool\.poetry|tool\.flit\.\w+)\]", re.MULTILINE)
# Whoever calls functions by what they are named need not write the name.
_BY_NAME = re.compile(
    r"\bgetattr\((?!(?:torch|nn|optim|np|numpy)\b)|\bglobals\(|"
    r"\b(?:import|from)\s+(?:fire|plac|jsonargparse|hydra)\b"
)
_LOADERS = ("load_hyperpyyaml", "hydra", "instantiate", "importlib", "import_module", "locate")
_TESTS = re.compile(r"[\\/](?:tests?[\\/]|test_[^\\/]*$)")
# Called by others as a matter of course.
_HOOKS = re.compile(
    r"__\w+__$|forward$|(?:training|validation|test|predict)_step$|on_|test_|setup$|main$|(?:call|reset|step|state_dict|load_state_dict|collate_fn)$"
)
_Definition = FunctionNode | ast.ClassDef
_PLAIN_BASES = frozenset({"object", "torch.nn.Module", "ABC", "abc.ABC", "torch.utils.data.Dataset"})


class Facts:
    """The answers of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def chooses(self) -> bool | None:
        """Does any file show a choice between CUDA and something else?"""
        return self._any(CHOOSES)

    def other_gpu(self) -> bool | None:
        """Does any file show a GPU besides the current one?"""
        return self._any(OTHER)

    def moves(self, text: str) -> bool | None:
        """Does any file, or this text, put anything on a device, or leave that to a framework?"""
        return True if places(text.encode("utf-8", "replace")) else self._any(MOVES)

    def loads_by_name(self) -> bool:
        """Does any file get functions by names that stand in a recipe or a setting, as far as its imports show?"""
        return any(self.project.callers.importing(name) for name in _LOADERS)

    def writes(self) -> bool | None:
        """Does any file write checkpoints, itself or by a library's trainer?"""
        callers = self.project.callers
        found = any(callers.importing(name) for name in (WRITES, *_WRITERS))
        return found if callers.complete else None

    def writes_from_cpu(self) -> bool:
        """Are all checkpoints of the project from the CPU: copied there, or of programs that move nothing?"""
        callers = self.project.callers
        writers, copying = callers.importing(WRITES), set(callers.importing(SAVED))
        if not writers or not callers.complete or any(callers.importing(name) for name in _LIBRARY_WRITERS):
            return False
        return all(one in copying or self.project.runs.moves_nothing(one) for one in writers)

    def writes_optimizers(self) -> bool:
        """Does any file that writes checkpoints ask an optimizer, by its name, for its state?"""
        texts = (self.project.files.text(path) for path in self.project.callers.importing(WRITES))
        return any("optim" in owner.lower() for text in texts for owner in _STATE.findall(text))

    def saved_without_cuda(self, name: str) -> bool:
        """Is a file of that name written by scripts that say nothing of CUDA, and by nobody else?"""
        texts = [self.project.files.text(path) for path in self.project.callers.importing(WRITES)]
        written = re.compile(rf"\bsave\([^\n]*(?<![\w.-]){re.escape(name)}")
        writers = [text for text in texts if name in text and written.search(text)]
        return bool(writers) and all(_SCRIPT.search(text) and not _DEVICES.search(text) for text in writers)

    def _any(self, mark: str) -> bool | None:
        found = self.project.callers.importing(mark)
        return bool(found) if self.project.callers.complete else None

    # --- CUDA and nothing else -----------------------------------------------------------

    def needs_cuda(self, path: str) -> bool | None:
        """Does a file run on CUDA only, by what it does, what it imports, or all who import it?"""
        callers = self.project.callers
        insisting = set(callers.importing(INSISTS))
        only = set(callers.importing(ONLY))
        for script in callers.importing(BUILDS):
            for name in extensions_in(self.project.files.text(script)):
                only.update(callers.importing(name))
        if not callers.complete:
            return None
        if not only and not insisting:
            return False
        if path in insisting or self._reaches(path, only):
            return True
        for users in (self.project.imports.importers(path), callers.programs(path)):  # with CUDA, too
            users = [one for one in users if not _TESTS.search(one)]
            if users and all(one in insisting or self._reaches(one, only) for one in users):
                return True
        return False

    def _reaches(self, path: str, marked: set[str]) -> bool:
        return bool(marked) and not marked.isdisjoint(self.project.imports.reach(path))

    def goes_to_cuda(self, path: str, source: Source, names: Sequence[str], steps: int) -> bool:
        """Does a file, or what it uses of those that it imports, go to CUDA without asking, or all who call it?"""
        own = _own_blocks(source.text)
        if goes_to_cuda(own, map(self._blocks_of, self.project.imports.reach(path)[1:]), names, steps):
            return True
        places = self._calls(path, source, names[-1]) if names else []
        return bool(places) and all(place.bare for place in places)

    def uses_cuda(self, path: str, source: Source) -> bool:
        """Does anything that a file uses of those that it imports go to CUDA without asking?"""
        own = [replace(block, bare=False) for block in _own_blocks(source.text)]
        others = map(self._blocks_of, self.project.imports.reach(path)[1:])
        return goes_to_cuda(own, others, [block.name for block in own])

    def called_after(self, path: str, source: Source, name: str, before: str) -> bool:
        """Do all who call a function of a file call another one of it first, in the same function or script?"""
        places = self._calls(path, source, name)
        return bool(places) and all(is_called(place.above, before) for place in places)

    def called_after_download(self, path: str, source: Source, name: str) -> bool:
        """Do all who call a function, or make an object of a class, of a file download something first?"""
        places = self._calls(path, source, name, (*FUNCTIONS, ast.ClassDef))
        return bool(places) and all(fetches(place.above) for place in places)

    def _calls(
        self, path: str, source: Source, name: str, kinds: tuple[type[ast.AST], ...] = FUNCTIONS
    ) -> list[Place]:
        """All calls of a function at the top of a file; none where there may be more than the texts show."""
        if not any(
            isinstance(node, kinds) and getattr(node, "name", "") == name for node in source.tree.body
        ):
            return []
        if _HOOKS.match(name):
            return []
        found: list[Place] = []
        others = {*self.project.imports.importers(path), *self.project.callers.importing(name)}
        for one in [path, *sorted(one for one in others - {path} if not _TESTS.search(one))[:READERS]]:
            places = places_in(_encoded(self.project.files.text(one)), name)
            if places is None:
                return []
            found.extend(places)
        return found

    @depends.kept
    def _blocks_of(self, path: str) -> list[Block]:
        return blocks_of(self.project.files.text(path).encode("utf-8", "replace"))

    # --- who uses a function -------------------------------------------------------------

    def used(self, path: str, source: Source, name: str, below: tuple[str, ...] = ()) -> bool | None:
        """Is a function, method or class of a file mentioned anywhere but where it is defined?

        Not by functions that are not used themselves; `below` are those that it is asked for.
        """
        defined = _defined(source).get(name, [])
        methods = any(source.enclosing(one, ast.ClassDef) is not None for one in defined)
        # `torch.load` is not the `load` of this file.
        text, before = _bare(source.text), "torch." if methods else "."
        words = [at for at in _words(text).get(name, ()) if not text.endswith(before, 0, at)]
        mentions = _beyond(defined, text, _mentions(text, words, methods))
        users: set[str] = set()
        if len(mentions) > len(defined):
            users = _users(source, text, mentions, defined)
            if not users or len(below) >= _USERS:
                return True
        if not defined or _HOOKS.match(name) or _asks_by_name(text) or self.is_library(path):
            return True if users else None
        if any(one.decorator_list or not self._is_plain(source, one) for one in defined):
            return True if users else None
        if any(user in below or self.used(path, source, user, (*below, name)) is not False for user in users):
            return True
        word = re.compile(rf"(?<!torch\.)\b{re.escape(name)}\b")
        readers = self.project.imports.namers(path)
        if not self.project.callers.complete:
            return None
        seen, by_name = {path, *readers}, False
        for reader in readers:
            if len(seen) > READERS:
                return None
            text = _bare(self.project.files.text(reader))
            by_name = by_name or _asks_by_name(text)
            if _mentions(text, [match.start() for match in word.finditer(text)], methods):
                return True
            if methods:  # objects get further than the names of their classes
                more = [one for one in self.project.imports.namers(reader) if one not in seen]
                seen.update(more)
                readers.extend(more)
        return None if by_name or self._has_notebooks(path) else False

    def _is_plain(self, source: Source, function: _Definition) -> bool:
        """Is a function or class at the top level, or in a class that nobody else calls the methods of?"""
        owner = source.parents.get(function)
        while isinstance(owner, (ast.If, ast.Try, ast.With)):
            owner = source.parents.get(owner)
        if isinstance(owner, ast.ClassDef):
            return all(
                source.qualified(base) in _PLAIN_BASES or ast.unparse(base) == "object"
                for base in owner.bases
            )
        return isinstance(owner, ast.Module)

    def is_library(self, path: str) -> bool:
        """Is a file part of what is installed, for anybody to import?"""
        files = self.project.files
        folder = os.path.dirname(path)
        if os.path.basename(path) == "hubconf.py":
            return True
        if not files.is_file(os.path.join(folder, _INIT)):
            return False
        while (folder + os.sep).startswith(files.root.rstrip(os.sep) + os.sep):
            for name, pattern in (
                ("setup.py", _INSTALLS),
                ("setup.cfg", _INSTALLS),
                ("pyproject.toml", _INSTALLED),
            ):
                script = os.path.join(folder, name)
                if files.is_file(script) and pattern.search(files.text(script)):
                    return True
            folder = os.path.dirname(folder)
        return False

    def _has_notebooks(self, path: str) -> bool:
        """Are there notebooks beside a file or at the top, which are not looked at?"""
        for folder in {os.path.dirname(path), self.project.files.root}:
            depends.note_listing(folder)
            try:
                if any(name.endswith(".ipynb") for name in os.listdir(folder)):
                    return True
            except OSError:
                return True
        return False


def _mentions(text: str, found: list[int], methods: bool) -> list[int]:
    """Where a function is named in a text, of the places where its name stands.

    A method not as part of a module, nor in prose: `json.load` is no `load` of ours, nor is "what to load".
    """
    if not methods or not found:
        return found
    modules: dict[str, bool] = {}
    left: list[int] = []
    for at in found:
        match = _OWNER.search(text, max(at - 40, 0), at)
        owner = match.group(1) if match is not None else ""
        prose = _PROSE.search(text, max(at - 40, 0), at)
        if prose is not None and not keyword.iskeyword(prose.group(1)):
            continue
        if owner and owner not in modules:
            imported = rf"^[ \t]*import[ \t]+(?:[\w., \t]+[ \t,])?{re.escape(owner)}[ \t]*(?:,|$)"
            modules[owner] = re.search(imported, text, re.MULTILINE) is not None
        if not owner or not modules[owner]:
            left.append(at)
    return left


def _beyond(defined: Sequence[_Definition], text: str, found: list[int]) -> list[int]:
    """The mentions that are not in the body of a class of that name: `super(Net, self)`."""
    bodies = [(one.lineno, one.end_lineno or one.lineno) for one in defined if isinstance(one, ast.ClassDef)]
    if not bodies:
        return found
    lines = {at: text.count("\n", 0, at) + 1 for at in found}
    return [at for at in found if not any(first < lines[at] <= last for first, last in bodies)]


def _users(source: Source, text: str, found: list[int], defined: Sequence[_Definition]) -> set[str]:
    """The functions in which the mentions stand; none where one stands outside of them."""
    around = _around(source)
    names: set[str] = set()
    line, last = 1, 0
    for at in found:
        line, last = line + text.count("\n", last, at), at
        if any(one.lineno == line for one in defined):
            continue
        inner = around.get(line)
        if inner is None:
            return set()
        if inner not in defined:
            names.add(inner.name)
    return names


@remembered
def _around(source: Source) -> dict[int, FunctionNode]:
    """Line -> the function that it is in."""
    return {
        line: one
        for one in sorted(
            (one for one in source.definitions if isinstance(one, FUNCTIONS)), key=attrgetter("lineno")
        )
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }


@remembered
def _defined(source: Source) -> dict[str, list[_Definition]]:
    """The functions, methods and classes of a file by their names."""
    found: dict[str, list[_Definition]] = {}
    for node in source.definitions:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
    return found


# Asked of one file for each of its functions.
@lru_cache(maxsize=4)
def _own_blocks(text: str) -> list[Block]:
    return blocks_of(text.encode("utf-8", "replace"))


@lru_cache(maxsize=4)
def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=8)
def _bare(text: str) -> str:
    return _COMMENT.sub("", text)


@lru_cache(maxsize=4)
def _words(text: str) -> dict[str, list[int]]:
    """Word -> where it stands in a text."""
    found: dict[str, list[int]] = {}
    for match in _WORD.finditer(text):
        found.setdefault(match.group(), []).append(match.start())
    return found


@lru_cache(maxsize=8)
def _asks_by_name(text: str) -> bool:
    return _BY_NAME.search(text) is not None
