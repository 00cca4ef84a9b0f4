"""Device flow: where every module, tensor, batch and device of a program lives.

`analyse` interprets one file; codemods ask the resulting `Flow`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
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
        self._outside = outside
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
            outside = self._outside
            resolver = outside.resolver() if outside is not None else None
            callers = outside.calls if outside is not None else None
            return interpret(self.path, source, resolver, not self.default_is_other(), callers)

        if "facts" not in self._once:
            self._once["facts"] = made(self.source)
        return cast("Analysis", self._once["facts"])

    def watched(self) -> Watched:
        """The same with what each expression has been; computed when it is first asked for."""
        from devfix.engine.trace import watch

        if "watched" not in self._once:
            outside = self._outside
            resolver = outside.resolver() if outside is not None else None
            self._once["watched"] = watch(self.path, self.source, 0, resolver)
        return cast("Watched", self._once["watched"])

    @property
    def is_cut(self) -> bool:
        """Was a part of what the engine found left out, as too much?"""
        return "facts" in self._once and self.facts().is_cut

    def default_is_set(self) -> bool:
        """Does a program that the file seems to be a part of set where torch makes things?"""
        outside = self._outside
        return outside is not None and outside.sets_default()

    def default_is_other(self) -> bool:
        """Does a program that makes another device than the CPU the default load the file?"""
        outside = self._outside
        return outside is not None and outside.default_is_other()

    def saves_from_cpu(self) -> bool:
        """Are the checkpoints of the project on the CPU, so that they load anywhere?"""
        outside = self._outside
        return outside is not None and outside.saves_from_cpu()

    def chooses(self) -> bool | None:
        """Does any file of the project show a choice between CUDA and something else? None: not known."""
        outside = self._outside
        return outside.chooses() if outside is not None else None

    def needs_cuda(self) -> bool | None:
        """Does this file, what it imports, or all who import it run on CUDA only? None: not known."""
        outside = self._outside
        return outside.needs_cuda() if outside is not None else None

    def other_gpu(self) -> bool | None:
        """Does any file of the project show a GPU besides the current one? None: not known."""
        outside = self._outside
        return outside.other_gpu() if outside is not None else None

    def runs_without_cuda(self, name: str, itself: bool) -> bool | None:
        """See `Outside.runs_without_cuda`; None without a project."""
        outside = self._outside
        return outside.runs_without_cuda(name, itself) if outside is not None else None

    def runs_chosen(self, name: str) -> bool | None:
        """See `Outside.runs_chosen`; None without a project."""
        outside = self._outside
        return outside.runs_chosen(name) if outside is not None else None

    def runs_elsewhere(self, name: str) -> bool | None:
        """See `Outside.runs_elsewhere`; None without a project."""
        outside = self._outside
        return outside.runs_elsewhere(name) if outside is not None else None

    def goes_to_cuda(self, names: Sequence[str]) -> bool | None:
        """Does this file, or what it uses of others, go to CUDA without asking? None: not known.

        `names`: of the function that asks, and its class, besides what runs as the file is loaded.
        """
        outside = self._outside
        return outside.goes_to_cuda(names) if outside is not None else None

    def called_after(self, name: str, before: str) -> bool:
        """Do all who call a function of this file call another one of it first, in the same place?"""
        outside = self._outside
        return outside is not None and outside.called_after(name, before)

    def called_after_download(self, name: str) -> bool:
        """Do all who call a function, or make an object of a class, of this file download something first?"""
        outside = self._outside
        return outside is not None and outside.called_after_download(name)

    def saved_without_cuda(self, name: str) -> bool:
        """Is a file of that name written by scripts that say nothing of CUDA, and by nobody else?"""
        outside = self._outside
        return outside is not None and outside.saved_without_cuda(name)

    def writes(self) -> bool | None:
        """Does any file of the project write checkpoints? None: not known."""
        outside = self._outside
        return outside.writes() if outside is not None else None

    def runs_moved(self, name: str) -> bool | None:
        """See `Outside.runs_moved`; None without a project."""
        outside = self._outside
        return outside.runs_moved(name) if outside is not None else None

    def used(self, name: str) -> bool | None:
        """Is a function or method of this file mentioned anywhere but in its `def`? None: not known."""
        outside = self._outside
        return outside.used(name) if outside is not None else None

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
