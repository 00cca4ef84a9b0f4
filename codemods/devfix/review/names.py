"""Findings by names that outlive moved lines, and paths as machines want them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

from devfix.report import PlacedFinding, Report


def fingerprints(report: Report) -> Iterator[tuple[str, PlacedFinding, str]]:
    """Path, finding and fingerprint of every finding, in the report's order.

    A fingerprint is made of the path, the codemod, the function and the code of the line; of equal ones
    in a file the second one is told apart by its number.
    """
    for result in report.results:
        seen: Counter[str] = Counter()
        for finding in result.findings:
            seen[finding.key] += 1
            parts = f"{posix(result.path)}\0{finding.key}\0{seen[finding.key]}"
            digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            yield result.path, finding, digest


def posix(path: str) -> str:
    """A path with forward slashes, relative to the working directory where it is below it."""
    if os.path.isabs(path):
        relative = os.path.relpath(path)
        path = path if relative.startswith("..") else relative
    return path.replace(os.sep, "/")


def uri(path: str) -> str:
    """A path as a relative (or file) URI; bytes that are no UTF-8 are percent-encoded as they are."""
    name = posix(path)
    encoded = quote(os.fsencode(name))
    return f"file://{encoded}" if os.path.isabs(name) else encoded
