"""A Mac's GPU on a machine that has none. The texts are those of torch's sources; no Mac has been asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.simulate import supervise
from devfix.simulate.native_functions import load
from facts.running import outcome
from ran import Ran

HEAD = "import torch, torch.nn as nn, torch.nn.functional as F\nh = torch.ones(2, 3)\nm = h.to('mps')\n"
NO_DOUBLE = (
    "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use "
    "float32 instead."
)
MIXED = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!"
PLACEHOLDER = "RuntimeError: Placeholder storage has not been allocated on MPS device!"
FACTS = {
    "torch.backends.mps.is_available(), torch.backends.mps.is_built(), torch.mps.device_count()": "(True, True, 1)",
    "torch.cuda.is_available()": "False",
    "str(torch.accelerator.current_accelerator()), torch.accelerator.device_count()": "('mps', 1)",
    "h.cuda()": "AssertionError: Torch not compiled with CUDA enabled",
    "m.device, m.is_mps, m.type()": "(device(type='mps', index=0), True, 'torch.mps.FloatTensor')",
    "torch.ones(2, device=torch.accelerator.current_accelerator())": "mps:0 [1.0, 1.0]",
    "(m + 1) @ m.T": "mps:0 [[6.0, 6.0], [6.0, 6.0]]",
    "m * torch.tensor(2.0)": "mps:0 [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]",
    "m + h": MIXED,
    "m > h": MIXED,
    "torch.where(m > 0, m, h)": MIXED,
    "m.add_(h)": MIXED,
    "F.mse_loss(m, h)": MIXED,
    "F.linear(m, torch.ones(4, 3))": "RuntimeError: Tensor for argument weight is on cpu but expected on mps",
    "nn.Linear(3, 4).to('mps')(h)": "RuntimeError: Tensor for argument input is on cpu but expected on mps",
    "F.linear(m.int(), m.int())": "RuntimeError: MPS device does not support linear for non-float inputs",
    "m @ h.T": PLACEHOLDER,
    "torch.cat([m, h])": PLACEHOLDER,
    "nn.Embedding(4, 3).to('mps')(torch.tensor([1]))": PLACEHOLDER,
    "nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 5, 5, device='mps'))": (
        "RuntimeError: Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same"
    ),
    "nn.Conv2d(1, 1, 3).to('mps')(torch.ones(1, 1, 5, 5))": (
        "RuntimeError: slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0') must be on the same "
        "device"
    ),
    "m[torch.tensor([0])]": "mps:0 [[1.0, 1.0, 1.0]]",
    "h[torch.tensor([0], device='mps')]": (
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)"
    ),
    "m.numpy()": (
        "TypeError: can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first."
    ),
    "h.double().to('mps')": NO_DOUBLE,
    "m.double()": NO_DOUBLE,
    "torch.ones(1, dtype=torch.float64, device='mps')": NO_DOUBLE,
    "m.sum(dtype=torch.float64)": NO_DOUBLE,
    "torch.ones(1, dtype=torch.complex128).to('mps')": (
        "TypeError: Trying to convert ComplexDouble to the MPS backend but it does not have support for that dtype."
    ),
    "torch.rand(1, device='mps', generator=torch.Generator())": (
        "RuntimeError: Expected a 'mps' device type for generator but found 'cpu'"
    ),
    "torch.mps.manual_seed(1); a = torch.rand(4, device='mps'); torch.mps.manual_seed(1)\n"
    "torch.equal(a, torch.rand(4, device='mps'))": "True",
    "before = torch.mps.current_allocated_memory(); x = torch.ones(1024, device='mps')\n"
    "torch.mps.current_allocated_memory() - before": "4096",
    "torch.linalg.svd(m)[1].shape": "torch.Size([2])",
}
LACKING = "torch.linalg.eigvalsh(m @ m.T)"
TRAINING = (
    "import torch, torch.nn as nn\n"
    """
def loss(make, shape, device):
    torch.manual_seed(0)
    model, x = make().to(device), torch.randn(shape).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        out = model(x)
        out = (out[0] if isinstance(out, tuple) else out).square().mean()
        out.backward()
        optimizer.step()
    return out.item()

def image():
    features = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(36, 5))

for make, shape in (
    (image, (8, 1, 8, 8)),
    (lambda: nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True), (2, 4, 3)),
    (lambda: nn.GRU(3, 5), (4, 2, 3)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 4, 8)),
):
    cpu, there = loss(make, shape, "cpu"), loss(make, shape, torch.accelerator.current_accelerator())
    assert abs(cpu - there) < 1e-5, (cpu, there)
"""
)


def ran(source: str, programs: Path, device: str = "mps", **environment: str) -> supervise.Ended:
    """Run a program in the folder of `programs`."""
    (programs / "program.py").write_text(source)
    env = {**os.environ, **environment}
    count = 1 if device == "mps" else 2
    command = supervise.python(["program.py"])
    ended = supervise.run(
        command, count, device=device, cwd=str(programs), env=env, capture=True, seconds=300
    )
    if any(told.cannot for told in ended.told):
        pytest.skip(ended.unchecked)
    return ended


def wrong(
    head: str, facts: dict[str, str], programs: Path, device: str = "mps"
) -> list[tuple[str, str, str]]:
    """The facts that are none, with what is and what should be; all of them in one process, and the training."""
    here = str(Path(__file__).resolve().parent)
    ended = ran(
        f"import json, sys\nsys.path.insert(0, {here!r})\nfrom facts.running import outcome\n"
        f"facts = {[*facts]!r}\n"
        "for fact in facts:\n"
        "    *lines, last = fact.split('\\n')\n"
        f"    print(json.dumps(outcome('\\n'.join([{head!r}, *lines, f'show(({{last}}))']))))\n{TRAINING}",
        programs,
        device,
    )
    assert ended.code == 0, ended.output
    said = [json.loads(line) for line in ended.output.splitlines() if line.startswith('"')]
    assert outcome("1 / 0") not in said
    return [
        (fact, is_, should) for (fact, should), is_ in zip(facts.items(), said, strict=True) if is_ != should
    ]


def test_what_mps_says_and_it_trains_as_the_cpu(programs: Path) -> None:
    assert wrong(HEAD, FACTS, programs) == []


def test_what_mps_lacks(programs: Path) -> None:
    ended = ran(HEAD + LACKING, programs)
    assert ended.code == 1
    assert "'aten::_linalg_eigh.eigenvalues' is not currently implemented for the MPS device." in ended.output
    assert not ended.unchecked
    ended = ran(HEAD + f"print({LACKING})", programs, PYTORCH_ENABLE_MPS_FALLBACK="1")
    assert ended.code == 0 and "device='mps:0'" in ended.output
    assert (
        "is not currently supported on the MPS backend and will fall back to run on the CPU." in ended.output
    )


def test_an_operation_of_another_library_is_refused(programs: Path) -> None:
    """Packages have kernels of their own for MPS, of which devfix knows nothing."""
    ended = ran(
        HEAD + "torch.library.define('other::op', '(Tensor x) -> Tensor')\ntorch.ops.other.op(m)\n", programs
    )
    assert "operator other::op has no simulated MPS kernel" in ended.unchecked


def test_the_table_of_operations() -> None:
    cuda, mps = load("CUDA"), load("MPS")
    assert mps["add.Tensor"].there and mps["linear"].there and mps["convolution"].there is False
    assert cuda["_linalg_eigh.eigenvalues"].there and not mps["_linalg_eigh.eigenvalues"].there
    assert not any(function.device_check for function in mps.values())
    assert mps["add.out"].iterates and not mps["addmm.out"].iterates


def test_a_suite(tmp_path: Path, suites: Callable[..., Ran]) -> None:
    (tmp_path / "test_suite.py").write_text(
        "import torch\n"
        "def test_there():\n    assert torch.ones(2, device='mps').sum().item() == 2\n"
        "def test_mixed():\n    torch.ones(2, device='mps') + torch.ones(2)\n"
    )
    said = suites(tmp_path, "--simulate-mps").text
    assert "devfix: a device of type mps, simulated" in said
    assert "1 failed, 1 passed" in said and "mps:0 and cpu!" in said
    assert "exclude each other" in suites(tmp_path, "--simulate-mps", "--simulate-cuda=1").err


@pytest.mark.parametrize("arguments", [["--devices", "2"], ["--devices", "0", "--keep-going"]])
def test_there_is_one_device(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "devfix", "run", "--device", "mps", *arguments, __file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "a Mac has one device" in done.stderr
