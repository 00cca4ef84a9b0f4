"""Fake tensors, where no devices can be simulated: what they judge, and what they refuse to judge."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from devfix.codemod import Example, registry
from devfix.smoke import Run, Runner, smoke_examples
from later import is_built_for_cuda

FAKE = "cuda (fake tensors)"
HEAD = "import torch\nfrom torch import nn\nc = torch.ones(3, device='cuda')\nm = torch.ones(3)\n"
MIXED = "Expected all tensors to be on the same device, but found at least two devices, "


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with pytest.MonkeyPatch.context() as patch, Runner() as made:
        patch.setenv("DEVFIX_SIMULATE", "fake")
        found = made.run("", "cuda")
        if found.device != FAKE:
            pytest.skip(f"there is {found.device}")
        yield made


def run(runner: Runner, program: str) -> Run:
    found = runner.run(HEAD + program, "cuda")
    assert found.device == FAKE
    return found


@pytest.mark.parametrize(
    "program",
    [
        "c + m",
        "torch.cat([c, m])",
        "nn.Linear(3, 2)(c)",
        "nn.Linear(3, 2).to('cuda')(m)",
        "c[0:2] + m[None, 0:2]",
        "nn.Embedding(3, 3).cuda()(torch.tensor([1]))",
        "nn.functional.cross_entropy(c[None], torch.tensor([0]))",
        "model = nn.Sequential(nn.Linear(3, 3))\nmodel.to('cuda')\nmodel[0] = nn.Linear(3, 2)\nmodel(c)",
        "torch.mm(torch.ones(2, 2, device='cuda:0'), torch.ones(2, 2, device='cuda:1'))",
    ],
)
def test_what_cuda_refuses_is_an_error(runner: Runner, program: str) -> None:
    found = run(runner, program)
    assert found.status == "raised" and MIXED in found.error, found


@pytest.mark.parametrize(
    "program",
    [
        "print((c + torch.tensor(1.0)).device)",
        "c[1:] = 0\nc[:2] = m[:2]\nassert c[None, ..., 0].shape == (1,)\nprint(c[..., None].device)",
        "print((c * 2 + m.cuda()).device)",
        "model = nn.Linear(3, 2).to(torch.device('cuda'))\nprint(model(m.to('cuda')).device)",
        "tied = nn.Linear(3, 3)\nmodel = nn.Sequential(tied, tied).cuda()\nassert model[0].weight is tied.weight\n"
        "print(model(c).device)",
        "net = nn.LSTM(3, 2).cuda()\nprint(net(torch.ones(2, 1, 3).cuda())[0].device)",
        "model = nn.Linear(3, 1).cuda()\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\nloss = model(c).sum()\n"
        "loss.backward()\noptimizer.step()\nassert round(loss.item(), 2) is not None\nprint(model.weight.grad.device)",
    ],
)
def test_what_cuda_allows_runs(runner: Runner, program: str) -> None:
    if "LSTM" in program and is_built_for_cuda():
        pytest.skip("a build with CUDA asks the driver")
    found = run(runner, program)
    assert (found.status, found.output) == ("ok", "cuda:0\n"), found


@pytest.mark.parametrize(
    "program",
    [
        # FakeTensorMode lets these pass, or may, and CUDA does not, or nobody has looked.
        "c.index_select(0, torch.tensor(0))",
        "m[torch.tensor([0]).cuda()]",
        "nn.Conv1d(1, 1, 1).cuda()(m[None, None])",
        "torch.stack([c.sum(), torch.tensor(1.0)])",
        "torch.lerp(c, c, torch.tensor(1.0))",
        "torch.randn(3, device='cuda', generator=torch.Generator())",
        # Numbers decide.
        "assert c.sum().item() > 0",
        "if c.sum() > 0: pass",
        "torch.nonzero(c)",
        # What needs more than shapes and devices.
        "with torch.autocast('cuda'): nn.Linear(3, 2).cuda()(c)",
        "torch.save(c, 'c.pt')",
        "m.numpy()",
        "raise ValueError('of the program')",
    ],
)
def test_what_fake_tensors_cannot_judge_is_refused(runner: Runner, program: str) -> None:
    assert run(runner, program).status == "unsupported"


def test_what_is_caught_is_refused_too(runner: Runner) -> None:
    found = run(runner, "try:\n    m[torch.tensor([0]).cuda()]\nexcept Exception:\n    pass\n")
    assert found.status == "unsupported", found


@pytest.mark.skipif(is_built_for_cuda(), reason="a build with CUDA asks the driver")
def test_examples_of_a_codemod(runner: Runner) -> None:
    found = smoke_examples("reorder-to", registry()["reorder-to"].examples, runner)
    assert found.ok and found.checked_on == f"cpu, {FAKE}", found
    wrong = Example("wrong", before="import torch\ntorch.ones(1)\n", raises="same device")
    assert smoke_examples("wrong", [wrong], runner).ok is None  # it might be CUDA's affair


# Python runs this at the start of every process: the check of torch's layout fails.
OTHER_LAYOUT = """
import devfix.simulate

def install(devices):
    raise devfix.simulate.CannotSimulate("torch is laid out otherwise")

devfix.simulate._install = install
"""


@pytest.mark.parametrize("forced", [pytest.param(True, marks=pytest.mark.slow), False])
def test_examples_and_calls_without_simulated_devices(tmp_path: Path, forced: bool) -> None:
    repository, site = tmp_path / "repository", tmp_path / "site"
    (repository / ".git").mkdir(parents=True)
    site.mkdir()
    (repository / "net.py").write_text(
        "import torch\n\n\ndef shifted(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x + torch.arange(x.shape[-1])\n"
    )
    (site / "sitecustomize.py").write_text("" if forced else OTHER_LAYOUT)
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "smoke", "--unsafe", "--codemod", "place-factory", "net.py"],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(site), **({"DEVFIX_SIMULATE": "fake"} if forced else {})},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "cuda (NVIDIA" in done.stdout or "build for GPUs" in done.stdout:
        pytest.skip("this is no CPU build of torch")
    *examples, last = done.stdout.splitlines()
    assert FAKE in "".join(examples) or "with fake tensors" in "".join(examples), done
    assert last == "net.py:5: place-factory: verified: cuda (fake tensors)", done
