"""The fault table: every fault, how often it was tried, and how often something was lost, wrong, or hung.

    python benchmarks/faults.py            # each row as often as it says
    python benchmarks/faults.py --scale 0.1

The faults are those of `tests/faulty.py`, on real files and real processes in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from faulty import FAULTS, Case, Fault, Hung, Lost


def row(case: Case, first: int, times: int) -> tuple[int, int, int, int, list[str]]:
    """Tried, lost, wrong and hung, and what happened."""
    tried = lost = wrong = hung = 0
    said: list[str] = []
    for seed in range(first, first + times):
        print(f"{case.name}: {tried} tried, {lost + wrong + hung} bad", end="\r", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="devfix-faults-") as folder:
            os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")
            try:
                tried += case.fault(Path(folder, "trees"), seed)
                continue
            except Lost as error:
                lost, why = lost + 1, str(error)
            except Hung as error:
                hung, why = hung + 1, str(error)
            except (Fault, OSError, ValueError) as error:
                wrong, why = wrong + 1, f"{type(error).__name__}: {error}"
            tried += 1
            said.append(f"  seed {seed}: {why}")
    return tried, lost, wrong, hung, said


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer runs of each row")
    parser.add_argument("--only", help="rows with this text")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    print("| Fault | Tried | Lost | Wrong | Hung | Seconds |\n|---|---:|---:|---:|---:|---:|")
    bad = 0
    for case in FAULTS:
        if given.only and given.only not in case.name:
            continue
        if not case.possible():
            print(f"| {case.name} | not possible for this user | | | | |")
            continue
        start = time.perf_counter()
        tried, lost, wrong, hung, said = row(case, given.first, max(1, round(case.many * given.scale)))
        seconds = time.perf_counter() - start
        print(f"| {case.name} | {tried} | {lost} | {wrong} | {hung} | {seconds:.0f} |", flush=True)
        print("\n".join(said[:10]), file=sys.stderr, end="\n" if said else "", flush=True)
        bad += lost + wrong + hung
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
