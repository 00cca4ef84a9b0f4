"""`devfix undo` takes back exactly what the last apply wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.documents.journal import KEPT

BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.add_module("head", nn.Linear(4, 2))
print(model(torch.zeros(1, 4, device=device)))
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_bytes(BUG.replace("\n", "\r\n").encode())
    (tmp_path / "sub" / "b.py").write_text(BUG)
    os.chmod(tmp_path / "sub" / "b.py", 0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def apply(*paths: str) -> int:
    return main(["apply", "--exit-code", "--codemod", "reorder-to", *(paths or (".",))])


def test_byte_for_byte(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in repository.rglob("*.py")}
    assert apply() == 1
    assert all(path.read_bytes() != data for path, data in before.items())
    assert main(["undo"]) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert (repository / "sub" / "b.py").stat().st_mode & 0o777 == 0o755
    output = capsys.readouterr()
    assert "a.py: restored\nsub/b.py: restored" in output.out
    assert main(["undo"]) == 0
    assert "nothing to undo" in capsys.readouterr().err


def test_git_does_not_see_the_cache(repository: Path) -> None:
    apply()
    status = subprocess.run(["git", "status", "--short", "-uall"], capture_output=True, text=True, check=True)
    assert ".devfix_cache" not in status.stdout


def test_changed_since(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply()
    mine = (repository / "a.py").read_bytes() + b"# mine\n"
    (repository / "a.py").write_bytes(mine)
    assert main(["undo"]) == 2
    assert (repository / "a.py").read_bytes() == mine
    assert (repository / "sub" / "b.py").read_text() == BUG
    assert "a.py: changed since the apply" in capsys.readouterr().err
    # It is not forgotten: once the file is as the apply left it, undo works.
    (repository / "a.py").write_bytes(mine.removesuffix(b"# mine\n"))
    assert main(["undo"]) == 0
    assert (repository / "a.py").read_bytes() == BUG.replace("\n", "\r\n").encode()


def test_one_apply_after_the_other(repository: Path) -> None:
    apply("a.py")
    apply("sub")
    assert main(["undo"]) == 0
    assert (repository / "sub" / "b.py").read_text() == BUG
    assert (repository / "a.py").read_bytes() != BUG.replace("\n", "\r\n").encode()
    assert main(["undo"]) == 0
    assert (repository / "a.py").read_bytes() == BUG.replace("\n", "\r\n").encode()


def test_from_a_folder_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply()
    monkeypatch.chdir(repository / "sub")
    assert main(["undo"]) == 0
    assert (repository / "sub" / "b.py").read_text() == BUG


def test_an_apply_that_was_killed(repository: Path) -> None:
    """What had not been written yet is as it was, and the rest is restored."""
    apply()
    (repository / "a.py").write_bytes(BUG.replace("\n", "\r\n").encode())
    assert main(["undo"]) == 0
    assert (repository / "sub" / "b.py").read_text() == BUG


def test_damaged(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply()
    (manifest,) = repository.glob(".devfix_cache/journal/*/manifest.json")
    first = json.loads(manifest.read_text())["files"][0]
    (manifest.parent / first["before"]).write_text("something else")
    written = Path(first["path"]).read_bytes()
    assert main(["undo"]) == 2
    assert Path(first["path"]).read_bytes() == written
    assert "copy of it is damaged" in capsys.readouterr().err
    manifest.write_text("{")
    assert main(["undo"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_without_a_journal_apply_still_works(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / ".devfix_cache").write_text("in the way")
    assert apply() == 2
    assert "cannot be undone" in capsys.readouterr().err
    assert (repository / "sub" / "b.py").read_text() != BUG


def test_outside_of_the_repository(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file elsewhere is kept in, and restored from, the cache folder of its own repository."""
    (repository / ".git").rename(repository / "sub" / ".git")
    there = repository / "sub" / "b.py"
    os.chdir(repository / "sub")
    written = there.read_bytes()
    os.mkdir(repository / "other")
    subprocess.run(["git", "init", "-q", str(repository / "other")], check=True)
    os.chdir(repository / "other")
    assert apply("../sub/b.py") == 1
    assert main(["undo"]) == 0
    os.chdir(repository / "sub")
    assert main(["undo"]) == 0
    assert there.read_bytes() == written


def test_a_journal_that_reaches_out(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It came with somebody's repository: nothing outside of that is written."""
    mine = tmp_path_factory.mktemp("home") / "mine.py"
    mine.write_text("print()\n")
    inside = repository / "link.py"
    inside.symlink_to(mine)
    apply()
    (manifest,) = repository.glob(".devfix_cache/journal/*/manifest.json")
    for path in (str(mine), str(inside), f"{repository}/../{mine.parent.name}/mine.py"):
        found = json.loads(manifest.read_text())
        found["files"] = [{**found["files"][0], "path": path, "after": sha256(mine.read_bytes()).hexdigest()}]
        manifest.write_text(json.dumps(found))
        assert main(["undo"]) == 2
        assert mine.read_text() == "print()\n"
    found["files"][0]["before"] = "../../../a.py"
    manifest.write_text(json.dumps(found))
    assert main(["undo"]) == 2


def test_links_are_not_followed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither a linked folder of journals nor a linked journal is read, emptied or written to."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for number in range(KEPT + 3):
        (elsewhere / f"20200101-000000-{number:03}").mkdir()
    apply("sub")
    journals = repository / ".devfix_cache" / "journal"
    assert journals.stat().st_mode & 0o077 == 0
    (journals / "20990101-000000-000").symlink_to(elsewhere)
    assert main(["undo"]) == 0
    shutil.rmtree(journals)
    journals.symlink_to(elsewhere)
    assert apply() == 2
    assert len(list(elsewhere.iterdir())) == KEPT + 3


def test_old_journals_go(repository: Path) -> None:
    for _ in range(KEPT + 3):
        (repository / "a.py").write_text(BUG)
        apply("a.py")
    assert len(list((repository / ".devfix_cache" / "journal").iterdir())) == KEPT


def test_nothing_changed_nothing_kept(repository: Path) -> None:
    (repository / "a.py").unlink()
    (repository / "sub" / "b.py").write_text("import torch\n")
    assert apply() == 0
    assert not (repository / ".devfix_cache").exists()
