"""Real programs on the CPU and on simulated CUDA: do they compute the same?

    python benchmarks/simulate/programs.py [FILE] [--only WORD]

Runs every script in `programs/` twice, unmodified: with this Python as it is, and by `devfix run`, with as many
devices as a comment `# devices: 2` says. FILE
gets the list as Markdown. The libraries must be installed; what is missing is listed as such. Two
results are the same where they differ by at most 1e-5, relative to 1 or to the value.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5
_LINE = re.compile(r"^([=!]) (.*?) (?:(-?[\d.]+(?:e[-+]\d+)?|nan|-?inf)|(\w+: .*))$", re.MULTILINE)
_PACKAGES = [
    "torch",
    "transformers",
    "timm",
    "diffusers",
    "peft",
    "torchmetrics",
    "accelerate",
    "lightning",
    "speechbrain",
    "sentence-transformers",
    "skorch",
    "torch_geometric",
    "stable-baselines3",
    "monai",
    "kornia",
    "gpytorch",
    "pyro-ppl",
    "trl",
    "nequip",
    "e3nn",
]


def run(script: Path, simulated: bool) -> dict[str, tuple[float | None, str]]:
    """What each program of a script gave: a number, or an error."""
    command = [sys.executable, str(script)]
    if simulated:
        devices = re.search(r"# devices: (\d)", script.read_text())
        command[1:1] = ["-m", "devfix", "run", "--devices", devices[1] if devices else "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent.parent / "codemods")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000)
    found = {}
    for mark, name, number, error in _LINE.findall(done.stdout):
        found[name] = (float(number), "") if mark == "=" else (None, error)
    if done.returncode:
        print(f"{script.name}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
    for text in re.findall(r"^devfix: .*$", done.stderr, re.MULTILINE):
        print(f"{script.name}: {text}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="only scripts whose name contains this")
    options = parser.parse_args()
    rows, same = [], 0
    for script in sorted((HERE / "programs").glob("*.py")):
        if script.name == "common.py" or options.only not in script.name:
            continue
        plain, simulated = run(script, False), run(script, True)
        for name in plain:
            left, right = plain[name], simulated.get(name, (None, "no result"))
            verdict = judge(left, right)
            same += verdict == "same"
            rows.append((name, shown(left), shown(right), verdict))
            print(*rows[-1], sep=" | ", flush=True)
    runnable = sum(row[3] != "not run on the CPU" for row in rows)
    summary = f"{same} of {runnable} programs give the same on simulated CUDA as on the CPU"
    print(summary)
    if options.file:
        packages = ", ".join(f"{name} {found}" for name in _PACKAGES if (found := installed(name)))
        head = [
            "# Real programs on simulated CUDA",
            "",
            f"Python {platform.python_version()}, {packages}.",
            "",
            summary + ".",
            "",
        ]
        table = ["| program | CPU | simulated CUDA | |", "|---|---|---|---|"]
        options.file.write_text(
            "\n".join([*head, *table, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
        )
    return 0 if same == runnable else 1


def judge(left: tuple[float | None, str], right: tuple[float | None, str]) -> str:
    if left[0] is None:
        return "not run on the CPU"
    if right[0] is None:
        return "fails"
    return "same" if math.isclose(left[0], right[0], rel_tol=TOLERANCE, abs_tol=TOLERANCE) else "differs"


def shown(result: tuple[float | None, str]) -> str:
    return f"{result[0]:.7g}" if result[0] is not None else f"`{result[1].replace('|', '/')}`"


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
