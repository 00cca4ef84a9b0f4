"""Files as they will be: bytes that stand in for what is on disk while fixes are worked out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_stands_in: Mapping[str, bytes] = {}


@contextmanager
def overlaid(files: Mapping[str, bytes]) -> Iterator[None]:
    """While it lasts, reading one of these absolute paths gives these bytes; writing is not affected."""
    global _stands_in
    was, _stands_in = _stands_in, files
    try:
        yield
    finally:
        _stands_in = was


def instead_of(path: str) -> bytes | None:
    """What stands in for a file, if anything does."""
    return _stands_in.get(os.path.abspath(path)) if _stands_in else None
