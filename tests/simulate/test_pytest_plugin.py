"""`pytest --simulate-cuda`: other people's tests on simulated devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import torch
SEEN = torch.cuda.is_available()
"""
TESTS = """
import subprocess, sys, pytest, torch, conftest

def test_devices():
    assert conftest.SEEN and torch.cuda.device_count() == 2

def test_mixed():
    torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2))

@pytest.mark.xfail(strict=True, raises=RuntimeError)
def test_expected():
    torch.ones(2, device="cuda") + torch.ones(2)

def test_limit():
    torch.eye(3, device="cuda").to_sparse()

@pytest.fixture
def limited():
    return torch.eye(3, device="cuda").to_sparse()

def test_limit_of_a_fixture(limited):
    pass

def test_child():
    code = "import torch; print(torch.cuda.device_count())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2\\n"
"""


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""},
        timeout=300,
    )
    if "cannot simulate CUDA devices" in done.stdout + done.stderr:
        pytest.skip(done.stdout + done.stderr)
    return done.stdout + done.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_suite_on_simulated_devices(suite: Path, workers: tuple[str, ...]) -> None:
    said = run(suite, "--simulate-cuda=2", "-rs", *workers)
    assert "1 failed, 2 passed, 2 skipped, 1 xfailed" in said
    assert "devfix: 2 CUDA devices, simulated where there is no GPU" in said
    assert "not checked: " in said and "limit of the simulator" in said
    failure = said.partition("test_mixed ___")[2].partition("short test summary")[0]
    assert "E       RuntimeError: Expected all tensors to be on the same device" in failure
    assert "simulate" not in failure and "_ops.py" not in failure


def test_without_the_option_nothing_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "def test_plain():\n"
        "    loaded = {name for name in sys.modules if name.startswith('devfix')}\n"
        "    assert 'torch' not in sys.modules and 'ctypes' not in loaded\n"
        "    assert 'devfix.simulate.pytest_plugin' in loaded\n"
        "    assert not loaded & {'devfix.simulate.processes', 'devfix.simulate.ending', 'devfix.runner'}\n"
    )
    assert "1 passed" in run(tmp_path)


def test_torch_is_not_imported_for_tests_without_it(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_plain():\n    assert 'torch' not in sys.modules\n"
    )
    assert "1 passed" in run(tmp_path, "--simulate-cuda=1")


@pytest.mark.parametrize("value", ["--simulate-cuda=0", "--simulate-cuda=none", "--simulate-cuda=65"])
def test_a_wrong_number(tmp_path: Path, value: str) -> None:
    assert "is no number of devices (1 to 64)" in run(tmp_path, value)
