"""Device flow: where every module, tensor, batch and device of a program lives.

`analyse` interprets one file; codemods ask the resulting `Flow`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from devfix.flow.events import Event, Scope, What
from devfix.flow.lattice import UNKNOWN, Value
from devfix.flow.outside import Outside
from devfix.flow.program import Program
from devfix.source import Source

if TYPE_CHECKING:
    from devfix.engine import Analysis
    from devfix.engine.trace import Watched

Made = TypeVar("Made")


class Flow:
    """What is known of one file. Read only."""

    def __init__(self, source: Source, outside: Outside | None) -> None:
        self.source = source
        self.path = ""  # of the file, as it was discovered
        self.project = outside or Outside()  # what the other files of the project tell
        self._once: dict[object, object] = {}

    @cached_property
    def _program(self) -> Program:
        program = Program(self.source)
        program.run()
        return program

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The body and the functions of the file, as the old interpreter ran them."""
        return tuple(self._program.scopes)

    def value(self, node: ast.expr) -> Value:
        """What an expression is at its place; UNKNOWN where nothing is known."""
        return self._program.values.get(node, UNKNOWN)

    def once(self, make: Callable[[Source], Made]) -> Made:
        """What `make` makes of the source; several codemods want the same."""
        if make not in self._once:
            self._once[make] = make(self.source)
        return cast(Made, self._once[make])  # kept under the very function that made it

    def facts(self) -> Analysis:
        """What the engine finds out about the file; computed when it is first asked for."""
        from devfix.engine import analyse as interpret

        def made(source: Source) -> Analysis:
            project = self.project
            known = not project.default_is_other()
            return interpret(self.path, source, project.resolver(), known, project.calls)

        if "facts" not in self._once:
            self._once["facts"] = made(self.source)
        return cast("Analysis", self._once["facts"])

    def watched(self) -> Watched:
        """The same with what each expression has been; computed when it is first asked for."""
        from devfix.engine.trace import watch

        if "watched" not in self._once:
            project = self.project
            known = not project.default_is_other()
            made = watch(self.path, self.source, 0, project.resolver(), known, project.calls)
            self._once["watched"] = made
        return cast("Watched", self._once["watched"])

    @property
    def is_cut(self) -> bool:
        """Was a part of what the engine found left out, as too much?"""
        return "facts" in self._once and self.facts().is_cut

    def release(self) -> None:
        """Forget everything: it refers to itself in circles, which only a garbage collection would free."""
        facts = self._once.get("facts")
        if facts is not None:
            cast("Analysis", facts).release()
        self._once.clear()
        program = self.__dict__.pop("_program", None)
        if program is not None:
            program.release()

    def events(self, *whats: What) -> Iterator[Event]:
        """What happens, scope by scope, in the order of execution; all kinds if none is named."""
        for scope in self.scopes:
            for event in scope.events:
                if not whats or event.what in whats:
                    yield event


def analyse(source: Source, outside: Outside | None = None) -> Flow:
    """Interpret a file, with what `outside` knows of the other files of its project.

    Raises RecursionError on nesting that Python itself can hardly run.
    """
    return Flow(source, outside)
