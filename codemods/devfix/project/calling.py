"""Where a function is called, block by block, read off the text of a file that names it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devfix.project.cuda import goes, plain, spans
from devfix.project.importing import without_imports

CALLS = 50  # of a function in one file
_CHOSEN = re.compile(rb"\.to\([ \t]*(?:device[ \t]*=[ \t]*)?[\w.]*\bdevice\b")
_FETCHES = re.compile(rb"\b\w*(?:download|from_url|urlretrieve|cached_path)\w*[ \t]*\(")


@dataclass(frozen=True)
class Place:
    """A call. `bare`: its block, or the program around the blocks, goes to CUDA; `above`: its block up to it."""

    bare: bool
    above: bytes


def places_in(data: bytes, name: str) -> list[Place] | None:
    """The calls of a function in a file; None if it is named otherwise too, so that it may run anywhere."""
    word = name.encode()
    if word not in data:
        return []
    text = without_imports(plain(data))
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
    blocks = list(spans(text))
    around = any(goes(text, start, end) for one, _, start, end in blocks if not one)
    found: list[Place] = []
    for at in calls:
        for one, _, start, end in blocks:
            if start <= at < end:
                # An arm of its own may go to a device that is chosen.
                bare = bool(one) and goes(text, start, end) and not _CHOSEN.search(text, start, end)
                found.append(Place(around or bare, text[start:at]))
    return found


def fetches(code: bytes) -> bool:
    """Does a piece of a text download something?"""
    return _FETCHES.search(code) is not None


def is_called(code: bytes, name: str) -> bool:
    """Is a function called in a piece of a text?"""
    return re.search(rb"(?<!\w)" + re.escape(name.encode()) + rb"[ \t]*\(", code) is not None
