"""`devfix undo` takes back exactly what the last apply wrote."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.documents import journal, state
from devfix.documents.journal import KEPT
from devfix.documents.replace import replace_files
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.writing import write
from devfix.rules.reorder_to import ReorderTo

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
    return main(["apply", "--codemod", "reorder-to", *(paths or (".",))])


def test_byte_for_byte(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in repository.rglob("*.py")}
    assert apply() == 0
    assert all(path.read_bytes() != data for path, data in before.items())
    assert main(["undo"]) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert (repository / "sub" / "b.py").stat().st_mode & 0o777 == 0o755
    output = capsys.readouterr()
    assert "a.py: restored\nsub/b.py: restored" in output.out
    assert main(["undo"]) == 0
    assert "nothing to undo" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_undo_that_is_interrupted(
    number: signal.Signals,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {path: path.read_bytes() for path in repository.rglob("*.py")}
    assert apply() == 0

    def interrupted(files: Any) -> None:
        replace_files(files)
        os.kill(os.getpid(), number)

    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(journal, "replace_files", interrupted)
        assert main(["undo"]) == 128 + number
    output = capsys.readouterr()
    assert output.out == "a.py: restored\n"
    assert "interrupted; 1 file restored" in output.err
    assert main(["undo"]) == 0
    assert capsys.readouterr().out == "sub/b.py: restored\n"
    assert {path: path.read_bytes() for path in before} == before


def journals(tree: Path) -> Path:
    return Path(state.place(str(tree)), "journals")


def test_nothing_is_kept_in_the_tree(repository: Path) -> None:
    before = {*repository.rglob("*")}
    apply()
    assert {*repository.rglob("*")} == before
    kept = journals(repository)
    assert not any(path.stat().st_mode & 0o077 for path in (kept, kept.parent, *kept.iterdir()))


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
    (manifest,) = journals(repository).glob("*/manifest.json")
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
    kept = journals(repository).parent
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("in the way")
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
    assert apply("../sub/b.py") == 0
    assert main(["undo"]) == 0
    os.chdir(repository / "sub")
    assert main(["undo"]) == 0
    assert there.read_bytes() == written


def test_a_journal_restores_its_own_tree_only(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a journal says: nothing outside of its tree, behind a link or of git's own is written."""
    mine = tmp_path_factory.mktemp("home") / "mine.py"
    mine.write_text("print()\n")
    inside = repository / "link.py"
    inside.symlink_to(mine)
    gits = repository / ".git" / "config"
    deep = repository / "sub" / ".GIT" / "hooks" / "x"
    deep.parent.mkdir(parents=True)
    for path in (gits, deep):
        path.write_text("print()\n")
    apply()
    (manifest,) = journals(repository).glob("*/manifest.json")
    outside = f"{repository}/../{mine.parent.name}/mine.py"
    for path in (str(mine), str(inside), outside, str(gits), str(deep)):
        found = json.loads(manifest.read_text())
        found["files"] = [{**found["files"][0], "path": path, "after": sha256(mine.read_bytes()).hexdigest()}]
        manifest.write_text(json.dumps(found))
        assert main(["undo"]) == 2
        assert mine.read_text() == gits.read_text() == deep.read_text() == "print()\n"
    found["files"][0]["before"] = "../../../a.py"
    manifest.write_text(json.dumps(found))
    assert main(["undo"]) == 2


def test_another_tree_in_the_same_place(repository: Path, tmp_path: Path) -> None:
    """What was done to the tree that was there is not undone in the one that took its place."""
    apply()
    written = (repository / "sub" / "b.py").read_text()
    repository.rename(tmp_path.with_name("gone"))
    shutil.copytree(tmp_path.with_name("gone"), tmp_path)
    os.chdir(tmp_path)
    assert main(["undo"]) == 0
    assert (tmp_path / "sub" / "b.py").read_text() == written
    shutil.rmtree(tmp_path.with_name("gone"))


def test_a_journal_is_the_users_alone(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What others may write to is not read, nor what is another user's."""
    apply()
    kept = journals(repository).parent
    written = (repository / "sub" / "b.py").read_text()
    kept.chmod(0o777)
    assert main(["undo"]) == 0
    (repository / "a.py").write_text(BUG)
    assert apply("a.py") == 2
    assert "is not yours alone" in capsys.readouterr().err
    kept.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(kept, 65534, 65534)
        assert main(["undo"]) == 0
        os.chown(kept, 0, 0)
    elsewhere = kept.with_name("elsewhere")
    kept.rename(elsewhere)
    kept.symlink_to(elsewhere)
    assert main(["undo"]) == 0
    assert (repository / "sub" / "b.py").read_text() == written
    kept.unlink()
    elsewhere.rename(kept)
    (repository / "a.py").unlink()
    assert main(["undo"]) == 2
    assert (repository / "sub" / "b.py").read_text() == BUG


@pytest.mark.parametrize("where", ["", "state", "{tree}/state", "{tree}/a.py/state"])
def test_no_place_for_journals(
    where: str, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A relative path would be in the repository, and what is in the repository may have come with it."""
    monkeypatch.setenv("XDG_STATE_HOME", where.format(tree=repository))
    monkeypatch.setenv("HOME", str(repository / "sub"))
    before = {*repository.rglob("*")}
    assert apply() == 2
    assert "no journal can be kept" in capsys.readouterr().err
    assert {*repository.rglob("*")} == before
    assert (repository / "sub" / "b.py").read_text() != BUG
    assert main(["undo"]) == 0


def test_a_home_folder_that_is_no_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who works in the home folder itself has the journals below it."""
    shutil.rmtree(repository / ".git")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(repository))
    assert apply("a.py") == 0
    assert main(["undo"]) == 0


def test_old_journals_go(repository: Path) -> None:
    for _ in range(KEPT + 3):
        (repository / "a.py").write_text(BUG)
        apply("a.py")
    assert len(list(journals(repository).iterdir())) == KEPT


def test_journals_are_in_the_order_of_their_making(repository: Path) -> None:
    """Not in that of the clock: what is older by it, or by the name of a folder, is not the one to go."""
    top = journals(repository)
    for number in range(KEPT + 3):
        (top / f"{number + 10_000_000:06}-99991231-235959").mkdir(parents=True)
        (top / f"99991231-235959-{number:03}").mkdir()
    for folder in (top, *top.parents[:3]):
        folder.chmod(0o700)
    assert apply() == 0
    assert (repository / "sub" / "b.py").read_text() != BUG
    assert main(["undo"]) == 0
    assert (repository / "sub" / "b.py").read_text() == BUG


def test_trees_that_are_gone_are_forgotten(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = []
    for days in (0, 40):
        gone = tmp_path_factory.mktemp("gone")
        (gone / "a.py").write_text(BUG)
        apply(str(gone / "a.py"))
        kept.append(journals(gone).parent)
        shutil.rmtree(gone)
        then = kept[-1].stat().st_mtime - days * 86_400
        os.utime(kept[-1], (then, then))
    apply("a.py")
    os.utime(journals(repository).parent, (0, 0))
    other = tmp_path_factory.mktemp("other")
    (other / "a.py").write_text(BUG)
    apply(str(other / "a.py"))
    assert [path.exists() for path in kept] == [True, False]
    assert journals(repository).is_dir()


def test_nothing_changed_nothing_kept(repository: Path) -> None:
    (repository / "a.py").unlink()
    (repository / "sub" / "b.py").write_text("import torch\n")
    assert apply() == 0
    assert not journals(repository).exists()


# --- what it says is what it did ----------------------------------------------------------------------


def test_nothing_written_nothing_to_undo(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk, for example."""
    from devfix.documents import replace

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(replace, "write_beside", full)
        assert apply() == 2
    assert not list(journals(repository).iterdir())
    capsys.readouterr()
    assert main(["undo"]) == 0
    said = capsys.readouterr()
    assert "nothing to undo" in said.err and "restored" not in said.err + said.out


def test_what_was_not_written_is_not_restored(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither counted, nor touched should it come to look as if that run had written it."""
    report = run(discover(["."]), [ReorderTo()], jobs=1)
    as_it_would_be = {result.path: result.after for result in report.changed}
    (repository / "a.py").write_text("mine = 1\n")
    done = write(report, str(repository))
    assert done.written == ("sub/b.py",) and [error.path for error in done.errors] == ["a.py"]
    (repository / "a.py").write_bytes(as_it_would_be["a.py"])
    assert main(["undo"]) == 0
    assert "1 file of the apply" in capsys.readouterr().err
    assert (repository / "a.py").read_bytes() == as_it_would_be["a.py"]
    assert (repository / "sub" / "b.py").read_text() == BUG


def test_hard_links_stay_apart(repository: Path) -> None:
    """The other names keep the old text all the time, and what is restored is a file of its own."""
    other = repository / "other.txt"
    os.link(repository / "sub" / "b.py", other)
    assert apply() == 0
    assert other.read_text() == BUG != (repository / "sub" / "b.py").read_text()
    assert main(["undo"]) == 0
    assert other.read_text() == BUG == (repository / "sub" / "b.py").read_text()
    assert other.stat().st_nlink == (repository / "sub" / "b.py").stat().st_nlink == 1


# --- names that lead out ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["l.py", "./sub/../l.py", "d/v.py", "d", "sub/../d/", "{tree}/l.py", "{other}/l.py"]
)
def test_a_link_out_of_the_tree_is_not_written_through(
    name: str,
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may come from anybody, and a shell's `*.py` names it, too. (The user can name the file itself.)"""
    out, other = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("other")
    (out / "v.py").write_text(BUG)
    for folder in (repository, other):
        (folder / "l.py").symlink_to(out / "v.py")
    (repository / "d").symlink_to(out)
    assert main(["check", "-q", name.format(tree=repository, other=other)]) == 1
    assert apply(name.format(tree=repository, other=other), "a.py") == 2
    assert f"a link leads from it to {out}/v.py" in capsys.readouterr().err
    assert (out / "v.py").read_text() == BUG
    assert (repository / "a.py").read_bytes() != BUG.replace("\n", "\r\n").encode()
    assert main(["undo"]) == 0
    assert apply(str(out / "v.py")) == 0
    os.chdir(out)
    assert main(["undo"]) == 0
    assert (out / "v.py").read_text() == BUG


def test_a_link_inside_the_tree_is_written_through(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repository / "l.py").symlink_to("sub/b.py")
    assert apply("l.py") == 0
    assert (repository / "l.py").is_symlink() and (repository / "sub" / "b.py").read_text() != BUG
    assert main(["undo"]) == 0
    behind = tmp_path_factory.mktemp("behind") / "tree"
    behind.symlink_to(repository)  # the whole of it may be behind one
    assert apply(f"{behind}/a.py") == 0
    assert main(["undo"]) == 0
