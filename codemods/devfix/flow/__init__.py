"""What codemods ask about one file: `Flow`. The engine finds it out when it is first asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

from devfix.flow.events import Event, Scope, What, scopes_of
from devfix.flow.outside import Outside
from devfix.flow.values import Value, value_at
from devfix.text.source import Source

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis
    from devfix.engine.callers import Callers
    from devfix.engine.files import Resolver
    from devfix.engine.trace import Watched


class Flow:
    """What is known of one file. Read only."""

    def __init__(self, source: Source, outside: Outside | None) -> None:
        self.source = source
        self.path = ""  # of the file, as it was discovered
        self.project = outside or Outside(None, "", source)  # what the other files of the project tell
        self._once: dict[object, object] = {}

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """The body and the functions of the file, with what happens in each."""
        return tuple(scopes_of(self.watched()))

    def value(self, node: ast.expr) -> Value:
        """What an expression is at its place; UNKNOWN where nothing is known."""
        return value_at(self.watched(), node)

    def facts(self) -> Analysis:
        """What the engine finds out about the file; computed when it is first asked for."""
        from devfix.engine import analyse as interpret

        if "facts" not in self._once:
            made = self._once["facts"] = interpret(self.path, self.source, *self._others())
            made.is_run = self.project.is_run
        return cast("Analysis", self._once["facts"])

    def watched(self) -> Watched:
        """The same with what each expression has been; computed when it is first asked for."""
        from devfix.engine.trace import watch

        if "watched" not in self._once:
            self._once["watched"] = watch(self.path, self.source, 0, *self._others())
        return cast("Watched", self._once["watched"])

    def _others(self) -> tuple[Resolver | None, bool, Callers]:
        """What the engine asks about the other files."""
        return self.project.resolver(), not self.project.default_is_other(), self.project.calls

    @property
    def is_cut(self) -> bool:
        """Was a part of what the engine found left out, as too much?"""
        return "facts" in self._once and self.facts().is_cut

    def release(self) -> None:
        """Forget everything: it refers to itself in circles, which only a garbage collection would free."""
        for kind in ("facts", "watched"):
            if (made := self._once.get(kind)) is not None:
                cast("Analysis", made).release()
        self._once.clear()
        self.__dict__.pop("scopes", None)

    def events(self, *whats: What) -> Iterator[Event]:
        """What happens, scope by scope, in the order of execution; all kinds if none is named."""
        for scope in self.scopes:
            for event in scope.events:
                if not whats or event.what in whats:
                    yield event


def analyse(source: Source, outside: Outside | None = None) -> Flow:
    """What can be asked about a file, with what `outside` knows of the other files of its project.

    To ask raises RecursionError on nesting that Python itself can hardly run.
    """
    return Flow(source, outside)
