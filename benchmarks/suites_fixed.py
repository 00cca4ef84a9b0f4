"""Test suites of public packages before and after devfix: does a test fail that passed?

    python benchmarks/suites_fixed.py FOLDER [NAME]... [--python PYTHON] [--tests N] [--seed N] [--seconds S] [--safe]

FOLDER, NAME and PYTHON are as for `simulate/suites.py`; a name that is not listed there has its tests in `tests`. Each
clone is copied, tests and all, and `devfix apply` makes its fixes there: the safe ones, and the unsafe ones too unless
`--safe` says no. Of the tests that pytest finds, those run that are in files with fixes, and N others drawn at random:
in the clone and in the copy, on the CPU and on simulated CUDA. Printed are how many passed before and after, and every
test that passed before and does not any more, which is a wrong fix or a test that does not give the same twice.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "simulate"))

from suites import SUITES, Runner, Suite  # noqa: E402

ONE_DEVICE = ("--simulate-cuda=1",)


def fixed(clone: Path, copy: Path, level: str) -> list[str]:
    """Copy a clone and make the fixes there; the files that were changed."""
    shutil.copytree(clone, copy, symlinks=True)
    command = [sys.executable, "-m", "devfix", "apply", level, "--no-smoke", "--no-cache", "-q", "."]
    path = {"PYTHONPATH": str(HERE.parent / "codemods"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=copy, env=path, capture_output=True, text=True)
    if done.returncode:
        print(f"{clone.name}: exit code {done.returncode}: {done.stderr[-300:]}", file=sys.stderr)
    compared = subprocess.run(["git", "diff", "--name-only"], cwd=copy, capture_output=True, text=True)
    return compared.stdout.split()


def judge(name: str, before: Runner, options: argparse.Namespace) -> list[str]:
    """The row of a package, and a line for each test that passed before and does not any more."""
    SUITES.setdefault(name, Suite())
    with tempfile.TemporaryDirectory() as folder:
        changed = fixed(before.folder / name, Path(folder) / name, "--safe" if options.safe else "--unsafe")
        if not changed:
            return [f"| {name} | 0 | | | | no fixes |"]
        after = Runner(Path(folder), options.python, ONE_DEVICE, options.seconds)
        ids = before.ids(name, simulated=True)
        first = [one for one in ids if one.partition("::")[0] in changed]
        others = [one for one in ids if one not in set(first)]
        drawing = random.Random(options.seed)
        drawn = sorted(
            drawing.sample(first, min(options.tests, len(first)))
            + drawing.sample(others, min(options.tests, len(others)))
        )
        if not drawn:
            return [f"| {name} | {len(changed)} | | | | no tests could be collected |"]
        rows, worse = [f"| {name} | {len(changed)} | {len(drawn)} of {len(ids)} "], []
        for simulated in (False, True):
            there = [one for one in drawn if simulated or one in set(before.ids(name, simulated=False))]
            was, early, _ = before.outcomes(name, there, simulated=simulated)
            now, late, _ = after.outcomes(name, there, simulated=simulated)
            passed = [Counter(kind for kind, _ in found.values())["passed"] for found in (was, now)]
            rows.append(f"{passed[0]}, {passed[1]}{' early' if early or late else ''} ")
            for key, (kind, text) in now.items():
                if kind == "failed" and was.get(key, ("", ""))[0] == "passed":
                    worse.append(f"- {name}: {'simulated' if simulated else 'CPU'}: {key}: {text[:300]}")
        return [f"{'| '.join(rows)}| {len(worse)} |", *worse]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tests", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=120, help="for one run of a suite")
    parser.add_argument("--safe", action="store_true", help="safe fixes only")
    options = parser.parse_args()
    before = Runner(options.folder.resolve(), options.python, ONE_DEVICE, options.seconds)
    print(
        "| package | files with fixes | tests | CPU: passed before, after | simulated | worse |", flush=True
    )
    print("|---|---|---|---|---|---|", flush=True)
    for name in options.names or SUITES:
        print("\n".join(judge(name, before, options)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
