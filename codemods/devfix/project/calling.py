"""Where a function is called, block by block, read off the text of a file that names it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from devfix.project.cuda import goes, plain, spans
from devfix.project.importing import without_imports

CALLS = 50  # of a function in one file
_CHOSEN = re.compile(rb"\.to\([ \t]*(?:device[ \t]*=[ \t]*)?[\w.]*\bdevice\b")
_FETCHES = re.compile(rb"\b\w{0,80}(?:download|from_url|urlretrieve|cached_path)\w{0,80}[ \t]*\(")


@dataclass(frozen=True)
class Place:
    """A call in a text, and where its block begins. `bare`: that, or the program around the blocks, goes to CUDA."""

    bare: bool
    text: bytes
    start: int
    at: int

    @property
    def above(self) -> bytes:
        """The block up to the call."""
        return self.text[self.start : self.at]


@lru_cache(maxsize=64)  # it is asked once for each pair of loads
def places_in(data: bytes, name: str) -> list[Place] | None:
    """The calls of a function in a file; None if it is named otherwise too, so that it may run anywhere."""
    word = name.encode()
    if word not in data:
        return []
    text = _text(data)
    named = list(
        re.finditer(
            rb"(?<![\w\"'])(?<!torch\.)((?:def|class)[ \t]+)?" + re.escape(word) + rb"\b([ \t]*\()?", text
        )
    )
    calls = [match.start() for match in named if not match.group(1)]
    if len(calls) > CALLS or any(not match.group(1) and not match.group(2) for match in named):
        return None
    if not calls:
        return []
    blocks, around = _spans(text)
    found: list[Place] = []
    for at in calls:
        number = bisect_right(blocks, at, key=lambda block: block[1]) - 1
        while number >= 0 and blocks[number][1] == blocks[number][2]:
            number -= 1  # one without any text
        if number < 0 or at >= blocks[number][2]:
            continue
        one, start, end = blocks[number]
        # An arm of its own may go to a device that is chosen.
        bare = bool(one) and goes(text, start, end) and not _CHOSEN.search(text, start, end)
        found.append(Place(around or bare, text, start, at))
    return found


@lru_cache(maxsize=4)  # it is asked of one file for each of its functions
def _text(data: bytes) -> bytes:
    return without_imports(plain(data))


@lru_cache(maxsize=4)
def _spans(text: bytes) -> tuple[list[tuple[str, int, int]], bool]:
    """The blocks of a text, in order, and whether what stands outside of them goes to CUDA."""
    blocks = [(name, start, end) for name, _, start, end in spans(text)]
    return blocks, any(goes(text, start, end) for name, start, end in blocks if not name)


def fetches(code: bytes) -> bool:
    """Does a piece of a text download something?"""
    return _FETCHES.search(code) is not None


def is_called(code: bytes, name: str) -> bool:
    """Is a function called in a piece of a text?"""
    return re.search(rb"(?<!\w)" + re.escape(name.encode()) + rb"[ \t]*\(", code) is not None
