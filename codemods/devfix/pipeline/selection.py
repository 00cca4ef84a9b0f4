"""Which findings a run is about: those that were accepted, or touch changed lines, or are in no baseline.

Plain data, since it goes to every worker. A finding is named by its fingerprint: the path in the tree, and what
stays the same when lines move; of equal ones in a file by their order.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from devfix.documents.state import is_below, tree_of
from devfix.reports.report import PlacedFinding, Report


@dataclass(frozen=True)
class Selection:
    """A finding is selected if it meets each condition that is given.

    - `only`: its fingerprint is one of these. `but`: it is none of these.
    - `lines`: by path, the line ranges of which it touches one; files that are not named have none.

    With `raises`, other findings are repaired as usual, and those that are selected even where their fix is unsafe.
    """

    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()
    lines: Mapping[str, tuple[tuple[int, int], ...]] | None = None
    raises: bool = False

    @property
    def of_baseline(self) -> Selection:
        """Its conditions but that on lines."""
        return replace(self, lines=None)

    @property
    def of_lines(self) -> Selection:
        """Only its condition on lines."""
        return Selection(lines=self.lines)

    def keep(self, path: str, findings: Sequence[PlacedFinding]) -> tuple[bool, ...]:
        """For each of a file's findings, in the order of its report, if it is selected."""
        name = posix(path)
        ranges = None if self.lines is None else self.lines.get(name, ())
        return tuple(
            (self.only is None or print_ in self.only)
            and print_ not in self.but
            and (ranges is None or any(_touches(finding, *lines) for lines in ranges))
            for print_, finding in zip(prints(path, findings), findings, strict=True)
        )


def _touches(finding: PlacedFinding, first: int, last: int) -> bool:
    places = [(finding.place.line, finding.place.end_line)]
    places += [(other.line, other.line) for other in finding.related if not other.path and other.line]
    return any(a <= last and b >= first for a, b in places)


def prints(path: str, findings: Sequence[PlacedFinding]) -> Iterator[str]:
    """The fingerprints of one file's findings, in their order."""
    seen: Counter[str] = Counter()
    name = in_tree(path)
    for finding in findings:
        seen[finding.key] += 1
        parts = f"{name}\0{finding.key}\0{seen[finding.key]}"
        yield hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprints(report: Report) -> Iterator[tuple[str, PlacedFinding, str]]:
    """Path, finding and fingerprint of every finding, in the report's order."""
    for result in report.results:
        for finding, print_ in zip(result.findings, prints(result.path, result.findings), strict=True):
            yield result.path, finding, print_


def posix(path: str) -> str:
    """A path with forward slashes, relative to the working directory where it is below it."""
    if os.path.isabs(path):
        relative = os.path.relpath(path)
        path = path if relative.startswith("..") else relative
    return os.path.normpath(path).replace(os.sep, "/")


def in_tree(path: str) -> str:
    """The same path from each folder of the tree that devfix runs in: relative to the tree, where the file is in it."""
    tree, real = tree_of(os.curdir), os.path.realpath(path)
    return os.path.relpath(real, tree).replace(os.sep, "/") if is_below(real, tree) else posix(path)
