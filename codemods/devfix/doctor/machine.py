"""torch, its devices and the simulator, asked in a process of their own: any of them may crash it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from devfix.doctor.health import Line, Status

_SECONDS = 180.0  # to import torch on a busy machine, and to try the simulator
_INSTALL = "pip install 'devfix[smoke]'"
# Nothing of the folder at hand may be imported in place of torch.
_START = """
import sys
sys.path[:] = [path for path in sys.path if path]
sys.path.append({root!r})
from devfix.simulate.facts import main
main()
"""


@dataclass(frozen=True)
class Facts:
    """What the child told; `torch` is empty where there is none that works, and `why` says more."""

    asked: bool
    torch: str = ""
    build: str = ""
    gpus: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # mps, xpu
    gpu_trouble: str = ""
    simulated: bool = False
    simulator: str = ""  # why not, or what was checked
    landlock: int = 0
    why: str = ""


def facts(ask: bool) -> Facts:
    """Ask a child process about torch, unless there is none, or nobody wants to know."""
    if not ask:
        return Facts(False)
    if find_spec("torch") is None:
        return Facts(True, why="not installed")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        done = subprocess.run(
            [sys.executable, "-c", _START.format(root=root)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return Facts(True, why=f"importing torch took longer than {_SECONDS:g} s")
    except OSError as error:
        return Facts(True, why=f"no process could be started: {error}")
    return told(done.stdout, done.stderr, done.returncode)


def told(output: str, errors: str, code: int) -> Facts:
    """The facts in what the child has printed: a line each time that it knows more, the last one counts.

    So a simulator that crashes leaves what is known of torch.
    """
    known: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                known = json.loads(line)
            except ValueError:
                continue
    crashed = f"ended with code {code}" if code else "said nothing"
    if not known:
        last = errors.strip().splitlines()[-1:] or [crashed]
        return Facts(True, why=f"cannot be imported: {last[0]}")
    if "simulator" not in known:
        known["simulator"] = f"the process that tried it {crashed}"
    for name in ("gpus", "others"):
        value = known.get(name)
        known[name] = tuple(value) if isinstance(value, list) else ()
    return Facts(True, **known)


def lines(facts: Facts) -> Iterator[Line]:
    """What the facts mean for devfix."""
    if not facts.asked:
        yield Line("torch", "not asked (--no-torch)", Status.NOTE)
        return
    if not facts.torch:
        absent = facts.why == "not installed"
        yield Line(
            "torch",
            facts.why,
            Status.NOTE if absent else Status.PROBLEM,
            "check, diff and apply need none; devfix run, smoke and apply --smoke do: "
            + (_INSTALL if absent else "install torch again, see pytorch.org"),
        )
        return
    yield Line("torch", f"{facts.torch}, built for {facts.build}")
    real = facts.gpus or facts.others
    if facts.gpu_trouble:
        yield Line("GPUs", facts.gpu_trouble, Status.PROBLEM, "torch cannot use the GPU: check its driver")
    else:
        yield Line(
            "GPUs", "; ".join((*facts.gpus, *facts.others)) or "none", Status.OK if real else Status.NOTE
        )
    if facts.simulated:
        yield Line("simulator", facts.simulator)
    elif facts.gpus:
        yield Line("simulator", "not needed: there is a real GPU", Status.NOTE)
    else:
        yield _no_simulator(facts)
    yield Line(
        "limits of programs",
        f"Landlock, version {facts.landlock}" if facts.landlock else "the kernel has no Landlock",
        Status.OK if facts.landlock else Status.NOTE,
        "" if facts.landlock else "programs that are run may write outside of their copy",
    )


def _no_simulator(facts: Facts) -> Line:
    """Why there are no simulated devices, and whether anything can be done about it."""
    said, name = f"cannot be used: {facts.simulator}", "simulator"
    if not sys.platform.startswith("linux") or facts.others:
        return Line(name, said, Status.NOTE, "fixes are proven on the CPU only")
    advice = "docs/simulate.md says what it needs"
    if facts.build.startswith("ROCm"):
        advice = "without a GPU, install the CPU build: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    return Line(name, said, Status.PROBLEM, f"fixes are proven on the CPU only; {advice}")
