"""Does a run print the numbers of the reference? Warnings, progress, clocks and what no two runs share say nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property

from devfix.smoke import numbers, same_number

_CLOCK = re.compile(
    r"\b\d{4}[-/]\d\d[-/]\d\d\b|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b|"
    r"\b\d+(?:\.\d+)?(?:e-\d+)? ?(?:(?:[mnuµ]?s|secs?|seconds)\b|it/s\b|s/it\b)"
)
_NOISE = 1e-6  # two runs on the CPU may differ by so much in what is computed, by the order of its sums
_WARNING = re.compile(r":\d{1,9}: \w{0,99}Warning: ")


def printed(output: str) -> list[str]:
    """The numbers of an output, but those of Python's warnings, of lines that were written over, and of clocks."""
    kept, warned = [], False
    for line in output.replace("\r\n", "\n").split("\n"):
        line = line.rpartition("\r")[2]
        shown, warned = warned and line.startswith("  "), _WARNING.search(line) is not None
        if not (warned or shown):  # the line that warned
            kept.append(line)
    return numbers(_CLOCK.sub("", "\n".join(kept)))


class Reference:
    """The numbers of the reference; `again` gives the output of another run like it."""

    def __init__(self, output: str, again: Callable[[], str]) -> None:
        self.numbers = printed(output)
        self._again = again

    @cached_property
    def varying(self) -> frozenset[int]:
        """Which of the numbers are others in each run, such as times; empty if the runs print differently many."""
        second = printed(self._again())
        if len(second) != len(self.numbers):
            return frozenset()
        pairs = enumerate(zip(self.numbers, second, strict=True))
        return frozenset(number for number, (one, other) in pairs if not _repeats(one, other))

    @property
    def left_out(self) -> int:
        """How many numbers were found to vary, if that has been asked."""
        return len(self.__dict__.get("varying", ()))

    def agrees(self, output: str) -> bool:
        """Are the numbers of an output those of the reference, apart from what varies?"""
        found = printed(output)
        if len(found) != len(self.numbers):
            return False
        pairs = enumerate(zip(self.numbers, found, strict=True))
        others = {number for number, (one, other) in pairs if not same_number(one, other)}
        return not others or (others <= self.varying and len(self.varying) < len(self.numbers))


def _repeats(one: str, other: str) -> bool:
    return one == other or math.isclose(float(one), float(other), rel_tol=_NOISE)
