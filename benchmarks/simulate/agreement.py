"""How many of the facts about CUDA hold on simulated devices, with the torch of this Python and in each way.

    python benchmarks/simulate/agreement.py [FILE]

The ways are the layout of torch's objects, and the extension that `devfix simulate --build` compiles, here into a
folder of its own. FILE gets a table, and every fact that does not hold, except those of which it is known.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PATHS = [str(ROOT / "codemods"), str(ROOT / "tests" / "simulate")]
sys.path[:0] = PATHS

from facts import Fact, facts, themes  # noqa: E402

CHILD = """
import json, os, sys
sys.path[:0] = {paths!r}
import torch
build = f"built for CUDA {{torch.version.cuda}}" if torch.version.cuda else "built for the CPU"
from devfix.simulate import enable, native
from devfix.simulate.processes import environment
if {build}:
    native.build()
from facts import facts, themes
from facts.running import outcomes
enable({devices})
os.environ.update(environment({devices}))
assert native.built() == {build}
torch.set_num_threads(1)
version = torch.__version__
wanted = [one for theme in themes() for one in facts(theme) if one.devices == {devices} and one.available(version)]
print(json.dumps([version, build, outcomes(wanted, 2)]))
"""


def asked(build: bool, devices: int, folder: str) -> tuple[str, str, dict[str, str]]:
    """The version of torch, what it is built for, and what the facts come to."""
    source = CHILD.format(paths=PATHS, build=build, devices=devices)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DEVFIX_SIMULATE_BUILT": folder}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    version, what, found = json.loads(done.stdout.splitlines()[-1])
    return version, what, found


def way(build: bool) -> tuple[str, list[str]]:
    """A row of the table, and the facts that do not hold."""
    known = [fact for theme in themes() for fact in facts(theme)]
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for devices in sorted({fact.devices for fact in known}):
            version, what, more = asked(build, devices, folder)
            found |= more
    there = [fact for fact in known if fact.id in found]
    agree = [fact for fact in there if found[fact.id] == fact.on(version)]
    listed = [fact for fact in there if fact not in agree and _listed(fact, found[fact.id])]
    others = [fact for fact in there if fact not in agree and fact not in listed]
    name = "extension" if build else "layout"
    row = f"| {version}, {what} | {name} | {len(there)} | {len(agree)} ({len(agree) / len(there):.1%}) | {len(listed)} "
    row += f"| {len(others)} |"
    return row, [f"- {name}: {fact.id}: {found[fact.id][:150]}" for fact in others]


def _listed(fact: Fact, found: str) -> bool:
    return bool(fact.simulated) and found.startswith(fact.simulated)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args()
    lines = [
        "| torch | way | facts | agree with CUDA | differ, as listed in docs/simulate.md | differ otherwise |",
        "|---|---|---|---|---|---|",
    ]
    wrong: list[str] = []
    for build in (False, True):
        row, more = way(build)
        print(row, *more, sep="\n", flush=True)
        lines.append(row)
        wrong += more
    if options.file:
        options.file.write_text("\n".join([*lines, "", *wrong]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
