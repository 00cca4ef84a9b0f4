"""An error of a run, with the source of what it names: which expressions ran, and how a device is written there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Union

from devfix.documents import Document
from devfix.findings import Edit
from devfix.repair.written import bound_around, named_in
from devfix.reports.observed import At, Passed, Seen
from devfix.text.placing import bound_before
from devfix.text.source import Source

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Read = Callable[[str], Union[Document, None]]
Fixes = Iterator[tuple[str, Union[ast.expr, ast.stmt], str, tuple[Edit, ...]]]  # path, node, title and edits
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def source_of(document: Document | None) -> Source | None:
    if document is None:
        return None
    try:
        return Source(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Running(NamedTuple):
    """The innermost call of the program that has raised."""

    path: str
    source: Source
    call: ast.Call


class Reading:
    """One error, and the sources of the files that it has to do with."""

    def __init__(self, seen: Seen, read: Read) -> None:
        self.seen = seen
        self.read = read
        self.sources: dict[str, Source | None] = {}

    def source(self, path: str) -> Source | None:
        if path not in self.sources:
            self.sources[path] = source_of(self.read(path))
        return self.sources[path]

    def node(self, at: At | None, *kinds: type[ast.expr]) -> ast.expr | None:
        """The expression that was running; without columns, the only one of these kinds on the line."""
        source = self.source(at.path) if at is not None else None
        if at is None or source is None:
            return None
        found = [node for node in source.walk() if isinstance(node, kinds or (ast.expr,))]
        if at.column >= 0:
            span = (at.line, at.column, at.end_line, at.end_column)
            exact = [
                one
                for one in found
                if (one.lineno, one.col_offset, one.end_lineno, one.end_col_offset) == span
            ]
            return exact[0] if exact else None
        on_line = [one for one in found if one.lineno == at.line]
        return on_line[0] if len(on_line) == 1 and kinds else None

    def device_at(
        self, source: Source, passed: Passed, node: ast.expr, *, made: bool = False, elsewhere: bool = False
    ) -> str:
        """How the device can be written at a node, in the words of a frame of the same function.

        With `elsewhere`, in those of another method's frame that both methods know.
        What the node names says nothing of where it should be, unless it is `made`: `torch.zeros(x.shape)`.
        """
        function: Any = source.enclosing(node, *FUNCTIONS)
        name = getattr(function, "name", "<lambda>") if function is not None else "<module>"
        comprehension = passed.at.function in _COMPREHENSIONS
        if self.source(passed.at.path) is not source:
            return ""
        inside = passed.at.function == name or comprehension
        if function is not None and not function.lineno <= passed.at.line <= (function.end_lineno or 0):
            inside = False
        if not inside and not (elsewhere and self.of_the_same_object(source, passed, function)):
            return ""
        statement = source.statement(node)
        for text in passed.devices:
            if not inside and not text.startswith(("self.", "next(self.")):
                continue
            if "[" in text and not statement.lineno <= passed.at.line <= (statement.end_lineno or 0):
                continue
            root = re.match(r"(?:next\()?([^()]+?)(?:\.device|\.parameters\(\)\)\.device)?$", text)
            if root is not None and root[1] in named_in(node) - {"self"} and not made:
                continue
            written = ast.parse(text, mode="eval").body
            if bound_around(source, node, written) or bound_before(source, written, statement):
                return text
        return ""

    def of_the_same_object(self, source: Source, passed: Passed, function: Any) -> bool:
        """Is a function another method of the class whose method was running in a frame?"""
        if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
            return False
        owner = source.enclosing(function, ast.ClassDef)
        return (
            isinstance(owner, ast.ClassDef)
            and [one.arg for one in function.args.args[:1]] == ["self"]
            and any(
                isinstance(one, ast.FunctionDef)
                and one.name == passed.at.function
                and one.lineno <= passed.at.line <= (one.end_lineno or 0)
                for one in owner.body
            )
        )

    def running(self) -> Running | None:
        """What has raised, if that is a call in view."""
        at = self.seen.at
        node = self.node(at, ast.Call)
        source = self.source(at.path) if at is not None else None
        if at is None or source is None or not isinstance(node, ast.Call):
            return None
        return Running(at.path, source, node)
