"""Write down what a real GPU says to the table of `fidelity.py`.

    python tests/simulate/record_cuda.py

Needs a GPU and a CUDA build of torch. Writes `recorded/torch-VERSION-GPU.json` beside this file, with
torch, driver and GPU; commit it. `test_fidelity.py` compares the simulator with every such file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "recorded"
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "codemods")]


def outcome(status: str, output: str, error: str) -> str:
    """One text for what a program of the table came to."""
    if status == "ok":
        return " ".join(output.split())
    return " ".join(error.split()) if status == "raised" else f"{status}: {error}"


def main() -> int:
    from devfix.smoke import run_program
    from fidelity import ALLOWED, RAISED

    probe = run_program(
        "import torch\nprint(torch.__version__, torch.version.cuda, torch.cuda.device_count(), sep='|')",
        "cuda",
    )
    if probe.status != "ok" or "simulated" in probe.device:
        print(f"no real GPU here: {probe.device} {probe.error}", file=sys.stderr)
        return 2
    version, cuda, count = probe.output.strip().split("|")
    gpu = probe.device.removeprefix("cuda (").removesuffix(")")
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    found = {}
    for mix in (*RAISED, *ALLOWED):
        if mix.devices <= int(count):
            run = run_program(mix.program, "cuda", devices=mix.devices)
            found[mix.name] = outcome(run.status, run.output, run.error)
    record = {"torch": version, "cuda": cuda, "driver": driver, "gpu": gpu, "outcomes": found}
    FOLDER.mkdir(exist_ok=True)
    name = re.sub(r"[^\w.]+", "-", f"torch-{version}-{gpu}")
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"{len(found)} outcomes written to recorded/{name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
