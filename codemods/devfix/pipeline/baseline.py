"""Baselines: findings that were there when devfix was adopted, and are left alone until somebody has time.

A baseline is a JSON file that is committed. Its entries name findings by what survives moved lines.
"""

from __future__ import annotations

import json

from devfix.pipeline.selection import fingerprints, in_tree
from devfix.reports.report import Report

_VERSION = 1


class BaselineError(Exception):
    """A file that is not a baseline; the message is for the user."""


def text_of(report: Report) -> str:
    """The baseline of a report: every finding that it has."""
    entries = [
        {
            "fingerprint": print_,
            "path": in_tree(path),
            "codemod": finding.codemod,
            "message": finding.message,
        }
        for path, finding, print_ in fingerprints(report)
    ]
    return json.dumps({"devfix-baseline": _VERSION, "findings": entries}, indent=1) + "\n"


def read(text: str) -> frozenset[str]:
    """The fingerprints of a baseline. Raises BaselineError."""
    try:
        found = json.loads(text)
        version, entries = found["devfix-baseline"], found["findings"]
        if version != _VERSION:
            raise BaselineError(f"is a baseline of version {version!r}; this devfix reads version {_VERSION}")
        return frozenset(str(entry["fingerprint"]) for entry in entries)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BaselineError(
            f"is not a baseline ({type(error).__name__}: {error}); write one with --write-baseline"
        ) from error
