"""`devfix explain FILE:LINE`: the values on a line, and why there is no finding."""

from __future__ import annotations

import json
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
QUIET = """

def tried(x):
    steps = torch.arange(3)
    try:
        return x.to(x.device).unsqueeze(0) + steps
    except RuntimeError:
        return x.cuda() + steps.cuda()
"""


def said(path: Path, line: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["explain", f"{path}:{line}"]) == 0
    return capsys.readouterr().out


def test_values_with_their_histories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    out = said(tmp_path / "a.py", 6, capsys)
    assert "`steps` is a tensor, on the CPU, torch's default" in out
    assert "made (arange): line 5" in out
    assert "`x.unsqueeze(0)` is a tensor, on the device that the caller chooses" in out


def test_why_there_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM + QUIET)
    assert "no finding: the error is expected, or handled" in said(tmp_path / "a.py", 17, capsys)
    assert "no value on line 2 is known" in said(tmp_path / "a.py", 2, capsys)


def test_what_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the operation as well as at what it is given."""
    (tmp_path / "a.py").write_text(PROGRAM + QUIET)
    for line in (10, 11):
        out = said(tmp_path / "a.py", line, capsys)
        assert "\nline 10, place-factory: " in out and "no finding" not in out


def test_a_place_as_check_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(PROGRAM)
    head, tail = PROGRAM.split("\n\n\ndef moved")
    cells = [{"cell_type": "code", "source": text} for text in ("!ls", head, f"def moved{tail}")]
    Path("n.ipynb").write_text(json.dumps({"cells": cells}, indent=1))
    main(["check", "--format", "concise", "--unsafe", "."])
    found = capsys.readouterr().out.splitlines()
    for text, place, made in (
        (found[1], "a.py:10:13", "made (arange): line 10\n"),
        (found[3], "n.ipynb:cell 3:2:13", "made (arange): cell 3, line 2\n"),
    ):
        assert text.startswith(f"{place}: place-factory ")
        assert main(["explain", place]) == 0
        told = capsys.readouterr().out
        assert made in told and text.partition("place-factory ")[2].partition(" [")[0] in told
    for place in ("a.py:0", "a.py:99:1", "n.ipynb:cell 9:1", "n.ipynb:1"):
        assert main(["explain", place]) == 2
        assert "there is no code on line" in capsys.readouterr().err


def test_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("def f(:\n")
    assert main(["explain", f"{tmp_path / 'a.py'}:1"]) == 2
    assert "a.py" in capsys.readouterr().err
    assert main(["explain", f"{tmp_path / 'b.py'}:1"]) == 2


def test_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Branches and assumptions are told in the words of the findings."""
    (tmp_path / "a.py").write_text(
        "import torch\nfrom nets import Net\n\n\ndef run(x, big, device):\n"
        "    net = torch.nn.Linear(2, 2)\n    if big:\n        net = torch.nn.Linear(2, 2, bias=False)\n"
        "    net.to(device)\n    other = Net()\n    other.eval()\n    return other(net(x.to(device)))\n"
    )
    assert "    or made (Linear): line 6" in said(tmp_path / "a.py", 9, capsys)
    out = said(tmp_path / "a.py", 12, capsys)
    assert (
        "`other` on line 12 combines a value from line 10 (on the CPU, torch's default) with another one"
        in out
    )
    assert "    assumed: `other` is what its uses suggest" in out
    assert "`device` is a device, chosen at run time" in out


NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * torch.ones(3)
"""
MAIN = "import torch\nfrom net import Net\n\nif __name__ == '__main__':\n    print(Net()(torch.ones(3)))\n"


def test_what_no_program_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("net.py", NET), ("main.py", MAIN), ("pyproject.toml", "")):
        (tmp_path / name).write_text(text)
    assert "no finding: no program in view gets there" in said(tmp_path / "net.py", 7, capsys)
    (tmp_path / "main.py").write_text(MAIN.replace("Net()(", "Net().cuda()("))
    out = said(tmp_path / "net.py", 7, capsys)
    assert "no finding" not in out and "line 7, place-factory:" in out


CHOSEN = """\
from torch import nn


class Net(nn.Module):
    cuda_is_used = True

    def __init__(self, args):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        if self.cuda_is_used:
            self.inner.cuda()

    def observe(self, x):
        return self.inner(x)
"""
TEST = """\
import torch
from net import Net


class Args:
    pass


def test_shape():
    args = Args()
    {}
    assert Net(args).observe(torch.ones(2, 3)).shape == (2, 3)
"""
CPU = "the program names no accelerator: all of it is on the CPU"


@pytest.mark.parametrize(
    ("file", "switch", "is_on_cpu"),
    [
        ("test_net.py", "args.cuda = False", True),
        ("test_net.py", "args.more = dict(use_cuda=False)", True),
        ("test_net.py", "args.no_cuda = True", True),
        ("test_net.py", "args.device = 'cpu'", False),
        ("test_net.py", "args.width = 3", True),
        ("test_net.py", "args.cuda = True", False),
        ("test_net.py", "args.cuda = False or torch.cuda.is_available()", False),
        ("run_net.py", "args.cuda = False", False),
    ],
)
def test_a_test_that_switches_cuda_off_is_on_the_cpu(
    file: str, switch: str, is_on_cpu: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("net.py", CHOSEN), (file, TEST.format(switch)), ("pyproject.toml", "")):
        (tmp_path / name).write_text(text)
    out = said(tmp_path / file, 12, capsys)
    assert "net.py, line 14 combines a value from line 12 (on the CPU, torch's default)" in out
    assert (f"no finding: {CPU}" in out) is is_on_cpu
