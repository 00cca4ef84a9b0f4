"""Texts that were parsed lately: a file is analysed itself, asked for by others, and read for recipes."""

from __future__ import annotations

from collections import OrderedDict

from devfix.source import Source

CHARACTERS = 1_500_000

_kept: OrderedDict[str, Source] = OrderedDict()
_characters = 0


def parsed(text: str) -> Source:
    """The source of a text, perhaps one that others have as well. Raises what `Source` raises."""
    global _characters
    source = _kept.get(text)
    if source is not None:
        _kept.move_to_end(text)
        return source
    source = _kept[text] = Source(text)
    _characters += len(text)
    while _characters > CHARACTERS:
        old, _ = _kept.popitem(last=False)
        _characters -= len(old)
    return source
