"""Repairs in several patches and commits, taken by real git."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.codemod import Codemod
from devfix.commands.running import Run
from devfix.findings import Finding, ReplaceExpression, Safety
from devfix.flow import Flow
from devfix.pipeline import series
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.work import Task
from stubs import Rename, names

LOOP = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))


def run() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model.to(device)
    model.head = nn.Linear(4, 2)
    for (x,) in loader:
        print(model(x))


def run_again() -> None:
    model = nn.Linear(4, 2).to(device)
    for (x,) in loader:
        with torch.autocast(device_type=device):
            print(model(x))
"""
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "Ann Ödman")
        monkeypatch.setenv(f"{name}_EMAIL", "ann@example.org")

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "a.py").write_text(LOOP)
    (tmp_path / "dos.py").write_bytes(LOOP.replace("\n", "\r\n").encode())
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "ö.py").write_text(LOOP)
    git("init", "-q")
    git("config", "user.name", "Ann Ödman")
    git("config", "user.email", "ann@example.org")
    git("config", "core.autocrlf", "false")
    git("add", ".")
    git("commit", "-qm", "one")
    return git


def applied(tmp_path: Path, git: Git) -> dict[str, bytes]:
    """What `devfix apply` makes of the files, which are then as they were again."""
    assert main(["apply", "-q", "."]) == 0
    found = {path.name: path.read_bytes() for path in tmp_path.rglob("*.py")}
    git("checkout", "-q", ".")
    return found


def now(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tmp_path.rglob("*.py")}


@pytest.mark.parametrize("by", ["codemod", "file", "fix"])
def test_patches_one_after_the_other(tmp_path: Path, git: Git, by: str) -> None:
    wanted = applied(tmp_path, git)
    assert main(["diff", "-q", "--by", by, "--split", "out/patches", "."]) == 1
    patches = sorted((tmp_path / "out" / "patches").iterdir())
    assert len(patches) == {"codemod": 3, "file": 3, "fix": 12}[by]
    for path in patches:
        git("apply", str(path))
    assert now(tmp_path) == wanted


def test_no_patches_beside_those_of_an_earlier_run(
    tmp_path: Path, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note.patch").write_text("mine")
    assert main(["diff", "-q", "--by", "fix", "--split", "out", "."]) == 1
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert main(["diff", "-q", "--by", "fix", "--split", "out", "."]) == 1
    assert main(["diff", "-q", "--by", "file", "--split", "out", "."]) == 2
    assert "is there already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@dataclass(frozen=True)
class Waits(Codemod):
    """Replace delta, where there is no alpha.

    What it does: for tests.
    """

    id = "waits"
    words = (("delta",),)

    def check(self, flow: Flow) -> Iterator[Finding]:
        ready = not any(names(flow, "alpha"))
        for node in names(flow, "delta"):
            span = flow.source.span(node)
            edits = (ReplaceExpression(span, "epsilon"),) if ready else ()
            yield self.finding(span, "`delta` is old", title="replace it", edits=edits, safety=Safety.SAFE)


def test_what_needs_another_fix_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("delta\nalpha\ndelta\n")
    task = Task((Waits(), Rename()), Safety.SAFE, True)
    report = run(discover(["."]), task.codemods, repair=True, jobs=1)
    assert report.changed[0].after == b"epsilon\nbeta\nepsilon\n"
    *_, last = series.steps(report, task, "fix")
    assert last.report.results[0].after == report.changed[0].after
    monkeypatch.setattr(Run, "steps", lambda _, report, by: list(series.steps(report, task, by)))
    monkeypatch.setattr(Run, "analyse", lambda *_, **__: report)
    for by in ("codemod", "fix"):
        assert main(["diff", "--by", by, "."]) == 1
        said = capsys.readouterr().err
        assert ("devfix: a.py: one by one, not all fixes are made" in said) == (by == "codemod")
        assert f"{'1 fix' if by == 'codemod' else '3 fixes'} in 1 of 1 file to apply" in said


@pytest.mark.parametrize("by", ["codemod", "file", "fix"])
def test_git_am(tmp_path: Path, git: Git, by: str) -> None:
    wanted = applied(tmp_path, git)
    assert main(["diff", "-q", "--format", "mbox", "--by", by, "-o", "series.mbox", "."]) == 1
    git("am", "-q", "series.mbox")
    assert now(tmp_path) == wanted
    log = git("log", "--format=%an|%s|%b", "-1")
    assert log.startswith("Ann Ödman|Fix device placement")
    assert "Fix (safe)" in log
    assert len(git("log", "--format=%h").split()) == 1 + {"codemod": 3, "file": 3, "fix": 12}[by]


def test_line_ends_that_git_converts(tmp_path: Path, git: Git) -> None:
    """As on Windows: CRLF in the folder, LF in the commits."""
    git("config", "core.autocrlf", "true")
    for name in ("a.py", "dos.py"):
        (tmp_path / name).write_bytes(LOOP.replace("\n", "\r\n").encode())
    git("add", "--renormalize", ".")
    git("commit", "-qm", "two")
    wanted = {name: data for name, data in applied(tmp_path, git).items() if name != "ö.py"}
    assert all(data.count(b"\n") == data.count(b"\r\n") for data in wanted.values())
    assert main(["diff", "-q", "--format", "mbox", "-o", "series.mbox", "a.py", "dos.py"]) == 1
    git("am", "-q", "series.mbox")
    assert git("status", "--short", "--untracked-files=no") == ""
    assert {name: (tmp_path / name).read_bytes() for name in wanted} == wanted


def test_the_author_is_one_header(tmp_path: Path, git: Git) -> None:
    """Who the author is may be said by a configuration that came with the repository."""
    git("config", "user.name", "Ann\nX: y\n\n---\ndiff --git a/x b/x")
    git("config", "user.email", "ann@localhost>\n\n---\n\x1b[31m")
    assert main(["diff", "-q", "--format", "mbox", "-o", "one.mbox", "."]) == 1
    head, _, rest = (tmp_path / "one.mbox").read_text().partition("\n\n")
    assert [line.partition(":")[0] for line in head.splitlines()[1:4]] == ["From", "Date", "Subject"]
    assert not rest.startswith(("---", "X:")) and "\x1b" not in head


@pytest.mark.parametrize("epoch", ["0", "x", "1e999", "nan"])
def test_the_date(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert main(["diff", "-q", "--format", "mbox", "-o", "one.mbox", "."]) == 1
    assert (b" 1970 00:00:00" in (tmp_path / "one.mbox").read_bytes()) is (epoch == "0")


def test_one_file(tmp_path: Path, git: Git, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["diff", "-q", "."]) == 1
    printed = capfdbinary.readouterr().out
    assert main(["diff", "-q", "-o", "all.patch", "."]) == 1
    assert (tmp_path / "all.patch").read_bytes() == printed
    assert capfdbinary.readouterr().out == b""
    assert main(["diff", "-q", "-o", "-", "."]) == 1
    assert capfdbinary.readouterr().out == printed and not (tmp_path / "-").exists()
    assert main(["diff", "-q", "-o", "no/such/all.patch", "."]) == 2
    assert main(["diff", "-q", "-o", "x", "--split", "y", "."]) == 2
