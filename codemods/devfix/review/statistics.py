"""What was found how often: by codemod, by safety and by folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from devfix.findings import Safety
from devfix.pipeline.selection import posix
from devfix.reports.report import Report
from devfix.review.text import plural, printable

_FOLDERS = 15


def lines(report: Report) -> Iterator[str]:
    """A table for a terminal; nothing where there are no findings."""
    found = [(result.path, finding) for result in report.results for finding in result.findings]
    if not found:
        return
    columns = [*sorted(Safety, reverse=True), None]
    counts: Counter[tuple[str, Safety | None]] = Counter(
        (finding.codemod, finding.fix.safety if finding.fix is not None else None) for _, finding in found
    )
    ids = sorted({id for id, _ in counts}, key=lambda id: (-sum(counts[id, c] for c in columns), id))
    width = max(map(len, [*ids, "codemod"]))
    heads = [*(safety.label for safety in columns if safety is not None), "no fix", "all"]
    yield f"{'codemod':{width}}" + "".join(f"{head:>8}" for head in heads)
    for id in ids:
        row = [counts[id, column] for column in columns]
        yield f"{id:{width}}" + "".join(f"{number:>8}" for number in (*row, sum(row)))
    yield ""
    folders = Counter(posix(path).rpartition("/")[0] or "." for path, _ in found)
    ranked = sorted(folders.items(), key=lambda pair: (-pair[1], pair[0]))
    for folder, number in ranked[:_FOLDERS]:
        yield f"{number:>6}  {printable(folder)}"
    if len(ranked) > _FOLDERS:
        rest = sum(number for _, number in ranked[_FOLDERS:])
        yield f"{rest:>6}  in {plural(len(ranked) - _FOLDERS, 'other folder')}"
