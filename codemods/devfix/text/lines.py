"""The lines of a text as Python counts them: they end with CR, LF or both, and form feeds and the like end none."""

from __future__ import annotations

import re
from itertools import accumulate

NEWLINE = re.compile(r"\r\n|\r|\n")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    return NEWLINE.split(text)


def line_starts(text: str) -> list[int]:
    """Offset of every line's first character."""
    if "\r" not in text:  # nearly always, and five times as fast
        return [0, *accumulate(len(line) + 1 for line in text.split("\n")[:-1])]
    return [0, *(m.end() for m in NEWLINE.finditer(text))]
