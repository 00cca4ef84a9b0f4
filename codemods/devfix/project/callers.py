"""Who calls a function of a file from other files, and what they pass to it.

For that one has to know all files that import it: they are found by the names in their import statements,
which are read once, as text. In a very large project, and where a caller cannot be followed, nothing is known.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from devfix.documents import bytes_of
from devfix.engine.analysis import Analysis
from devfix.engine.callers import Call, agree
from devfix.engine.calling import Calling, PassedOn
from devfix.engine.evidence import is_of_pytest
from devfix.engine.files import File, Function
from devfix.findings import Finding, Related, Safety, Span
from devfix.pipeline import depends
from devfix.pipeline.depends import Needs
from devfix.pipeline.listing import FILES, python_files, state_of_all
from devfix.project.importing import DEFAULT, SAVED, importers_state, index_of, names_in
from devfix.project.outline import Definition
from devfix.text.placing import dotted
from devfix.text.source import FUNCTIONS, Source

if TYPE_CHECKING:
    from devfix.project.project import Project

CALLERS = 24  # files
READ = 16  # files whose names are kept
PROGRAMS = 6  # and other files without importers that load a file; what more load is a library
Told = tuple[Finding, set[int]]  # with the lines that it is about
Check = Callable[[Analysis], list[Told]]
_OTHER_DEFAULT = re.compile(
    r"\bset_default_device\(\s*(?![\"']cpu)|\bset_default_tensor_type\([^)\n]{0,60}cuda", re.IGNORECASE
)


class Callers:
    """The callers of a project's functions."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._read: dict[str, tuple[Source, dict[str, list[tuple[ast.expr, ast.Call | None]]]]] = {}
        self._passed: dict[str, tuple[PassedOn, Needs]] = {}
        self._told: dict[str, tuple[dict[tuple[str, str], list[Told]], Needs]] = {}  # by path and text
        self._index: dict[str, list[str]] | None = None
        self._state = ""  # of the files that it is made of
        self.complete = False  # was it made, and of all files?

    def given(self, path: str, name: str, what: str, tests: bool, alike: bool) -> list[Call]:
        """What each call in another file, also of `tests`, passes to a function; nothing if not all calls are known.

        With `alike`, nothing also if the calls agree about nothing: then few of those files have to be run.
        """
        function = Definition(path, name, what)
        users = [one for one in self._importers(function) if tests or not is_of_pytest(one)]
        sites = {one: self._sites(one, function) for one in users}
        found = list[Call]()
        for user, nodes in sites.items() if None not in sites.values() else ():
            if not nodes:
                continue
            passed = depends.remembered(self._passed, user, partial(self._run, user))
            known, source = passed.get((path, name), {}), self.project.files.source(user)
            if not known and source is not None and "*" in source.imports:
                continue
            calls = [known.get((node.lineno, node.col_offset)) for node in nodes]
            found += [call for one in calls if one for call in one]
            if None in calls or (alike and not agree(found)):
                return []
        return found

    def given_by_objects(self, path: str, owner: str, name: str) -> list[Call]:
        """What is passed to a method of a class by the files that import the class and run it themselves."""
        found = list[Call]()
        for user in self._importers(Definition(path, owner, "class")):
            if not is_of_pytest(user):
                passed = depends.remembered(self._passed, user, partial(self._run, user))
                found += [
                    one for calls in passed.get((path, f"{owner}.{name}"), {}).values() for one in calls
                ]
        return found

    def told(self, path: str, text: str, check: Check) -> list[Told]:
        """What goes wrong in a file where programs that load it are followed, once each.

        A fix is safe only where all that load the file are programs that ask for it. What many load is a library.
        """
        users = [one for one in self.programs(path, CALLERS, PROGRAMS) if not is_of_pytest(one)]
        found: dict[tuple[str, Span], list[Told]] = {}
        for program in filter(self.project.runs.is_program, users):
            known = depends.remembered(self._told, program, partial(self._check, program, check))
            for finding, lines in known.get((path, text), ()):
                here = Related(Span(0, 0), "a program that runs it so", program)
                finding = replace(finding, related=(*finding.related, here))
                found.setdefault((finding.codemod, finding.span), []).append((finding, lines))
        told = []
        for every in found.values():
            finding, lines = every[0]
            edits = {one.fix.edits if one.fix is not None else () for one, _ in every}
            agreed, fix = len(every) == len(users) and len(edits) == 1, finding.fix
            if fix is not None and fix.safety is Safety.SAFE and not agreed:
                message = f"{finding.message}. The fix assumes that all programs use it so"
                finding = replace(finding, message=message, fix=replace(fix, safety=Safety.UNSAFE))
            told.append((finding, lines))
        return told

    def _check(self, path: str, check: Check) -> dict[tuple[str, str], list[Told]]:
        """What a program finds in each of the other files, by path and text."""
        found: dict[tuple[str, str], list[Told]] = {}
        with self._followed(path) as run:
            strays = {one.stray.links[0].file for one in run.mismatches}
            for file in (strays | {one.file for one in run.host_reads}) - {run.file}:
                view = run.seen_from(file)
                found[file.path, file.source.text] = check(view)
                view.__dict__.clear()  # what is remembered of it would keep it
        return found

    def _importers(self, function: Definition) -> list[str]:
        """The files whose imports and text have the function's name."""
        folder, name = os.path.split(function.path)
        stem = os.path.basename(folder) if name == "__init__.py" else name.removesuffix(".py")
        paths = {path for key in (function.name, stem, f"*{stem}") for path in self.importing(key)}
        word = re.compile(rf"\b{re.escape(function.name)}\b")
        found = []
        for path in sorted(paths - {function.path}):
            text = self.project.files.text(path)
            if function.name in text and word.search(text):  # the first takes a tenth of the time
                found.append(path)
        return found if len(found) <= CALLERS else []

    def _sites(self, path: str, function: Definition) -> list[ast.Call] | None:
        """The calls of the function in a file; None if it may be called in a way out of sight."""
        source = self.project.files.source(path)
        if source is None:
            return []
        names: set[str] = set()  # as it is written there
        for local, imported in source.imports.items():
            if imported.rpartition(".")[2] == function.name and self._is(path, imported, function):
                names.add(local)
            elif f"{local}.{function.name}" in source.text:
                if self._is(path, f"{imported}.{function.name}", function):
                    names.add(f"{local}.{function.name}")
        if not names and "*" in source.imports:
            names.add(function.name)
        if not names:
            return []
        calls: list[ast.Call] = []
        for name in sorted(names):
            for node, call in self._uses(path, source, name.rpartition(".")[2]):
                if dotted(node) == name:
                    if call is None:
                        return None
                    calls.append(call)
        return calls

    def _run(self, path: str) -> PassedOn:
        """What a file passes to functions of other files."""
        with self._followed(path) as run:
            return run.passed_on

    @contextmanager
    def _followed(self, path: str) -> Iterator[Calling]:
        """The run of a file's body, and of the functions in it that call other files.

        Nothing is known of a file that is nested too deeply to be run, or to be asked about.
        """
        run = Calling(File(path, self.project.files.source(path) or Source(""), self.project.resolve))
        try:
            try:
                run.run_only(self._callers_in(run.file))
            except RecursionError:
                run.passed_on, run.mismatches, run.host_reads = {}, [], []
            with suppress(RecursionError):
                yield run
        finally:
            run.release()

    def _callers_in(self, file: File) -> dict[Function, None]:
        """The functions of a file that call what it imports from other files of the project."""
        source = file.source
        imported = {name for name, of in source.imports.items() if self.project.files.has(file.path, of)}
        homes: dict[Function, None] = {}
        for node in source.calls:
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and (root.id in imported or "*" in imported):
                home = file.of_node.get(source.enclosing(node, *FUNCTIONS, ast.Lambda) or node)
                if isinstance(home, Function):
                    homes[home] = None
        return homes

    def _uses(self, path: str, source: Source, name: str) -> list[tuple[ast.expr, ast.Call | None]]:
        """Where a name, or an attribute of that name, stands in a file; and its call, where it is called."""
        known = self._read.get(path)
        if known is None or known[0] is not source:
            callers = {call.func: call for call in source.calls}
            uses: dict[str, list[tuple[ast.expr, ast.Call | None]]] = {}
            for node in source.walk():
                if isinstance(node, ast.Name):
                    uses.setdefault(node.id, []).append((node, callers.get(node)))
                elif isinstance(node, ast.Attribute):
                    uses.setdefault(node.attr, []).append((node, callers.get(node)))
            known = self._read[path] = source, uses
            if len(self._read) > READ:
                del self._read[next(iter(self._read))]
        return known[1].get(name, [])

    def _is(self, path: str, dotted: str, function: Definition) -> bool:
        return self.project.lookup(path, dotted) == function

    def sets_default(self, path: str) -> bool:
        """Does a file beside another one, or in a folder that it is in, set the default device?"""
        folders = {os.path.dirname(setter) for setter in self.importing(DEFAULT)}
        return any(path.startswith(f"{folder}{os.sep}" if folder else "") for folder in folders)

    def default_is_other(self, path: str) -> bool:
        """Does a file that makes another device than the CPU the default load this one, or all programs that do?

        A program has such a file, too, if it loads one and names what sets the default there.
        """
        setters = {
            setter
            for setter in self.importing(DEFAULT)
            if setter != path and _OTHER_DEFAULT.search(self.project.files.text(setter))
        }
        reach = self.project.imports.reach
        if any(path in reach(setter) for setter in setters):
            return True
        programs = self.programs(path) if setters else []
        if setters and not self.project.imports.importers(path):
            programs = [path]
        programs = [one for one in programs if path in reach(one)] or programs
        return bool(programs) and all(self._has_set(reach(one), setters) for one in programs)

    def _has_set(self, loaded: list[str], setters: set[str]) -> bool:
        """Does a program that loads those files set the default, as it loads one of them, or by a function?"""
        for setter in setters.intersection(loaded):
            names = self._setting(setter)
            if names is None or setter == loaded[0]:
                return True
            word = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
            if any(word.search(self.project.files.text(one)) for one in loaded if one != setter):
                return True
        return False

    def _setting(self, setter: str) -> set[str] | None:
        """The functions of a file that set the default, also through others of it; None: it does so as it is loaded."""
        source, names = self.project.files.source(setter), set[str]()
        calls = [(dotted(call.func).rpartition(".")[2], call) for call in source.calls] if source else []
        wanted, before = {one for one, _ in calls if one.startswith("set_default_")}, -1
        while source is not None and len(names) > before:
            before = len(names)
            for name, call in calls:
                if name in wanted | names:
                    around = source.enclosing(call, *FUNCTIONS)
                    if not isinstance(around, FUNCTIONS):
                        return None
                    names.add(around.name)
        return names

    def programs(self, path: str, most: int = FILES, few: int = FILES) -> list[str]:
        """The files that import a file, in turn, and that no other file imports.

        None if more than `most` files, as far as names tell, import it, or one of those that do; or if there are more
        than a `few` without those of tests.
        """
        found, tops = [path], list[str]()
        for one in found:
            if len(self.project.imports.namers(one)) > most:
                return []
            above = self.project.imports.importers(one)
            if not above and one != path:
                tops.append(one)
                few -= not is_of_pytest(one)
                if few < 0:
                    return []
            found += [other for other in above if other not in found][: FILES - len(found)]
        return tops

    def saves_from_cpu(self) -> bool:
        """Does the project copy its checkpoints to the CPU before it saves them?"""
        return bool(self.importing(SAVED))

    # --- the index -----------------------------------------------------------------------

    def importing(self, name: str) -> list[str]:
        """The files that import a name, sorted; `*module` for `from module import *`."""
        if self._index is None:
            with depends.aside() as needs:
                paths = python_files(self.project.files.root, self.project.files.is_file)
                self.complete = len(paths) <= FILES
                known = paths if self.complete else []
                self._index = index_of((path, names_in(bytes_of(path))) for path in known)
            self._state = state_of_all(paths, lambda path: needs.states.get(f"={path}", depends.CHANGED))
        found = self._index.get(name, [])
        depends.note(f"@{self.project.files.root}\0{name}", f"{self._state} {importers_state(found)}")
        return found
