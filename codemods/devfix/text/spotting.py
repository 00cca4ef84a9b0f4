"""Nodes on the lines that a look at the text found worth it, without a walk over the whole tree."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from devfix.text.source import Source, children


def lines_with(source: Source, *patterns: re.Pattern[str]) -> list[int]:
    """The numbers (from 1) of the lines in which a match of one of the patterns begins, in order."""
    starts, found = source.line_starts, set[int]()
    for pattern in patterns:
        for match in pattern.finditer(source.text):
            found.add(bisect_right(starts, match.start()))
    return sorted(found)


def on_lines(
    root: ast.AST, lines: Sequence[int], closed: tuple[type[ast.AST], ...] = ()
) -> Iterator[ast.AST]:
    """Every node below `root` that touches one of the lines (sorted), in no particular order.

    What is inside of nodes of the `closed` types is left out.
    """
    todo: list[ast.AST] = [root] if lines else []
    while todo:
        for child in children(todo.pop()):
            first = getattr(child, "lineno", 0)
            if first:
                at = bisect_left(lines, first)
                if at == len(lines) or lines[at] > child.end_lineno:  # type: ignore[attr-defined]
                    continue
            yield child
            if not isinstance(child, closed):
                todo.append(child)
