"""`devfix explain FILE:LINE`: the values on a line, and why there is no finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.cli import main

PROGRAM = """\
import torch


def shifted(x):
    steps = torch.arange(3)
    return x.unsqueeze(0) + steps


def moved(x):
    steps = torch.arange(3)
    return x.to(x.device).unsqueeze(0) + steps
"""


def said(path: Path, line: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["explain", f"{path}:{line}"]) == 0
    return capsys.readouterr().out


def test_values_with_their_histories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    out = said(tmp_path / "a.py", 6, capsys)
    assert "`steps` is a tensor, on the CPU, torch's default" in out
    assert "made (arange): line 5" in out
    assert "`x.unsqueeze(0)` is a tensor, on the caller's device" in out


def test_why_there_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    assert "no finding: nothing but a parameter says" in said(tmp_path / "a.py", 6, capsys)
    assert "    a finding" in said(tmp_path / "a.py", 11, capsys)
    assert "place-factory: this is on the CPU" in said(tmp_path / "a.py", 10, capsys)
    assert "place-factory: " not in said(tmp_path / "a.py", 6, capsys)
    assert "no value on line 2 is known" in said(tmp_path / "a.py", 2, capsys)


def test_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("def f(:\n")
    assert main(["explain", f"{tmp_path / 'a.py'}:1"]) == 2
    assert "a.py" in capsys.readouterr().err
    assert main(["explain", f"{tmp_path / 'b.py'}:1"]) == 2
