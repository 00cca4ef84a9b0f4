"""A progress bar at a terminal, and nothing in a pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pexpect
import pytest


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(150):
        (tmp_path / f"f{number}.py").write_text("import torch\nx = torch.zeros(3).to('cpu')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_at_a_terminal(many: Path) -> None:
    child = pexpect.spawn(sys.executable, ["-m", "devfix", "check", "."], encoding="utf-8", timeout=60)
    child.expect(pexpect.EOF)
    assert "150/150" in child.before and "no findings in 150 files" in child.before


def test_quiet(many: Path) -> None:
    child = pexpect.spawn(sys.executable, ["-m", "devfix", "check", "-q", "."], encoding="utf-8", timeout=60)
    child.expect(pexpect.EOF)
    assert child.before == ""


def test_in_a_pipe(many: Path) -> None:
    command = [sys.executable, "-m", "devfix", "check", "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "no findings in 150 files\n")
