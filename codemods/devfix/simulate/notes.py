"""What is done otherwise than on a GPU, said once."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

_said: set[str] = set()


def warn(message: str) -> None:
    warnings.warn(f"devfix: {message}", stacklevel=4)


def line(message: str) -> None:
    """One line on standard error, for `devfix run`."""
    sys.stderr.write(f"devfix: {message}\n")
    sys.stderr.flush()


say: Callable[[str], None] = warn


def note(message: str) -> None:
    """Tell, the first time, of a replacement that a user should know of."""
    if message not in _said:
        _said.add(message)
        say(message)
