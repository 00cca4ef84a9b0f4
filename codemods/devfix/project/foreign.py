"""Another file of the project, interpreted as far as somebody asks for it.

What is asked for is found out the same way whatever was asked for before: the facts of a file must not
depend on the files that are analysed before it, nor on the process it happens in. So calls between the
functions of the file are not remembered, and what was found out while a recursion was cut is kept for the
question at hand only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix import depends
from devfix.flow.events import Scope
from devfix.flow.lattice import State, Value
from devfix.flow.passing import ClassInfo, FunctionInfo
from devfix.flow.program import MAX_DEPTH, Program
from devfix.source import Source

if TYPE_CHECKING:
    from devfix.project.names import Definition
    from devfix.project.view import View


@dataclass(frozen=True)
class OutsideCall:
    """A call of a function of another file, and what it passes for its parameters."""

    node: ast.Call
    function: Definition
    given: tuple[Value, ...]


class ForeignProgram(Program):
    """One other file. `names` is what its body leaves in its names."""

    records = False

    def __init__(self, path: str, source: Source, view: View) -> None:
        super().__init__(source, view)
        self.path = path
        self.view = view
        self.top_classes: dict[str, ClassInfo] = {}
        self._answers: dict[FunctionInfo, Scope | None] = {}
        self._facts_of: dict[ClassInfo, dict[str, Value]] = {}
        self._fresh: list[FunctionInfo] = []
        self._heights: dict[FunctionInfo, int] = {}
        self._height = 0
        self._cut = False
        self.busy = False
        self.needs = depends.UNKNOWN  # what it is made of, and what its answers were
        self.keys: dict[int, int] = {}  # of places at the devices that it defines: those of the project
        self._calls_of: dict[FunctionInfo, list[OutsideCall]] = {}
        self._body_calls = view.recorded = []
        self.state = self.run_module().state
        view.recorded = None
        self.top: dict[str, FunctionInfo] = {
            info.node.name: info for info in self.functions.values() if info.owner is None
        }
        self.top_classes = dict(self.class_names)

    # --- questions -----------------------------------------------------------------------

    def function(self, name: str) -> FunctionInfo | None:
        """A function of the top level by its name, or a method by `Class.method`."""
        owner, _, method = name.rpartition(".")
        if not owner:
            return self.top.get(name)
        info = self.top_classes.get(owner)
        return self._info(info.methods[method], info) if info is not None and method in info.methods else None

    def answer(self, info: FunctionInfo) -> Scope | None:
        """The summary of a function; None if it cannot be found out."""
        if info not in self._answers:
            with self._question():
                self._answers[info] = self.summary(info)
        return self._answers[info]

    def facts(self, info: ClassInfo) -> dict[str, Value]:
        """What `__init__` leaves in the attributes of an object: `self.name` and its value."""
        if info not in self._facts_of:
            init = info.methods.get("__init__")
            with self._question():
                facts = self._facts(info, self._info(init, info)) if init is not None else {}
                self._facts_of[info] = dict(facts)
        return self._facts_of[info]

    def outside_calls(self, info: FunctionInfo | None) -> list[OutsideCall]:
        """The calls of functions of other files in a function of this one, or in its body."""
        if info is None:
            return self._body_calls
        if info not in self._calls_of:
            with self._question():
                recorded = self.view.recorded = []
                info.running = True
                try:
                    self._execute(info, None)
                finally:
                    info.running = False
                    self.view.recorded = None
                self._calls_of[info] = recorded
        return self._calls_of[info]

    def release(self) -> None:
        super().release()
        for scope in self._answers.values():
            if scope is not None:
                scope.events.clear()
        self._answers.clear()
        self._facts_of.clear()
        self._calls_of.clear()
        self._body_calls.clear()
        self.values.clear()
        self.scopes.clear()
        self.outside = None

    # --- the same answer whatever came before --------------------------------------------

    @contextmanager
    def _question(self) -> Iterator[None]:
        """What was found out on the way to an answer is forgotten, if something was cut on it."""
        self._fresh.clear()
        self._cut, complete = False, False
        self.busy = True
        try:
            with depends.into(self.needs) if depends.active() else nullcontext():
                yield
            complete = not self._cut
        finally:
            self.busy = False
            depends.add(self.needs)
            if not complete:
                for info in self._fresh:
                    info.summary = info.final = None
                    info.end = State()
                    if info.owner is not None:
                        info.owner.facts = info.owner.placed = None

    def summary(self, info: FunctionInfo) -> Scope | None:
        """As in any program, but a cut is noticed, and depth counts the same where summaries are kept."""
        if info.summary is not None:
            if self._depth + self._heights[info] > MAX_DEPTH:
                self._cut = True
                return None
            self._height = max(self._height, self._heights[info])
            return info.summary
        if info.running or self._depth >= MAX_DEPTH:
            self._cut = True
            return None
        above, self._height = self._height, 0
        self._fresh.append(info)
        scope = super().summary(info)
        self._heights[info] = self._height + 1
        self._height = max(above, self._height + 1)
        return scope

    def _facts(self, owner: ClassInfo, init: FunctionInfo) -> dict[str, Value]:
        if init.running:
            self._cut = True
        return super()._facts(owner, init)

    def add_class(self, node: ast.ClassDef) -> None:
        """A class in a function must not hide one of the top level from other functions."""
        super().add_class(node)
        self.class_names.update(self.top_classes)
