"""Where the values of an object or a list stand in a JSON text. Only what is asked for is looked into."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def items(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Start and end of each item of the list that begins at `start`. Raises ValueError."""
    at = _skip(text, _expect(text, start, "["))
    while text[at : at + 1] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield at, end
        at = _next(text, end, "]")


def member(text: str, start: int, key: str) -> tuple[int, int] | None:
    """Start and end of the value of a key in the object that begins at `start`; of several the last, as in
    `json.loads`. Raises ValueError.
    """
    found = None
    at = _skip(text, _expect(text, start, "{"))
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        _, end = _DECODER.raw_decode(text, at)
        found = (at, end) if name == key else found
        at = _next(text, end, "}")
    return found


def first(text: str) -> int:
    """Where the text's own value begins."""
    return _skip(text, 0)


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()


def _expect(text: str, at: int, what: str) -> int:
    if text[at : at + 1] != what:
        raise ValueError(f"no {what} at character {at}")
    return at + 1


def _next(text: str, at: int, close: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == close:
        return at
    return _skip(text, _expect(text, at, ","))
