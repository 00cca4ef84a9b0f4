"""Which function or class is around a change, and which lines of the repaired file the change made."""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.reports.report import Change, FileResult


class Untouchable(Exception):
    """Nothing can be called for a change; the message says why, to stand after "because"."""


@dataclass(frozen=True)
class Target:
    """A function or class at the top of a file; the path is relative to the repository."""

    path: str
    name: str


def target_of(root: str, result: FileResult, change: Change) -> Target:
    """The one function or class that all changed lines are in, imports aside; raises Untouchable."""
    path = os.path.realpath(result.path)
    if not path.startswith(root + os.sep):
        raise Untouchable(f"{result.path} lies outside of {root}")
    if not path.endswith(".py"):
        raise Untouchable("only functions and classes of .py files are called")
    if result.made:
        raise Untouchable("the fix makes this file")
    if not os.path.isfile(path):
        raise Untouchable("the program is in no file")
    tree = _parsed(result.before)
    found: dict[str, ast.stmt] = {}
    below: dict[str, ast.stmt] = {}  # what an import may have been inserted before
    for first, last in change.lines:
        node = _at(tree.body, first + 1, last + 1)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_gap(tree.body, first + 1, last + 1):
            continue
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            raise Untouchable("the change is in no function or class that could be called by itself")
        (below if first == last == _first(node) - 1 else found)[node.name] = node
    found = found or below
    if not found:
        raise Untouchable("the change is in no function or class that could be called by itself")
    if len(found) > 1:
        raise Untouchable(f"the change is in more than one place: {', '.join(sorted(found))}")
    (name,) = found
    if sum(getattr(node, "name", None) == name for node in tree.body) > 1:
        raise Untouchable(f"{name} is defined more than once")
    return Target(os.path.relpath(path, root), name)


def edited(result: FileResult, change: Change) -> Iterator[range]:
    """For each changed place of a function: the lines, from 1, of what is there in the repaired file.

    A place is the innermost statements around the changed lines; where lines are only gone, the function.
    """
    before, after = result.before.split(b"\n"), result.after.split(b"\n")
    tree = _parsed(result.after)
    touched = [
        (one, two, three, four)
        for tag, one, two, three, four in difflib.SequenceMatcher(
            None, before, after, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]
    for first, last in change.lines:
        for one, two, three, four in touched:
            if not (first < two and one <= last) and not (one == two and first <= one <= last + 1):
                continue
            if three == four:  # lines that are gone
                around = _innermost(tree, three, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                if around is not None:
                    yield range(_first(around) + 1, (around.end_lineno or three) + 1)
            for line in range(three + 1, four + 1):
                node = _innermost(tree, line)
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.body[0].lineno > line:
                    yield range(node.body[0].lineno, (node.end_lineno or line) + 1)
                elif node is not None and not isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _parsed(data: bytes) -> ast.Module:
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError) as error:
        raise Untouchable(f"the file cannot be parsed: {error}") from error


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _at(body: list[ast.stmt], first: int, last: int) -> ast.stmt | None:
    for node in body:
        if _first(node) <= first and last <= (node.end_lineno or node.lineno):
            return node
    return None


def _is_gap(body: list[ast.stmt], first: int, last: int) -> bool:
    """Are these lines between statements, where an import is inserted?"""
    return not any(_first(node) <= last and first <= (node.end_lineno or node.lineno) for node in body)


def _innermost(
    tree: ast.Module, line: int, kinds: tuple[type[ast.stmt], ...] = (ast.stmt,)
) -> ast.stmt | None:
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if isinstance(node, kinds) and _first(node) <= line <= (node.end_lineno or node.lineno):
            if found is None or _first(node) >= _first(found):
                found = node
    return found
