"""What is done otherwise than on a GPU, said once."""

from __future__ import annotations

import warnings

_said: set[str] = set()


def note(message: str) -> None:
    """Warn, the first time, of a replacement that a user should know of."""
    if message not in _said:
        _said.add(message)
        warnings.warn(f"devfix: {message}", stacklevel=3)
