"""The kept results of the files of one folder, and what they were made of, as JSON.

Most needs are names that are not there. They are written in groups, one for each kind and parent of their
paths, and a group is looked up at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from devfix.keeping.valid import Present
from devfix.pipeline import depends
from devfix.reports.plain import Damaged, list_

Need = tuple[str, str]  # as in `devfix.pipeline.depends`: key and state
_INIT = "__init__.py"
_NO_PACKAGE = "!"  # in a group: `?PARENT/NAME/__init__.py`, which is nothing
_EACH = "=@%"  # kinds of needs that have a state of their own, without line ends; others share that of their group
_NO_CONTENT = (depends.LARGE, depends.UNREAD, depends.GONE)


class Folder:
    """What is known of the files of one folder, and what is new."""

    def __init__(self, name: str, body: bytes) -> None:
        self.name = name
        self.heads: list[str] = []  # of each group: its kind, and the parent of its paths
        self.sizes: list[int] = []
        self.states: list[str] = []
        self.names: list[str] = []  # of all groups
        self.files: dict[str, tuple[list[int], object]] = {}
        self.new: dict[str, tuple[Mapping[str, str], object]] = {}
        self._needs: list[Need] = []
        self._held: dict[int, bool] = {}  # which needs are as they were, as far as it was looked at
        if body:
            try:
                self._read(json.loads(body))
            except (ValueError, RecursionError, Damaged):
                self.heads, self.sizes, self.states, self.names, self.files = [], [], [], [], {}

    def _read(self, data: object) -> None:
        heads, sizes, states, names, files = list_(data, 5)
        self.heads, self.states, self.names = _of(str, heads), _of(str, states, len(heads)), _of(str, names)
        self.sizes = _of(int, sizes, len(heads))
        if min(self.sizes, default=0) < 0 or sum(self.sizes) != len(names) or not isinstance(files, dict):
            raise Damaged
        for head, size, state in zip(self.heads, self.sizes, self.states, strict=True):
            if head[:1] in _EACH and state.count("\n") != size - 1:
                raise Damaged
        for name, entry in files.items():
            numbers, result = list_(entry, 2)
            if _of(int, numbers) and not 0 <= min(numbers) <= max(numbers) < len(names):
                raise Damaged
            self.files[name] = numbers, result

    def _groups(self) -> Iterator[tuple[str, list[str], str]]:
        for head, end, size, state in zip(
            self.heads, accumulate(self.sizes), self.sizes, self.states, strict=True
        ):
            yield head, self.names[end - size : end], state

    def need(self, number: int) -> Need:
        if not self._needs:
            for head, names, state in self._groups():
                self._needs.extend(_needs(head, names, state))
        return self._needs[number]

    def all_hold(self, present: Present) -> bool:
        """Is everything as it was that any of the files depends on?"""
        for head, names, state in self._groups():
            if head[:1] == _NO_PACKAGE:
                held = present.no_packages(head[1:], names)
            elif head[:1] == "?":
                held = present.are(head[1:], names, state)
            elif head[:1] == "=":
                held = present.have(head[1:], names, state.split("\n"))
            else:
                held = all(present.holds(*need) for need in _needs(head, names, state))
            if not held:
                return False
        return True

    def hold(self, numbers: Sequence[int], present: Present) -> bool:
        """Is everything as it was that one of the files depends on?"""
        for one in numbers:
            found = self._held.get(one)
            if found is None:
                found = self._held[one] = present.holds(*self.need(one))
            if not found:
                return False
        return True

    def body(self, folder: str) -> bytes:
        """All of it with what is new, without what is gone."""
        made_of: dict[str, tuple[list[Need], object]] = {}
        for name, (numbers, result) in self.files.items():
            if name not in self.new and os.path.lexists(os.path.join(folder, name)):
                made_of[name] = [self.need(one) for one in numbers], result
        for name, (states, result) in self.new.items():
            made_of[name] = list(_without_implied(states)), result
        groups = _grouped({need for needs, _ in made_of.values() for need in needs})
        number: dict[Need, int] = {}
        for head, names, state in groups:
            for need in _needs(head, names, state):
                number[need] = len(number)
        files = {name: [[number[need] for need in needs], made] for name, (needs, made) in made_of.items()}
        heads = [head for head, _, _ in groups]
        sizes = [len(names) for _, names, _ in groups]
        states_of = [state for _, _, state in groups]
        every = [name for _, names, _ in groups for name in names]
        return json.dumps([heads, sizes, states_of, every, files], separators=(",", ":")).encode()


def _without_implied(states: Mapping[str, str]) -> Iterator[Need]:
    """The needs of a result, without those that follow from others of them."""
    for key, state in states.items():
        if key[:1] == "?":
            if not state and states.get(key.rpartition(os.sep)[0]) == "":
                continue  # what it would be in is not there
            if state == "file" and states.get(f"={key[1:]}", depends.GONE) not in _NO_CONTENT:
                continue  # it is read
        yield key, state


def _needs(head: str, names: Iterable[str], state: str) -> Iterator[Need]:
    """The needs of a group."""
    what, parent = head[:1], head[1:]
    if what == _NO_PACKAGE:
        for name in names:
            yield os.path.join(f"?{parent}{os.sep}{name}", _INIT), ""
    elif what in _EACH:
        between = "\0" if what == "@" else os.sep
        for name, one in zip(names, state.split("\n"), strict=True):
            yield f"{head}{between}{name}", one
    else:
        for name in names:
            yield f"{head}{os.sep}{name}", state


def _grouped(needs: set[Need]) -> list[tuple[str, list[str], str]]:
    found: dict[tuple[str, str], list[Need]] = {}
    for key, state in sorted(needs):
        what = key[:1]
        parent, _, name = key.rpartition("\0" if what == "@" else os.sep)
        if what == "?" and not state and name == _INIT and os.sep in parent:
            parent, _, name = parent.rpartition(os.sep)
            parent = _NO_PACKAGE + parent[1:]
        found.setdefault((parent, "" if what in _EACH else state), []).append((name, state))
    return [
        (
            head,
            [name for name, _ in pairs],
            "\n".join(state for _, state in pairs) if head[:1] in _EACH else one,
        )
        for (head, one), pairs in found.items()
    ]


def _of(kind: type, data: object, length: int = -1) -> list[Any]:
    found = list_(data, length)
    if not set(map(type, found)) <= {kind}:
        raise Damaged
    return found
