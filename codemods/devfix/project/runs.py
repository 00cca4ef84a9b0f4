"""How a file is run, as far as the programs of its project show: without CUDA, on another GPU than the current one?

A program counts only with what stands between it and the file: where a file on the way goes to CUDA whatever
is chosen, no choice of the program gets any further. All of it is read off the texts, file by file, and only
where somebody asks.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from devfix.pipeline import depends
from devfix.project.cuda import blocks_of, goes_to_cuda, goes_to_current, names_other, needs, plain
from devfix.project.importing import without_imports
from devfix.project.marks import CHOOSES, COMMENT, moves, spelled_out

if TYPE_CHECKING:
    from devfix.project.project import Project

REACH = 64  # files
# What reads a command line, or does something as it is loaded.
_PROGRAM = re.compile(
    rb"__main__|\bArgumentParser\(|\bparse_args\(|\bimport (?:fire|click|hydra)\b"
    rb"|^(?:for|with|while)\b|^(?!(?:warnings|logging|sys|os)\.)[a-z_][\w.]*\(",
    re.MULTILINE,
)
_TEST = re.compile(r"(?:^|[/\\])(?:tests?[/\\]|test_[^/\\]*$|conftest\.py$)|_test\.py$")

# A function, class or variable at the left margin, with all that belongs to it.
_BLOCK = re.compile(
    rb"^(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)?(\w+)\b[^\n]*(?:\n(?:[ \t)\]}][^\n]*|(?=\n)))*",
    re.MULTILINE,
)
_DEFINES = re.compile(rb"(?:async[ \t]+)?(?:def|class|from|import)\b")
_KEYWORDS = frozenset(word.encode() for word in keyword.kwlist)
_WORD = re.compile(rb"\w+")
_BY_NAME = re.compile(rb"\bgetattr\([ \t]*(?:\w+\.)*(\w+)|\bglobals\(|\bimport_module\(|\b(\w+)\.__dict__\b")


class Runs:
    """The answers of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def without_cuda(self, path: str, text: str, name: str, itself: bool) -> bool | None:
        """Does a program that can do without CUDA get to something of a file, or is that `itself` one?

        `name` is that of a function or class at the top of the file, empty for what is done as it is loaded.
        None: not known.
        """
        facts = self.project.facts
        if facts.chooses() is None:
            return None
        choosing = set(self.project.callers.importing(CHOOSES))
        if path in choosing and facts.is_library(path):
            return True
        return any(
            one in choosing
            and (itself or one != path)
            and _is_program(code)
            and not self._runs_cuda(one, code, path)
            for one, code in self._ways(path, text, name, needs)
        )

    def _runs_cuda(self, program: str, code: bytes, path: str) -> bool:
        """Does a program name something of another file that goes to CUDA whatever is chosen?"""
        words = set(_WORD.findall(code))
        for other, _ in self.project.imports.imported(program):
            if other == path:
                continue
            given = self._code(other)
            if needs(given) and any(
                match.group(1) in words and needs(match.group()) for match in _BLOCK.finditer(given)
            ):
                return True
        return False

    def _code(self, path: str) -> bytes:
        return _bare(self.project.files.text(path))

    def elsewhere(self, path: str, text: str, name: str) -> bool | None:
        """Does a program that uses another GPU than the current one get to something of a file? None: not known."""
        if self.project.facts.other_gpu() is None:
            return None
        return "set_device(" not in text and any(
            names_other(code) and _is_program(code)
            for _, code in self._ways(path, text, name, goes_to_current)
        )

    def chosen(self, path: str, text: str, name: str, itself: bool) -> bool | None:
        """Does a program that chooses its device, or whoever installs the project, get to something of a file?

        `itself`: does the file count, where it is such a program? Programs that leave no choice speak for whoever
        installs it, too.
        None: no program gets to it, or it is not known.
        """
        facts = self.project.facts
        if facts.chooses() is None:
            return None
        if facts.is_library(path):
            return facts.chooses() or not self._programs(path, text, name)
        choosing = set(self.project.callers.importing(CHOOSES)) - (set() if itself else {path})
        programs = self._programs(path, text, name)
        if not programs:
            return None
        return any(one in choosing and not self._insists(one, path, name) for one in programs)

    def reached(self, path: str, text: str, name: str) -> bool:
        """Do programs, and nobody who installs the project, get to something of a file?"""
        if self.project.facts.chooses() is None or self.project.facts.is_library(path):
            return False
        code = plain(text.encode("utf-8", "replace"))
        names = _using(code, {name.encode()})
        body = (one.group() for one in _BLOCK.finditer(code) if not _DEFINES.match(one.group()))
        itself = not name or any(not names.isdisjoint(_WORD.findall(one)) for one in body)
        return any(one != path or itself for one in self._programs(path, text, name))

    def unreached(self, path: str, text: str, name: str) -> bool:
        """Do programs or tests get to a file, but nobody to something of it, or only packages that pass it on?"""
        if self.project.facts.chooses() is None or self.project.facts.is_library(path):
            return False
        if self.is_test(path) or _is_program(_bare(text)):
            return not _is_program(_bare(text))
        users = [one for one, _ in self._ways(path, text, name, lambda _: False, tests=True) if one != path]
        if users:
            return all(os.path.basename(one) == "__init__.py" for one in users)
        return bool(self._programs(path, text, "", tests=True))

    def on_cuda(self, path: str, text: str, name: str) -> bool | None:
        """Do only programs get to something of a file that are other files, and go to the current GPU in any case?

        None: it is not known.
        """
        facts = self.project.facts
        if facts.chooses() is None or facts.is_library(path):
            return None
        programs = self._programs(path, text, name)
        return bool(programs) and all(
            one != path and self._insists(one, path, name) and not names_other(self._code(one))
            for one in programs
        )

    @depends.kept
    def all_on_cuda(self) -> bool | None:
        """Do the programs of the project that show a choice go to CUDA all the same? None: there are none."""
        programs = [one for one in self.project.callers.importing(CHOOSES) if self.is_program(one)]
        if not programs or not self.project.callers.complete:
            return None
        return all(
            self._insists(one, "", "") or self._runs_cuda(one, self._code(one), "") for one in programs
        )

    @depends.kept
    def is_program(self, path: str) -> bool:
        """Does a file do something where it is run, and is it no test?"""
        return not self.is_test(path) and _is_program(self._code(path))

    def is_test(self, path: str) -> bool:
        return _TEST.search(path.removeprefix(self.project.files.root)) is not None

    def _programs(self, path: str, text: str, name: str, tests: bool = False) -> list[str]:
        """The files that are programs, or `tests`, and get to something of a file, itself among them."""
        ways = self._ways(path, text, name, lambda _: False, tests)
        return [one for one, code in ways if _is_program(code) or (tests and self.is_test(one))]

    def _insists(self, program: str, path: str, name: str) -> bool:
        """Does a program go to CUDA itself, whatever is chosen, other than in what is asked about?"""
        blocks = blocks_of(self._code(program))
        own = program == path and name
        return goes_to_cuda([one for one in blocks if not own or name not in (one.name, one.owner)], ())

    def moved(self, path: str, text: str, name: str) -> bool | None:
        """Does a file that gets to something of a file move anything at all? None: not known.

        No move reaches a module that is only made for plain dicts.
        """
        facts = self.project.facts
        if facts.chooses() is None or facts.is_library(path):
            return None
        codes = [code for _, code in self._ways(path, text, name, lambda _: False)]
        return any(map(_moves, codes)) and not _only_in_dicts(codes, name.encode())

    def moves_nothing(self, path: str) -> bool:
        """Do a file, those that get to it, some program among them, and all that these use, move nothing at all?"""
        ways = list(self._ways(path, self.project.files.text(path), "", lambda _: False))
        used = {one for user, _ in ways for one in self.project.imports.reach(user)}
        return any(_is_program(code) for _, code in ways) and not any(_moves(self._code(one)) for one in used)

    def _ways(
        self, path: str, text: str, name: str, blocked: Callable[[bytes], bool], tests: bool = False
    ) -> Iterator[tuple[str, bytes]]:
        """A file, and those that run something of it, with their texts; nothing behind a file that is blocked."""
        code = _bare(text)
        todo, seen = [(path, code, _using(code, {name.encode()} if name else set()))], {path}
        for one, code, names in todo:
            yield one, code
            for other in [*self._importers(one), *self._receivers(one, names)]:
                if other in seen or len(seen) > REACH or (not tests and self.is_test(other)):
                    continue
                given = self._code(other)
                stem = os.path.basename(one.removesuffix("/__init__.py")).removesuffix(".py").encode()
                taken = self.project.imports.taken(other, one)
                named = not names or not names.isdisjoint(_WORD.findall(given) if taken is None else taken)
                if not named and os.path.basename(other) == "__init__.py":  # a package passes on all of them
                    named = re.search(rb"\b%s[ \t]+import[ \t]*\*" % re.escape(stem), given) is not None
                handed = not named and _hands_on(
                    given, stem
                )  # `{"key": module}`, for others to ask for the name
                if not (named or handed or _asks(_asked(given), stem)):
                    continue  # it may get to these names by another way
                seen.add(other)
                if not blocked(given):
                    todo.append(
                        (other, given, names and _using(given, names | {stem} if handed else names, stem))
                    )

    def _receivers(self, path: str, names: set[bytes]) -> list[str]:
        """The files that get one of these names from a package, which has it of another file as a whole."""
        if os.path.basename(path) != "__init__.py" or b"*" not in self._code(path):
            return []
        found = {one for name in names for one in self.project.callers.importing(name.decode())}
        return [
            one
            for one in sorted(found)
            if any(other == path for other, _ in self.project.imports.imported(one))
        ]

    @depends.kept
    def _importers(self, path: str) -> list[str]:
        """The files that import something of a file, with those that get from a package what it passes on."""
        imports = self.project.imports
        found = imports.importers(path)
        outline = self.project.outline(path) if os.path.basename(path) == "__init__.py" else None
        passed = [name for name, what in outline.names.items() if " " in what] if outline is not None else []
        more = {one for name in passed for one in self.project.callers.importing(name)} - {path, *found}
        return found + [
            one for one in sorted(more) if any(other == path for other, _ in imports.imported(one))
        ]


def _using(code: bytes, names: set[bytes], stem: bytes = b"") -> set[bytes]:
    """What stands at the top of a file and needs one of these names, as far as the words show, and the names.

    `stem` is the file that they are of, where that is another one.
    """
    found = set(names)
    if not names:
        return found
    users, asking = _blocks(code)
    found.update(name for name, asked in asking if _asks(asked, stem))
    todo = list(found)
    for one in todo:  # grows on the way
        new = users.get(one, frozenset()) - found
        found |= new
        todo += new
    return found


@lru_cache(maxsize=4)  # it is asked of one file for each of its classes
def _blocks(
    code: bytes,
) -> tuple[dict[bytes, frozenset[bytes]], list[tuple[bytes, frozenset[bytes | None]]]]:
    """Word -> what stands at the top of a file and has it; and what asks for files by a text, and for which."""
    users: dict[bytes, set[bytes]] = {}
    asking = []
    for match in _BLOCK.finditer(code):
        name = match.group(1)
        if name in _KEYWORDS:
            continue
        for word in set(_WORD.findall(match.group())):
            users.setdefault(word, set()).add(name)
        if asked := _asked(match.group()):
            asking.append((name, asked))
    return {word: frozenset(names) for word, names in users.items()}, asking


@lru_cache(maxsize=8)
def _bare(text: str) -> bytes:
    """A text without its comments."""
    return COMMENT.sub(b"", spelled_out(text.encode("utf-8", "replace")))


@lru_cache(maxsize=REACH)
def _is_program(code: bytes) -> bool:
    return b"__main__" in code or _PROGRAM.search(code) is not None


@lru_cache(maxsize=REACH)
def _moves(code: bytes) -> bool:
    return moves(code)


def _hands_on(code: bytes, stem: bytes) -> bool:
    """Does a text use a module other than by what it has?"""
    return re.search(rb"(?<![\w.])%s\b(?![ \t]*[.(=])" % re.escape(stem), without_imports(code)) is not None


def _asked(code: bytes) -> frozenset[bytes | None]:
    return frozenset(match.group(1) or match.group(2) for match in _BY_NAME.finditer(code))


def _asks(asked: frozenset[bytes | None], stem: bytes) -> bool:
    return None in asked or stem in asked


def _only_in_dicts(codes: list[bytes], name: bytes) -> bool:
    """Is all that calls a class `{"key": Net()}` or `nets[key] = Net()`, and nowhere a ModuleDict?"""
    if not name or any(b"ModuleDict" in code for code in codes):
        return False
    call = rb"\b" + re.escape(name) + rb"\("
    entry = rb"(?:[\"']\s*:|\]\s*=)\s*(?:\w+\.)*" + call
    calls = sum(len(re.findall(rb"(?<!class )" + call, code)) for code in codes)
    return 0 < calls == sum(len(re.findall(entry, code)) for code in codes)
