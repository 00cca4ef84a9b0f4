"""The table of device bugs on the torch of this Python: every bug raises, every repaired program runs.

    python benchmarks/simulate/bug_table.py [FILE]

It needs torch and the source tree, nothing else, so that it runs on old versions of torch and under
an emulator. Every program runs in a fork. FILE gets the table as Markdown.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "codemods"), str(ROOT / "tests" / "simulate")]

from devfix.simulate.forkserver import Request, _Server  # noqa: E402
from device_bugs import BUGS, DeviceBug  # noqa: E402

SECONDS = 600.0
SAVE = "import torch, torch.nn as nn\ntorch.save(nn.Linear(3, 2).to('cuda:1').state_dict(), {path!r})\n"


def main() -> int:
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        server = _Server(torch=str(torch.__version__))
        saved = os.path.join(folder, "saved.pt")

        def run(program: str, devices: int) -> tuple[str, str]:
            program = program.replace("SAVED_ON_CUDA_1", saved)
            reply = server.answer(Request(program, "cuda", devices, SECONDS, 16 << 30))
            return reply.status, " ".join(reply.error.split())

        print("saved:", run(SAVE.format(path=saved), 2), flush=True)
        for bug in BUGS:
            bad, good = run(bug.bug, bug.devices), run(bug.repaired, bug.devices)
            said = verdict(bug, *bad)
            failed += said not in ("exact", "contained") or good[0] != "ok"
            text = bug.messages[0] if said == "contained" else bad[1]  # what is around it has paths in it
            rows.append((bug.name, said, good[0], " ".join(text.split())))
            print(*rows[-1], *([good[1]] if good[1] else []), sep=" | ", flush=True)
    title = f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}"
    table = [f"# {title}", "", "| bug | text | repaired program | what it says |", "|---|---|---|---|"]
    table += [f"| {name} | {said} | {good} | `{text}` |" for name, said, good, text in rows]
    table += ["", f"{len(rows) - failed} of {len(rows)} pairs as expected"]
    print(table[-1])
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(table) + "\n")
    return min(failed, 1)


def verdict(bug: DeviceBug, status: str, error: str) -> str:
    """exact: CUDA's words; contained: with others around them; else what happened instead."""
    if status != "raised":
        return status
    if error in {f"{bug.error}: {' '.join(message.split())}" for message in bug.messages}:
        return "exact"
    return "contained" if any(" ".join(message.split()) in error for message in bug.messages) else "other"


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    if target:
        sys.argv[1] = str(target)
    sys.exit(main())
