"""`--project-root`, `--no-project` and the settings, as a user gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from devfix.cli import main
from repositories import HEADS, training, write

TRAIN = training("from heads import attach_head")


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["check", "--jobs", "1", "--codemod", "reorder-to", *arguments])
    return code, capsys.readouterr().out


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, {"heads.py": HEADS, "a/train.py": TRAIN})


def test_the_root_is_given(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "a/train.py") == (0, "")  # nothing says that the folder above belongs to it
    code, output = check(capsys, "--project-root", ".", "a/train.py")
    assert code == 1 and "a/train.py:9:1: reorder-to" in output
    assert "heads.py:6:18: what `attach_head` attaches is made here" in output
    assert check(capsys, "--project-root", ".", "--no-project", "a/train.py") == (0, "")
    assert check(capsys, "--project-root", "nowhere", "a/train.py")[0] == 2


def test_json_names_the_other_file(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, output = check(capsys, "--project-root", ".", "--format", "json", "a/train.py")
    (finding,) = json.loads(output)["findings"]
    related = [(other["path"], other["line"]) for other in finding["related"]]
    assert related == [("a/train.py", 8), ("heads.py", 6)]


def test_the_root_is_in_the_settings(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repo, {"a/pyproject.toml": '[tool.devfix]\nproject-root = ".."\n'})
    assert check(capsys, "a/train.py")[0] == 2  # out of all that is known to belong together
    (repo / ".git").mkdir()
    assert check(capsys, "a/train.py")[0] == 1
    write(repo, {"a/pyproject.toml": '[tool.devfix]\nproject-root = ".."\nproject = false\n'})
    assert check(capsys, "a/train.py")[0] == 0
    assert check(capsys, "--project", "a/train.py")[0] == 1


def test_stdin_has_a_place_in_the_project(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    from types import SimpleNamespace

    for root, code in (("a", 0), (".", 1)):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TRAIN.encode())))
        given = ("--stdin-filename", "a/new.py", "--project-root", root, "-")
        assert check(capsys, *given)[0] == code


def test_a_repair_sees_the_other_files_in_each_pass(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "--jobs", "1", "--project-root", ".", "a/train.py"]) == 0
    capsys.readouterr()
    text = (repo / "a/train.py").read_text()
    assert text.index("attach_head(model)") < text.index("model.to(device)")
    assert check(capsys, "--project-root", ".", "a/train.py") == (0, "")
