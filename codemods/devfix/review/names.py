"""Paths as machines want them."""

from __future__ import annotations

import os
from urllib.parse import quote

from devfix.pipeline.selection import posix


def uri(path: str) -> str:
    """A path as a relative (or file) URI; bytes that are no UTF-8 are percent-encoded as they are."""
    name = posix(path)
    encoded = quote(os.fsencode(name))
    return f"file://{encoded}" if os.path.isabs(name) else encoded
