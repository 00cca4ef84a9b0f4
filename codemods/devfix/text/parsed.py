"""Texts that were parsed lately: a file is analysed itself, asked for by others, and read for recipes."""

from __future__ import annotations

from collections import OrderedDict

from devfix.pipeline.budget import check
from devfix.text.source import Source

CHARACTERS = 1_500_000

_kept: OrderedDict[str, Source] = OrderedDict()


def parsed(text: str) -> Source:
    """The source of a text, perhaps one that others have as well.

    Raises what `Source` raises, and TooLarge.
    """
    source = _kept.get(text)
    if source is not None:
        _kept.move_to_end(text)
        return source
    source = Source(text)
    check(text, source.tree)
    _kept[text] = source
    # Counted anew: a time limit may have ended an earlier call at any point of it.
    characters = sum(map(len, _kept))
    while characters > CHARACTERS and _kept:
        old, _ = _kept.popitem(last=False)
        characters -= len(old)
    return source
