"""What an examination found: plain data, and how it reads in a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from devfix.documents.state import is_below


class Status(IntEnum):
    """How good one thing is. The worst one decides the exit code."""

    OK = 0
    NOTE = 1  # something optional is not there: nothing to mend
    PROBLEM = 2  # devfix works, but not all of it
    FAILURE = 3  # devfix cannot be relied on here


EXIT = {Status.OK: 0, Status.NOTE: 0, Status.PROBLEM: 1, Status.FAILURE: 2}
_MARKS = {Status.OK: "ok", Status.NOTE: "-", Status.PROBLEM: "!", Status.FAILURE: "!!"}


@dataclass(frozen=True)
class Line:
    """One thing that was looked at; `advice` says what to do where it is not as it should be."""

    name: str
    value: str
    status: Status = Status.OK
    advice: str = ""


@dataclass(frozen=True)
class Section:
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Health:
    sections: tuple[Section, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(line for section in self.sections for line in section.lines)

    @property
    def worst(self) -> Status:
        return max((line.status for line in self.lines), default=Status.OK)

    @property
    def exit_code(self) -> int:
        return EXIT[self.worst]


def shown(path: str) -> str:
    """A path without the name of the home folder: the output is meant to be pasted into issues."""
    home = os.path.expanduser("~")
    inside = len(home) > 1 and (path == home or is_below(path, home))
    return "~" + path[len(home.rstrip(os.sep)) :] if inside else path


def text(health: Health) -> Iterator[str]:
    """The examination as lines for people."""
    for section in health.sections:
        yield section.title
        width = max((len(line.name) for line in section.lines), default=0)
        for line in section.lines:
            yield f"  {_MARKS[line.status]:>2}  {line.name:{width}}  {line.value}".rstrip()
            if line.advice:
                yield f"      {'':{width}}  {line.advice}"
        yield ""
    wrong = [line for line in health.lines if line.status >= Status.PROBLEM]
    if not wrong:
        yield "devfix is in order here"
        return
    names = ", ".join(line.name for line in wrong)
    broken = health.worst is Status.FAILURE
    yield f"{'devfix does not work here' if broken else 'something does not work'}: {names}"


def document(health: Health) -> dict[str, Any]:
    """The examination as JSON's values; schema 1."""
    from devfix import __version__

    return {
        "schema": 1,
        "version": __version__,
        "status": health.worst.name.lower(),
        "sections": [
            {
                "title": section.title,
                "lines": [{**vars(line), "status": line.status.name.lower()} for line in section.lines],
            }
            for section in health.sections
        ],
    }
