"""torch.compile on simulated devices: dynamo and AOT trace as on CUDA, and the graphs run eagerly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devfix.simulate import supervise
from ran import Ran

HERE = Path(__file__).resolve().parent
NOTE = "devfix: torch.compile traces the program and runs the graphs eagerly (no GPU code generation)"


def ran(programs: Path, program: str, device: str = "cuda", **named: Any) -> supervise.Ended:
    (programs / "program.py").write_text(program)
    command = supervise.python(["program.py"])
    ended = supervise.run(command, device=device, cwd=str(programs), capture=True, seconds=500, **named)
    if any(told.cannot for told in ended.told):
        pytest.skip(ended.unchecked)
    return ended


def rows(text: str) -> dict[str, list[object]]:
    found = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    return {name: rest[:3] for name, *rest in found}


def test_the_same_as_on_the_cpu(programs: Path) -> None:
    """Results, errors, graph breaks and numbers of graphs."""
    program = (HERE / "compiled.py").read_text()
    ended, plain = ran(programs, program), ran(programs, program, "cpu")
    assert ended.code == 0 and not ended.unchecked and ended.output.count(NOTE) == 1, ended.output
    simulated, cpu = rows(ended.output), rows(plain.output)
    assert len(cpu) == 17 and simulated == cpu
    errors = [said for said, _, _ in simulated.values() if ": " in str(said)]
    assert [str(one).partition(":")[0] for one in errors] == ["Unsupported", "Unsupported", "RuntimeError"]


MIXED = """
import torch
from torch import nn

@torch.compile(mode="reduce-overhead")
def twice(x):
    return x + x

print(twice(torch.ones(1, device="cuda")).device)
net = torch.compile(nn.Linear(3, 3).cuda(), fullgraph=True)
x = torch.ones(2, 3)
print(net(x))
"""


def test_a_device_error_comes_at_tracing(simulated: Callable[..., Ran]) -> None:
    done = simulated(MIXED)
    traceback, told = done.err.split("devfix: this is a device error, raised on cuda (simulated)\n")
    assert (done.code, done.text) == (1, "cuda:0\n") and "Tensor device mismatch" in traceback
    assert "apply --codemod move-inputs program.py" in told


def test_nothing_is_traced_where_the_program_goes_on(programs: Path) -> None:
    ended = ran(programs, MIXED, keep_going=True)
    assert ended.code == 0 and len(ended.seen) == 1, ended.output
    assert "torch.compile is replaced by eager execution" in ended.output


def test_an_exception_survives_the_end_of_a_device_guard(programs: Path) -> None:
    """C++ guards end while the exception of a dispatch mode is on its way."""
    ended = ran(
        programs,
        "import torch\n"
        "from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode\n\n"
        "with FakeTensorMode():\n"
        "    x = torch.ones(3, device='cuda')\n"
        "    try:\n"
        "        x[x > 0]\n"
        "    except DynamicOutputShapeException as error:\n"
        "        print('caught', error)\n",
    )
    assert ended.code == 0 and "caught aten.nonzero" in ended.output, ended.output
