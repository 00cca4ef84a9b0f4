"""In which order the functions of a file are interpreted."""

from __future__ import annotations

import ast
from collections.abc import Collection
from itertools import islice

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Order:
    """Callers before callees where possible: callers mostly stand below what they call."""

    def __init__(self) -> None:
        self._done: set[Function] = set()
        self._waiting: list[Function] = []
        self._numbers: dict[Function, int] = {}

    def following(self, functions: Collection[Function], called: set[Function]) -> list[Function]:
        """The next ones of all that are known by now: those that were called lately, else the last one.

        `called` is emptied. Nothing where all are done.
        """
        if len(functions) > len(self._numbers):
            for node in islice(functions, len(self._numbers), None):
                self._numbers[node] = len(self._numbers)
                self._waiting.append(node)
        found = sorted(called - self._done, key=self._numbers.__getitem__)
        called.clear()
        while self._waiting and self._waiting[-1] in self._done:
            self._waiting.pop()
        found = found or self._waiting[-1:]
        self._done.update(found)
        return found
