"""Writes what torch says about the examples of the codemods, for their pages: `torch_says.json`.

    python docs/site/record_torch.py

Runs each example that raises on CUDA, real or simulated; needs torch. The tests compare the record with the
patterns of the examples.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from devfix.codemod import registry
from devfix.smoke import run_program

RECORD = Path(__file__).resolve().parent / "torch_says.json"
_LONGEST = 400


def main() -> int:
    found: dict[str, list[str]] = {}
    torch = device = ""
    for id, kind in registry().items():
        said: dict[str, None] = {}
        for example in kind.examples:
            if example.raises and example.after is not None:
                run = run_program(example.program(), "cuda")
                if run.error.startswith("AssertionError"):
                    continue  # what the example itself has to say
                if run.status == "raised":
                    said[run.error.strip().splitlines()[0][:_LONGEST]] = None
                    torch, device = run.torch, run.device
                else:
                    print(f"{id}: {example.title}: {run.status} {run.error}", file=sys.stderr)
        found[id] = list(said)
        print(id, len(said))
    RECORD.write_text(json.dumps({"torch": torch, "device": device, "codemods": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
