"""Adopting devfix step by step: baselines, and only what changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from devfix.cli import main

BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.head = nn.Linear(4, 2)
print(model(torch.zeros(1, 4, device=device)))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(BUG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*options: str) -> int:
    return main(["check", "--codemod", "reorder-to", *options, "."])


def test_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 1
    assert check("--write-baseline", "known.json") == 0
    assert "1 finding written into known.json" in capsys.readouterr().err
    assert check("--baseline", "known.json") == 0
    assert "1 of the findings left out" in capsys.readouterr().err
    (folder / "a.py").write_text("# moved\n\n" + BUG)
    assert check("--baseline", "known.json") == 0
    (folder / "b.py").write_text(BUG)
    capsys.readouterr()
    assert check("--baseline", "known.json") == 1
    output = capsys.readouterr().out
    assert "b.py:" in output and "a.py:" not in output


def test_no_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--baseline", "gone.json") == 2
    assert "gone.json: no such file" in capsys.readouterr().err
    (folder / "a.json").write_text("{}")
    assert check("--baseline", "a.json") == 2
    assert "is no baseline" in capsys.readouterr().err
    assert check("--write-baseline", "nowhere/known.json") == 2


def test_only_what_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    assert check("--diff-only", "HEAD") == 0
    (folder / "a.py").write_text(BUG + "x = 1\n")
    assert check("--diff-only", "HEAD") == 0
    (folder / "a.py").write_text(BUG.replace("Linear(4, 2)", "Linear(4, 3)"))
    assert check("--diff-only", "HEAD") == 1
    (folder / "new.py").write_text(BUG)
    capsys.readouterr()
    assert check("--diff-only", "HEAD", "--format", "github") == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert check("--diff-only", "nothing") == 2
    assert "--diff-only nothing: " in capsys.readouterr().err
