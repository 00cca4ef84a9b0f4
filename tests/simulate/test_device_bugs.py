"""The bugs raise what CUDA raises, and the repaired programs run: simulated, and on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.smoke import Run, run_program
from device_bugs import BUGS, DeviceBug

SAVED = "SAVED_ON_CUDA_1"
SIMULATED = "cuda (simulated)"
SAVE = """
import torch, torch.nn as nn
torch.save(nn.Linear(3, 2).to("cuda:1").state_dict(), {path!r})
"""
# torch 2.13 takes "cuda:0" as a device type, and so does its simulation.
NO_BUG = {"02-autocast-device-index"}

each_bug = pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])


@pytest.fixture
def saved(bug: DeviceBug, request: pytest.FixtureRequest) -> str:
    """A checkpoint of cuda:1, for the one program that reads it: only it needs a machine with two devices."""
    return str(request.getfixturevalue("saved_on_cuda_1")) if SAVED in bug.code else ""


@pytest.fixture(scope="session")
def saved_on_cuda_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "cuda1.pt"
    run = run_program(SAVE.format(path=str(path)), "cuda", devices=2)
    if run.status == "unsupported":
        pytest.skip(run.error)
    assert run.status == "ok", run
    return path


def run(bug: DeviceBug, program: str, saved: str) -> Run:
    return run_program(program.replace(SAVED, saved), "cuda", devices=bug.devices)


def said(run: Run) -> str:
    return " ".join(run.error.split())


def simulated(run: Run) -> Run:
    if run.device != SIMULATED:
        pytest.skip(f"there is a real GPU: {run.device}")
    return run


@each_bug
def test_bug_raises_the_words_of_cuda(bug: DeviceBug, saved: str) -> None:
    ran = simulated(run(bug, bug.bug, saved))
    if bug.name in NO_BUG:
        assert ran.status == "ok"
        return
    assert ran.status == "raised"
    if bug.name == "19-cuda-in-worker":  # DataLoader puts its own words around it
        assert bug.messages[0] in said(ran)
    else:
        assert said(ran) in {f"{bug.error}: {message}" for message in bug.messages}
    assert ran.line > 2


@each_bug
def test_repaired_program_runs(bug: DeviceBug, saved: str) -> None:
    ran = simulated(run(bug, bug.repaired, saved))
    assert (ran.status, ran.error) == ("ok", "")


@pytest.mark.cuda
@each_bug
def test_on_a_real_gpu(bug: DeviceBug, saved: str) -> None:
    before, after = run(bug, bug.bug, saved), run(bug, bug.repaired, saved)
    if before.status == "unsupported":  # two devices wanted, and one is there
        pytest.skip(before.error)
    assert after.status == "ok", after.error
    if bug.name not in NO_BUG:
        assert said(before).startswith(bug.error)
        assert any(message in said(before) for message in bug.messages)
