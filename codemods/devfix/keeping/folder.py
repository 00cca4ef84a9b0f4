"""The kept results of the files of one folder, and what they were made of, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devfix.keeping.valid import Present
from devfix.pipeline import depends
from devfix.reports.plain import Damaged, list_

_NO_CONTENT = (depends.LARGE, depends.UNREAD, depends.GONE)


class Folder:
    """What is known of the files of one folder, and what is new."""

    def __init__(self, name: str, body: bytes) -> None:
        self.name = name
        # The needs of all files, each once, as in `devfix.pipeline.depends`: key and state.
        self.keys: list[str] = []
        self.states: list[str] = []
        self.files: dict[str, tuple[list[int], object]] = {}  # the numbers of its needs, and the result
        self.new: dict[str, tuple[Mapping[str, str], object]] = {}
        if body:
            try:
                self._read(json.loads(body))
            except (ValueError, RecursionError, Damaged):
                self.keys, self.states, self.files = [], [], {}

    def _read(self, data: object) -> None:
        keys, states, files = list_(data, 3)
        self.keys, self.states = _of(str, keys), _of(str, states, len(keys))
        if not isinstance(files, dict):
            raise Damaged
        for name, entry in files.items():
            numbers, result = list_(entry, 2)
            if _of(int, numbers) and not 0 <= min(numbers) <= max(numbers) < len(keys):
                raise Damaged
            self.files[name] = numbers, result

    def all_hold(self, present: Present) -> bool:
        """Is everything as it was that any of the files depends on?"""
        return present.all_hold(self.keys, self.states)

    def hold(self, numbers: Sequence[int], present: Present) -> bool:
        """Is everything as it was that one of the files depends on?"""
        return present.all_hold([self.keys[one] for one in numbers], [self.states[one] for one in numbers])

    def body(self, folder: str) -> bytes:
        """All of it with what is new, without what is gone."""
        made_of: dict[str, tuple[list[tuple[str, str]], object]] = {}
        for name, (numbers, result) in self.files.items():
            if name not in self.new and os.path.lexists(os.path.join(folder, name)):
                made_of[name] = [(self.keys[one], self.states[one]) for one in numbers], result
        for name, (states, result) in self.new.items():
            made_of[name] = list(_without_implied(states)), result
        needs = sorted({need for needs, _ in made_of.values() for need in needs})
        number = {need: at for at, need in enumerate(needs)}
        files = {name: [[number[need] for need in own], made] for name, (own, made) in made_of.items()}
        data = [[key for key, _ in needs], [state for _, state in needs], files]
        return json.dumps(data, separators=(",", ":")).encode()


def _without_implied(states: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The needs of a result, without those that follow from others of them."""
    for key, state in states.items():
        if key[:1] == "?":
            if not state and states.get(key.rpartition(os.sep)[0]) == "":
                continue  # what it would be in is not there
            if state == "file" and states.get(f"={key[1:]}", depends.GONE) not in _NO_CONTENT:
                continue  # it is read
        yield key, state


def _of(kind: type, data: object, length: int = -1) -> list[Any]:
    found = list_(data, length)
    if not set(map(type, found)) <= {kind}:
        raise Damaged
    return found
