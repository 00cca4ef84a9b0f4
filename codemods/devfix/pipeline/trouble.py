"""What the user is told of an exception: the stage, what is wrong, and what to do."""

from __future__ import annotations

import os
import re
import sys
import traceback

from devfix.documents import DocumentError
from devfix.findings import brief
from devfix.pipeline.budget import TooLarge

BUG = "this is devfix's own bug, please report it with the file"


Where = tuple[str, int]  # a codemod, and where its finding starts in the text as it was read; -1: anywhere


class Refused(Exception):
    """devfix refuses to change a file; the message says why."""


class Blamed(Exception):
    """Fixes of somebody's own codemods cannot be made in a file; the others can be made without them."""

    def __init__(self, ids: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.ids = ids


class Impossible(Exception):
    """Some fixes cannot be made in a file, though they should be; the others can be made without them.

    `why` has the reasons.
    """

    def __init__(self, why: dict[Where, str], message: str) -> None:
        super().__init__(message)
        self.why = why


def explained(error: Exception, stage: str) -> tuple[str, str]:
    """Stage and message for the user of whatever happened to one file."""
    stage, message = _explained(error, stage)
    return stage, brief(message)


def _explained(error: Exception, stage: str) -> tuple[str, str]:
    if isinstance(error, DocumentError):
        return error.stage, error.message
    if isinstance(error, (Refused, TooLarge)):
        return stage, str(error)
    if isinstance(error, SyntaxError) and stage == "parse":
        return stage, _syntax(error)
    if isinstance(error, (RecursionError, MemoryError)):
        what = "too deeply nested" if isinstance(error, RecursionError) else "too large or too deeply nested"
        return stage, f"{what} for Python to {stage}; exclude the file"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return stage, f"{type(error).__name__}: {error} ({where}); {BUG}"


_PYTHON2 = (
    "missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "invalid decimal literal",
)


# How a line may look that only later versions of Python read.
_LATER = (
    ((3, 14), re.compile(r"\b(?:t|rt|tr)[\"']", re.IGNORECASE)),
    ((3, 14), re.compile(r"^\s{0,99}except\b[^:]{0,999},")),
    (
        (3, 13),
        re.compile(r"^\s{0,99}(?:type|class|(?:async\s{1,9})?def)\s{1,9}\w{1,99}\s{0,9}\[[^\]]{0,999}="),
    ),
    ((3, 12), re.compile(r"^\s{0,99}(?:class|(?:async\s{1,9})?def)\s{1,9}\w{1,99}\s{0,9}\[")),
    ((3, 12), re.compile(r"^\s{0,99}type\s{1,9}\w{1,99}\s{0,9}[\[=]")),
    ((3, 12), re.compile(r"\b(?:f|rf|fr)[\"']", re.IGNORECASE)),
)


def _later(line: str) -> str:
    """The version of Python that a line may be written for, if it is later than this one."""
    for version, pattern in _LATER:
        if version > sys.version_info and pattern.search(line):
            return ".".join(map(str, version))
    return ""


def _syntax(error: SyntaxError) -> str:
    import platform

    line = f"line {error.lineno}: " if error.lineno else ""
    later = _later(error.text or "")
    python2 = any(text in (error.msg or "").lower() for text in _PYTHON2)
    hint = "is it Python 2? devfix reads Python 3 only" if python2 else "correct or exclude the file"
    if later:
        hint = f"if it is written for Python {later}, run devfix with that; otherwise, {hint}"
    return f"{line}{error.msg} (read as Python {platform.python_version()}); {hint}"
