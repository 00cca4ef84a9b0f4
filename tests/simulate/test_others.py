"""XPU, and an accelerator of which torch knows no more than that it is one (PrivateUse1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ran import Ran
from test_mps import ran, wrong

KINDS = pytest.mark.parametrize("kind", ["xpu", "privateuseone"])
HEAD = """import torch, torch.nn as nn
device = torch.accelerator.current_accelerator()
there = torch.get_device_module(device)
h = torch.ones(2, 3)
x = h.to(device)
"""
# {} is the type of the devices, <> what torchgen calls it.
FACTS = {
    "torch.accelerator.is_available(), str(device), torch.accelerator.device_count()": "(True, '{}', 2)",
    "there.is_available(), there.device_count(), there.current_device()": "(True, 2, 0)",
    "x": "{}:0 [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]",
    "torch.zeros(0, 3, device=device).to('{}:1').shape": "torch.Size([0, 3])",
    "torch.ones(1, device='{}:1')": "{}:1 [1.0]",
    "torch.cuda.is_available()": "False",
    "h.cuda()": "AssertionError: Torch not compiled with CUDA enabled",
    "x + h": (
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, {}:0 and cpu!"
    ),
    "nn.Linear(3, 3)(x)": (
        "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on {}:0, different from other "
        "tensors on cpu (when checking argument in method wrapper_<>_addmm)"
    ),
    "x @ x.T.to('{}:1')": (
        "RuntimeError: Expected all tensors to be on the same device, but got mat2 is on {}:1, different from other "
        "tensors on {}:0 (when checking argument in method wrapper_<>_mm)"
    ),
    "a = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], device=device); diagonal = torch.eye(2, device=device).bool()\n"
    "nn.functional.scaled_dot_product_attention(a, a, a, diagonal)": "{}:0 [[[1.0, 2.0], [3.0, 4.0]]]",
    "nn.functional.scaled_dot_product_attention(x, h, h)": (
        "RuntimeError: Expected query, key, and value to have the same device type, but got query.device: {}:0 "
        "key.device: cpu and value.device: cpu instead."
    ),
    "x.numpy()": (
        "TypeError: can't convert {}:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first."
    ),
    "torch.ones(1, device='{}:5')": (
        "RuntimeError: The device index is out of range. It must be in [0, 2), but got 5."
    ),
    "torch.rand(1, device=device, generator=torch.Generator())": (
        "RuntimeError: Expected a '{}' device type for generator but found 'cpu'"
    ),
    "there.manual_seed(1); a = torch.rand(4, device=device); state = there.get_rng_state(); b = torch.rand_like(a)\n"
    "torch.manual_seed(1); c = torch.rand(4, device=device); there.set_rng_state(state)\n"
    "torch.equal(a, c), torch.equal(b, torch.rand_like(a))": "(True, True)",
    "before = there.memory_allocated(); kept = torch.ones(1024, device=device)\n"
    "there.memory_allocated() - before, torch.accelerator.memory_allocated() - before": "(4096, 4096)",
    "with there.device(1):\n    made = torch.ones(1, device='{}')\nmade.device, there.current_device()": (
        "(device(type='{}', index=1), 0)"
    ),
    "there.Stream().synchronize(), torch.accelerator.synchronize()": "(None, None)",
    "with there.stream(there.Stream()) as s:\n    found = there.current_stream() == there.default_stream()\nfound": (
        "False"
    ),
    "import io; file = io.BytesIO(); torch.save(x, file); file.seek(0)\ntorch.load(file).device": "{}:0",
    "torch.set_default_device(device); made = torch.ones(1); torch.set_default_device(None)\nmade.device": "{}:0",
    "with there.device(1):\n    sparse = x.to_sparse() @ x.T\nsparse": "{}:0 [[3.0, 3.0], [3.0, 3.0]]",
    "torch.amp.GradScaler('{}').scale(x)[0, 0] == 2**16": "{}:0 True",
}
KEYS = {"xpu": "XPU", "privateuseone": "PrivateUse1"}


@KINDS
def test_what_they_say_and_train_as_the_cpu(kind: str, programs: Path) -> None:
    def of(text: str) -> str:
        return text.replace("{}", kind).replace("<>", KEYS[kind])

    assert wrong(HEAD, {of(fact): of(should) for fact, should in FACTS.items()}, programs, kind) == []


def test_what_xpu_lacks(programs: Path) -> None:
    ended = ran(HEAD + "torch.histogram(x, 3)\n", programs, "xpu")
    assert ended.code == 1 and not ended.unchecked
    assert "'aten::histogram.bin_ct' is not currently implemented for the XPU device." in ended.output
    ended = ran(HEAD + "torch.histogram(x, 3)\n", programs, "xpu", PYTORCH_ENABLE_XPU_FALLBACK="1")
    assert ended.code == 0 and "will fall back to run on the CPU" in ended.output


AUTOCAST = HEAD + (
    "with torch.autocast(device.type, dtype=torch.bfloat16):\n    print(nn.Linear(3, 3).to(device)(x).dtype)\n"
)


def test_autocast_is_torchs_on_xpu_and_a_packages_elsewhere(programs: Path) -> None:
    assert "torch.bfloat16" in ran(AUTOCAST, programs, "xpu").output
    ended = ran(AUTOCAST, programs, "privateuseone")
    assert "torch.float32" in ended.output and "autocast changes nothing on privateuseone" in ended.output


def test_a_suite(tmp_path: Path, suites: Callable[..., Ran]) -> None:
    kind = "xpu"
    (tmp_path / "test_suite.py").write_text(
        "import torch\nhere = torch.accelerator.current_accelerator()\n"
        f"def test_there():\n    assert str(here) == '{kind}' and torch.ones(2, device=here).sum().item() == 2\n"
        "def test_mixed():\n    torch.ones(2, device=here) + torch.ones(2)\n"
    )
    said = suites(tmp_path, "--simulate-device", kind).text
    assert f"devfix: a device of type {kind}, simulated" in said
    assert "1 failed, 1 passed" in said and f"{kind}:0 and cpu!" in said


def test_what_is_meant_for_cuda_is_listed(simulated: Callable[..., Ran]) -> None:
    program = "import torch\nx = torch.ones(2).cuda()\nprint(x.device, (x + torch.ones(2)).device)\n"
    done = simulated(program, options=["--device", "xpu", "--keep-going"])
    assert done.code == 1 and "xpu:0 xpu:0" in done.text
    assert "2 distinct device errors" in done.err and "Torch not compiled with CUDA enabled" in done.err
