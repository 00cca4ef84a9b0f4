"""What the engine thinks of single values: for people who ask why there is a finding or none, and for own codemods."""

from __future__ import annotations

import ast
from functools import cached_property

from devfix.engine.analysis import Analysis
from devfix.engine.callers import Callers
from devfix.engine.events import USED
from devfix.engine.files import File, Resolver
from devfix.engine.places import Place, is_parameter
from devfix.engine.transfer.statements import Run
from devfix.engine.values import DEVICE, TEXT, UNKNOWN, Value
from devfix.text.source import Source

_TELLING = frozenset({"moved", "part"})  # roles of what is known to be more than anything
At = tuple[int, int, int, int]
Seen = dict[At, list[tuple[ast.expr, Value, Place]]]


class Watching(Run):
    """A run that notes the values that are asked for."""

    def eval(self, node: ast.expr) -> Value:
        value = super().eval(node)
        analysis = self.analysis
        if isinstance(analysis, Watched) and analysis.line in (0, node.lineno) and self.file is analysis.file:
            known = value.kind != UNKNOWN or value.role in _TELLING or is_parameter(value.place)
            if known and not self.quiet:
                place, found = self.where(value), analysis.seen.setdefault(at(node), [])
                if all(_differ(one, value) or there != place for _, one, there in found):
                    found.append((node, value, place))
        return value


def at(node: ast.expr) -> At:
    """What tells expressions of a file apart."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _differ(one: Value, other: Value) -> bool:
    return one.kind != other.kind or (one.kind == TEXT and one.const != other.const)


class Watched(Analysis):
    """An analysis that keeps the values on `line` (0: on every one): `seen` by position, each with its place."""

    runs = Watching

    def __init__(self, file: File, line: int) -> None:
        super().__init__(file)
        self.line = line
        self.seen: Seen = {}

    @cached_property
    def written(self) -> dict[Place, str]:
        """Places -> how a device that is there is written where it is used first."""
        found: dict[Place, str] = {}
        for at in sorted(self.seen):
            for node, value, place in self.seen[at]:
                if value.kind == DEVICE and isinstance(node, (ast.Name, ast.Attribute)):
                    found.setdefault(place, ast.unparse(node))
        return found

    @cached_property
    def called(self) -> dict[ast.expr, list[tuple[ast.expr, Value, Place]]]:
        """The modules that are called, by the expressions that name them."""
        every = (
            one for log in self.histories.values() for one in log.values() if one.what == USED and not one.via
        )
        calls = ((one.node.func, one) for one in every if isinstance(one.node, ast.Call))
        return {node: [(node, one.module, one.place)] for node, one in calls if one.name == "called"}

    def values(self, node: ast.expr) -> list[tuple[ast.expr, Value, Place]]:
        """What an expression has been, and where."""
        return self.seen.get(at(node)) or self.called.get(node, [])


def watch(
    path: str,
    source: Source,
    line: int,
    resolve: Resolver | None = None,
    default_is_known: bool = True,
    callers: Callers | None = None,
) -> Watched:
    """Interpret a file as `analyse` does, and keep what is on a line (from 1; 0: every one)."""
    made = Watched(File(path, source, resolve), line)
    made.default_is_known, made.callers = default_is_known, callers
    made.run()
    return made
