"""Decisions from the review page: exactly those are made, and none in a file that changed since."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.codemod import registry
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.selection import fingerprints

LOOP = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))
model = nn.Linear(4, 2).to(device)
for (x,) in loader:
    print(model(x))
for (y,) in loader:
    print(model(y))
"""

COMPARED = """\
import torch
x = torch.zeros(2)
print(1 if x.device == "cpu" else 0)
print(2 if x.device == "cuda" else 0)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(LOOP)
    (tmp_path / "b.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def decide(folder: Path, *accepted: int) -> None:
    report = run(discover(["."]), [registry()["move-inputs"]()], repair=False, jobs=1)
    names = [name for _, _, name in fingerprints(report)]
    assert len(names) == 4
    files = {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in ("a.py", "b.py")}
    decisions = {"devfix-decisions": 1, "files": files, "accepted": [names[at] for at in accepted]}
    (folder / "decisions.json").write_text(json.dumps(decisions))


def made(folder: Path) -> list[str]:
    return [
        f"{name}.{variable}"
        for name in ("a", "b")
        for variable in ("x", "y")
        if f"{variable} = {variable}.to(device)" in (folder / f"{name}.py").read_text()
    ]


def test_exactly_those(folder: Path) -> None:
    decide(folder, 1, 2)
    assert main(["apply", "--decisions", "decisions.json", "."]) == 0
    assert made(folder) == ["a.y", "b.x"]
    decide_none = {"devfix-decisions": 1, "files": {}, "accepted": []}
    (folder / "decisions.json").write_text(json.dumps(decide_none))
    assert main(["apply", "--decisions", "decisions.json", "."]) == 0


def test_changed_since(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide(folder, 0, 3)
    (folder / "a.py").write_text(LOOP + "# mine\n")
    assert main(["apply", "--decisions", "decisions.json", "."]) == 2
    assert made(folder) == ["b.y"]
    assert (folder / "a.py").read_text() == LOOP + "# mine\n"
    assert "a.py: changed since it was reviewed" in capsys.readouterr().err


def test_what_is_not_found(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because it is made already, or because paths are others from another folder, where no repository is."""
    decide(folder, 1, 2)
    (folder / "sub").mkdir()
    with monkeypatch.context() as there:
        there.chdir(folder / "sub")
        assert main(["apply", "--decisions", "../decisions.json", ".."]) == 2
    assert "../decisions.json: 2 accepted fixes not found" in capsys.readouterr().err
    assert made(folder) == []
    for code in (0, 2):
        assert main(["apply", "--decisions", "decisions.json", "."]) == code
        assert made(folder) == ["a.y", "b.x"]


def test_from_another_folder_of_the_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").mkdir()
    decide(folder, 1, 2)
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert main(["apply", "--decisions", "../decisions.json", ".."]) == 0
    assert made(folder) == ["a.y", "b.x"]


def test_what_is_accepted_is_made_though_it_is_unsafe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text(COMPARED)
    (folder / "b.py").write_text("")
    report = run(discover(["."]), [registry()["device-comparison"]()], repair=False, jobs=1)
    first, _ = [name for _, _, name in fingerprints(report)]
    files = {"a.py": hashlib.sha256(COMPARED.encode()).hexdigest()}
    text = json.dumps({"devfix-decisions": 1, "files": files, "accepted": [first]})
    (folder / "decisions.json").write_text(text)
    assert main(["apply", "--safe", "--decisions", "decisions.json", "."]) == 2
    assert "leave out --safe" in capsys.readouterr().err and (folder / "a.py").read_text() == COMPARED
    assert main(["apply", "--decisions", "decisions.json", "."]) == 0
    after = (folder / "a.py").read_text().splitlines()
    assert after[2] != COMPARED.splitlines()[2] and after[3] == COMPARED.splitlines()[3]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"devfix-decisions": 2}', '{"devfix-decisions": 1, "accepted": 3}']
)
def test_no_decisions(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "decisions.json").write_text(text)
    assert main(["apply", "--decisions", "decisions.json", "."]) == 2
    assert "decisions.json: has " in capsys.readouterr().err
    assert made(folder) == []


def test_not_both_asked_and_answered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide(folder, 1)
    assert main(["apply", "--interactive", "--decisions", "decisions.json", "."]) == 2
    assert "cannot be combined" in capsys.readouterr().err
    assert made(folder) == []
