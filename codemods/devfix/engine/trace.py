"""What the engine thinks of single values: for people who ask why there is a finding or none, and for own codemods."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.callers import Callers
from devfix.engine.files import File, Resolver
from devfix.engine.places import Place
from devfix.engine.statements import Run
from devfix.engine.values import NUMBER, TEXT, UNKNOWN, Value
from devfix.source import Source

_PLAIN = frozenset({UNKNOWN, NUMBER, TEXT})
Seen = dict[tuple[int, int, int, int], list[tuple[ast.expr, Value, Place]]]


class Watching(Run):
    """A run that notes the values that are asked for."""

    def eval(self, node: ast.expr) -> Value:
        value = super().eval(node)
        analysis = self.analysis
        if isinstance(analysis, Watched) and analysis.line in (0, node.lineno) and self.file is analysis.file:
            if value.kind not in _PLAIN and not self.quiet:
                at = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
                place = self.where(value)
                known = analysis.seen.setdefault(at, [])
                if all(one.kind != value.kind or there != place for _, one, there in known):
                    known.append((node, value, place))
        return value


class Watched(Analysis):
    """An analysis that keeps the values on `line` (0: on every one): `seen` by position, each with its place."""

    runs = Watching

    def __init__(self, file: File, line: int) -> None:
        super().__init__(file)
        self.line = line
        self.seen: Seen = {}


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
