"""Write down what a real GPU says to the facts, and what torch's operators and modules do there with strays.

    python tests/simulate/record_cuda.py [--seconds N]

Needs a GPU, a CUDA build of torch, numpy and expecttest. Writes `recorded/torch-VERSION-GPU.json` beside this file,
with torch, driver and GPU; commit it. `test_cuda_facts.py` compares the facts with every such file, `test_operators.py`
the operators.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"
_ASK = (
    "import json, torch\n"
    "print(json.dumps(['', '', '', 0] if not torch.cuda.is_available() else [str(torch.__version__),"
    " torch.version.cuda, torch.cuda.get_device_name(0), torch.cuda.device_count()]))"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write down what a real GPU says to the facts.")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no fact later than this")
    parser.add_argument("--to", type=Path, default=RECORDED, help="folder of the record")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE)]
    # In another process: asking spoils CUDA for the forks of this one.
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    version, cuda, gpu, count = json.loads(asked.stdout.splitlines()[-1])
    if not count:
        print("no real GPU here", file=sys.stderr)
        return 2
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    record: dict[str, Any] = {"torch": version, "cuda": cuda, "driver": driver, "gpu": gpu}
    record["outcomes"] = _outcomes(version, count, options.seconds)
    record["operators"] = _operators()
    options.to.mkdir(exist_ok=True)
    name = re.sub(r"[^\w.]+", "-", f"torch-{version}-{gpu}")
    (options.to / f"{name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(
        f"{len(record['outcomes'])} outcomes and {len(record['operators'])} operators written to {name}.json"
    )
    return 0


def _outcomes(version: str, devices: int, seconds: float) -> dict[str, str]:
    os.environ["OMP_NUM_THREADS"] = "1"
    import numpy  # noqa: F401
    from facts import facts, themes
    from facts.running import outcomes

    wanted = [fact for theme in themes() for fact in facts(theme)]
    wanted = [fact for fact in wanted if fact.devices <= devices and fact.available(version)]
    return outcomes(wanted, os.cpu_count() or 1, seconds)


def _operators() -> dict[str, str]:
    # In another process: to import torch's samples spoils CUDA for the forks of this one.
    source = f"import json, sys\nsys.path[:0] = [{str(HERE)!r}]\nimport operators\n"
    source += "print(json.dumps([*operators.samples()]))"
    asked = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return strays(json.loads(asked.stdout.splitlines()[-1]), os.cpu_count() or 1)


def strays(names: Iterable[str], workers: int) -> dict[str, str]:
    """What operators and modules do with strays on the device that is there; those with one operand are left out."""
    from facts import Fact
    from facts.running import outcomes

    code = "import operators\noperators.strays({!r})"
    facts = [Fact("operators", name, code.format(name), together=True) for name in names]
    told = outcomes(facts, workers)
    return {fact.name: told[fact.id] for fact in facts if told[fact.id] != "nothing"}


if __name__ == "__main__":
    sys.exit(main())
