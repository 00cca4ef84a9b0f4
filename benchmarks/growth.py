"""How the analysis of one file grows with the file: `python benchmarks/growth.py [FAMILY ...]`.

Each family of `speeds/families.py` is analysed by all codemods that are on by default, at sizes n, 2n, 4n and 8n, in
this process and without kept results. Prints CPU seconds of each (the least of some rounds) and the exponent, by
least squares over the larger three sizes: 1 is linear, 2 is quadratic. A family whose analysis takes more than
`--patience` seconds is not made larger. Ends with 1 if an exponent is above `--limit`, or if a file could not be
analysed. `tests/test_growth.py` counts work instead of time, at two smaller sizes.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import tempfile
import time
from pathlib import Path

from devfix.codemod import registry
from devfix.pipeline.around import Around
from devfix.pipeline.parallel import no_gc
from devfix.pipeline.work import Task
from devfix.reports.report import FileResult
from speeds.families import FAMILIES, Family, Files

SIZES = (1, 2, 4, 8)


def written(files: Files, folder: Path) -> str:
    """The path of the file that is analysed, with its project around it."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder / next(iter(files)))


def task() -> Task:
    """All that is on by default, and nothing remembered of an earlier run."""
    codemods = tuple(kind() for kind in registry().values() if kind.default)
    return Task(codemods, repair=False, around=Around().anew())


def analysed(path: str) -> FileResult:
    """The result of one file; raises RuntimeError if anything of it could not be done."""
    result = task().file(path)
    if result.error or result.troubles:
        raise RuntimeError(f"{path}: {result.error or result.troubles[0]}")
    return result


def seconds(family: Family, size: int, rounds: int) -> tuple[float, int]:
    """CPU seconds of the analysis at one size, and the number of findings."""
    least = math.inf
    with tempfile.TemporaryDirectory() as folder:
        path = written(family.make(size), Path(folder))
        for _ in range(rounds):
            gc.collect()
            with no_gc():  # as in a run of devfix
                start = time.process_time()
                result = analysed(path)
                least = min(least, time.process_time() - start)
            if least > 1:
                break
    return least, len(result.findings)


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of a line through the logarithms, by least squares over the last three."""
    logs = [(math.log(size), math.log(value)) for size, value in points[-3:]]
    x, y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help="names, or how they begin (default: all)")
    parser.add_argument("--limit", type=float, default=1.3)
    parser.add_argument("--patience", type=float, default=20, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    chosen = [f for f in FAMILIES if not options.families or f.name.startswith(tuple(options.families))]
    if not chosen:
        parser.error("no such family")
    bad = 0
    print(f"{'family':34}{'largest':>8}" + "".join(f"{f'{k}n' if k > 1 else 'n':>8}" for k in SIZES), end="")
    print(f"{'exponent':>10}{'findings':>10}", flush=True)
    for family in chosen:
        points: list[tuple[int, float]] = []
        found, failed = 0, ""
        for factor in SIZES:
            if points and points[-1][1] > options.patience / 2:
                break
            try:
                taken, found = seconds(family, factor * family.least, options.rounds)
            except RuntimeError as error:
                failed = str(error)
                break
            points.append((factor * family.least, taken))
        slope = exponent(points) if len(points) > 1 else math.nan
        bad += bool(failed) or not slope <= options.limit
        cells = [f"{taken:8.2f}" for _, taken in points] + [f"{'-':>8}"] * (len(SIZES) - len(points))
        print(f"{family.name:34}{points[-1][0] if points else 0:8}{''.join(cells)}", end="")
        print(
            f"{slope:10.2f}{found:10}{'  above the limit' if slope > options.limit else ''} {failed}",
            flush=True,
        )
    print(f"{bad} of {len(chosen)} families are above {options.limit} or could not be analysed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
