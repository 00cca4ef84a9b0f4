"""Adopting devfix step by step: baselines, and only what changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.pipeline import discover, writing

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
    assert capsys.readouterr().err.startswith("1 finding left out: in the baseline\n")
    (folder / "a.py").write_text("# moved\n\n" + BUG)
    assert check("--baseline", "known.json") == 0
    (folder / "b.py").write_text(BUG)
    capsys.readouterr()
    assert check("--baseline", "known.json") == 1
    output = capsys.readouterr().out
    assert "b.py:" in output and "a.py:" not in output


def test_a_baseline_holds_in_all_folders_of_its_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".git").mkdir()
    (folder / "sub").mkdir()
    (folder / "sub/b.py").write_text(BUG)
    assert check("--write-baseline", "known.json") == 0
    monkeypatch.chdir(folder / "sub")
    assert check("--baseline", "../known.json") == 0
    assert check("--write-baseline", "../sub.json") == 0
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert check("--baseline", "sub.json", "--format", "gitlab") == 1
    assert [one["location"]["path"] for one in json.loads(capsys.readouterr().out)] == ["a.py"]
    monkeypatch.chdir(folder / "sub")
    assert check("--format", "gitlab") == 1
    assert [one["location"]["path"] for one in json.loads(capsys.readouterr().out)] == ["sub/b.py"]


def test_no_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--baseline", "gone.json") == 2
    assert "gone.json: no such file" in capsys.readouterr().err
    (folder / "a.json").write_text("{}")
    assert check("--baseline", "a.json") == 2
    assert "is not a baseline" in capsys.readouterr().err
    assert check("--write-baseline", "nowhere/known.json") == 2


def test_only_what_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    assert check("--diff-only", "HEAD") == 0
    (folder / "b.py").write_text(BUG)
    assert check("--write-baseline", "known.json") == 0
    (folder / "b.py").unlink()
    (folder / "c.py").write_text(BUG)
    git("add", "c.py")
    git("commit", "-qm", "two")
    capsys.readouterr()
    (folder / "lib" / ".git").mkdir(parents=True)
    (folder / "lib" / "d.py").write_text(BUG)
    assert check("--diff-only", "HEAD", "--baseline", "known.json") == 0
    said = "1 finding left out: not in the repository below this folder\n"
    assert said in capsys.readouterr().err
    shutil.rmtree(folder / "lib")
    assert check("--diff-only", "HEAD", "--baseline", "known.json") == 0
    said = "1 finding left out: in the baseline\n1 finding left out: not on changed lines\n"
    assert capsys.readouterr().err.startswith(said)
    (folder / "c.py").unlink()
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


def test_what_others_have_changed_since(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--diff-only main` is about the branch, also where main has gone on."""

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init", "-qb", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "branch")
    (folder / "b.py").write_text(BUG)
    git("add", ".")
    git("commit", "-qm", "two")
    git("checkout", "-q", "main")
    (folder / "a.py").write_text(BUG.replace("4, 2)", "4, 3)"))
    git("commit", "-qam", "three")
    git("checkout", "-q", "branch")
    assert check("--diff-only", "main") == 1
    output = capsys.readouterr()
    assert "b.py:" in output.out and "a.py:" not in output.out
    assert "1 finding left out: not on changed lines" in output.err
    git("checkout", "-q", "--orphan", "other")
    assert check("--diff-only", "main") == 1


MULTILINE = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.head = nn.Linear(
    4,
    2,
)  # the head
print(model(torch.zeros(1, 4, device=device)), \'\'\'
text\'\'\')
"""


@pytest.mark.parametrize("text", [BUG, MULTILINE, BUG.replace("\n", "\r\n"), BUG.rstrip("\n")])
def test_add_ignores(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_bytes(text.encode())
    assert check("--add-ignores") == 0
    after = (folder / "a.py").read_bytes().decode()
    assert after.count("# devfix: ignore[reorder-to]") == 1
    assert after.replace("  # devfix: ignore[reorder-to]", "") == text
    assert check() == 0
    assert check("--add-ignores") == 0
    assert main(["undo"]) == 0
    assert (folder / "a.py").read_bytes().decode() == text


def test_add_ignores_of_what_is_new(folder: Path) -> None:
    assert check("--write-baseline", "known.json") == 0
    (folder / "a.py").write_text(BUG + "model.tail = nn.Linear(2, 2)\nmodel(torch.zeros(2, device=device))\n")
    assert check("--baseline", "known.json", "--add-ignores") == 0
    assert (folder / "a.py").read_text().count("# devfix:") == 1
    assert check("--baseline", "known.json") == 0 and check() == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--add-ignores", "--write-baseline", "out"],
        ["--diff-only", "HEAD", "--write-baseline", "out"],
        ["--statistics", "--write-baseline", "out"],
        ["--format", "json", "--add-ignores"],
        ["--format", "json", "--statistics"],
    ],
)
def test_only_one_of_them_comes_out(
    folder: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*options) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and options[-2 if "out" in options else 0] in said.err
    assert [path.name for path in folder.iterdir()] == ["a.py"] and (folder / "a.py").read_text() == BUG


def test_a_baseline_on_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--write-baseline", "-", "-q") == 0
    said = capsys.readouterr()
    (folder / "known.json").write_text(said.out)
    assert not said.err and check("--baseline", "known.json") == 0


def test_add_ignores_that_is_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "replace_files", interrupted)
    assert check("--add-ignores") == 130
    assert (
        capsys.readouterr().err == "0 files written\ndevfix: interrupted; the others were left as they are\n"
    )
    monkeypatch.setattr(discover, "discover", interrupted)
    assert check() == 130
    assert capsys.readouterr().err.lstrip("\n") == "devfix: interrupted\n"


def test_add_ignores_of_what_has_some(folder: Path) -> None:
    text = BUG.replace("4, 2)", "4, 2)  # devfix: ignore[move-inputs]")
    (folder / "a.py").write_text(text)
    assert check("--add-ignores") == 0
    assert "# devfix: ignore[move-inputs]  # devfix: ignore[reorder-to]\n" in (folder / "a.py").read_text()
    assert check() == 0


def test_unused_suppressions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = BUG.replace("4, 2)", "4, 2)  # devfix: ignore[reorder-to, normalize-device-type, reorder-two]")
    (folder / "a.py").write_text("x = 1  # devfix: ignore\n" + text)
    (folder / "b.py").write_text("x = 1  # devfix: ignore[reorder-to]\n'# devfix: ignore'\n")
    assert main(["check", "--codemod", "reorder-to", "--codemod", "normalize-device-type", "."]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "# devfix:" in line]
    assert said == [
        "devfix: a.py:1: `# devfix: ignore` silences nothing; remove it",
        "devfix: a.py:8: `# devfix: ignore[normalize-device-type]` silences nothing; remove it",
        "devfix: a.py:8: `# devfix: ignore[reorder-two]` names no codemod; did you mean 'reorder-to'?",
        "devfix: b.py:1: `# devfix: ignore[reorder-to]` silences nothing; remove it",
    ]
