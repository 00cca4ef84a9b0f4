"""Nodes on the lines that a look at the text found worth it, without a walk over the whole tree."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from devfix.source import Source


def lines_with(source: Source, pattern: re.Pattern[str]) -> list[int]:
    """The numbers (from 1) of the lines in which a match of the pattern begins, in order."""
    found: list[int] = []
    for match in pattern.finditer(source.text):
        line = source.position(match.start())[0]
        if not found or found[-1] != line:
            found.append(line)
    return found


def on_lines(root: ast.AST, lines: Sequence[int]) -> Iterator[ast.AST]:
    """Every node below `root` that touches one of the lines (sorted), in no particular order."""
    if not lines:
        return
    todo: list[ast.AST] = [root]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            first = getattr(child, "lineno", 0)
            if first:
                at = bisect_left(lines, first)
                if at == len(lines) or lines[at] > child.end_lineno:  # type: ignore[attr-defined]
                    continue
            yield child
            todo.append(child)
