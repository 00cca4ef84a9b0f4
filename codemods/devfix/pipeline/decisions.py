"""Decisions made on the review page: which fixes to make, and of which files' bytes they were made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1


class DecisionsError(Exception):
    """A file that has no decisions; the message is for the user."""


@dataclass(frozen=True)
class Decisions:
    """The accepted fixes by fingerprint, and the SHA-256 of each file that was decided on, by path."""

    accepted: frozenset[str]
    files: Mapping[str, str]


def read(text: str) -> Decisions:
    """Decisions as the review page exports them. Raises DecisionsError."""
    try:
        found = json.loads(text)
        if found["devfix-decisions"] != VERSION:
            raise DecisionsError(
                f"has decisions of version {found['devfix-decisions']!r}; this devfix reads version {VERSION}"
            )
        accepted = frozenset(str(name) for name in found["accepted"])
        return Decisions(accepted, {str(path): str(digest) for path, digest in found["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DecisionsError(
            f"has no decisions ({type(error).__name__}: {error}); export them from the review page"
        ) from error
