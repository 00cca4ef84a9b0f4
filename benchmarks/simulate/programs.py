"""Real programs on the CPU and on simulated CUDA: do they compute the same?

    python benchmarks/simulate/programs.py [FILE] [--only WORD]

Runs every script in `programs/` three times, unmodified: with this Python as it is, by `devfix run`, and by
`devfix run` with the kernels that `devfix simulate --build` compiles; with as many devices as a comment `# devices: 2`
says. FILE gets the list as Markdown, with the CPU time that each program took on simulated devices, in relation to
that on the CPU. The libraries must be installed; what is missing is listed as such. Two results are the same where
they differ by at most 1e-5, relative to 1 or to the value.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5
_LINE = re.compile(r"^([=!]) (.*?) (?:(-?[\d.]+(?:e[-+]\d+)?|nan|-?inf) ([\d.]+)|(\w+: .*))$", re.MULTILINE)
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


@dataclass(frozen=True)
class Result:
    """What a program gave, a number or an error, and its CPU time in seconds."""

    value: float | None
    error: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.value:.7g}" if self.value is not None else f"`{self.error.replace('|', '/')}`"


def environment(built: str) -> dict[str, str]:
    path = str(HERE.parent.parent / "codemods")
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "DEVFIX_SIMULATE_BUILT": built}


def run(script: Path, simulated: bool, built: str = "/nowhere") -> dict[str, Result]:
    """What each program of a script gave; `built` is the folder of a compiled extension."""
    command = [sys.executable, str(script)]
    if simulated:
        devices = re.search(r"# devices: (\d)", script.read_text())
        command[1:1] = ["-m", "devfix", "run", "--devices", devices[1] if devices else "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(built), timeout=3000)
    found = {}
    for mark, name, number, seconds, error in _LINE.findall(done.stdout):
        found[name] = Result(float(number), "", float(seconds)) if mark == "=" else Result(None, error)
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
    with tempfile.TemporaryDirectory() as built:
        build = [sys.executable, "-m", "devfix", "simulate", "--build"]
        subprocess.run(build, env=environment(built), check=True)
        for script in sorted((HERE / "programs").glob("*.py")):
            if script.name == "common.py" or options.only not in script.name:
                continue
            plain, ways = run(script, False), [run(script, True), run(script, True, built)]
            for name, left in plain.items():
                found = [way.get(name, Result(None, "no result")) for way in ways]
                verdict = judge(left, *found)
                same += verdict == "same"
                ratios = [f"{one.seconds / left.seconds:.1f}" if left.seconds else "" for one in found]
                rows.append((name, str(left), *map(str, found), *ratios, verdict))
                print(*rows[-1], sep=" | ", flush=True)
    runnable = sum(row[-1] != "not run on the CPU" for row in rows)
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
        table = [
            "| program | CPU | simulated CUDA | compiled kernels | CPU time, simulated / CPU | compiled / CPU | |",
            "|---|---|---|---|---|---|---|",
        ]
        options.file.write_text(
            "\n".join([*head, *table, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
        )
    return 0 if same == runnable else 1


def judge(left: Result, *found: Result) -> str:
    if left.value is None:
        return "not run on the CPU"
    values = [one.value for one in found if one.value is not None]
    if len(values) < len(found):
        return "fails"
    close = (math.isclose(left.value, one, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for one in values)
    return "same" if all(close) else "differs"


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
