"""Repairs of chosen findings only, and baselines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from devfix.codemod import registry
from devfix.documents.changed_lines import changed_lines
from devfix.documents.git import GitError
from devfix.findings import Safety
from devfix.pipeline import baseline
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.selection import Selection, fingerprints
from devfix.pipeline.writing import write
from devfix.reports.report import Report

LOOP = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
loader = torch.utils.data.DataLoader(torch.zeros(8, 4))
"""
FOR = "for batch in loader:\n    print(model(batch))\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(LOOP + FOR * 3)
    (tmp_path / "b.py").write_text(LOOP + FOR)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def analysed(*, repair: bool = False, selection: Selection | None = None, jobs: int = 1) -> Report:
    codemods = [registry()["move-inputs"]()]
    return run(discover(["."]), codemods, Safety.UNSAFE, repair=repair, selection=selection, jobs=jobs)


def prints(report: Report) -> list[str]:
    return [print_ for _, _, print_ in fingerprints(report)]


@pytest.mark.parametrize("accepted", [(0,), (1,), (2,), (0, 2), (3,), ()])
def test_exactly_these_are_repaired(folder: Path, accepted: tuple[int, ...]) -> None:
    """Three equal findings in one file are told apart by their order."""
    names = prints(analysed())
    assert len(set(names)) == 4
    chosen = Selection(only=frozenset(names[at] for at in accepted))
    report = analysed(repair=True, selection=chosen)
    assert len(report.results[0].findings) == 3
    write(report)
    loops = (folder / "a.py").read_text().removeprefix(LOOP).split("for ")[1:]
    loops += (folder / "b.py").read_text().removeprefix(LOOP).split("for ")[1:]
    assert [at for at, loop in enumerate(loops) if "device" in loop] == list(accepted)


def test_fingerprints_do_not_depend_on_processes(folder: Path) -> None:
    for at in range(60):
        (folder / f"c{at}.py").write_text(LOOP + FOR)
    assert prints(analysed(jobs=1)) == prints(analysed(jobs=2))


def test_baseline(folder: Path) -> None:
    known = baseline.read(baseline.text_of(analysed()))
    (folder / "b.py").write_text("# moved\n" + (folder / "b.py").read_text() + "\n" + FOR)
    report = analysed()
    keep = Selection(but=known)
    new = [
        finding.place.line
        for result in report.results
        for finding, kept in zip(result.findings, keep.keep(result.path, result.findings), strict=True)
        if kept
    ]
    assert new == [11]
    (folder / "a.py").write_text(LOOP + FOR)
    assert len(known - baseline.read(baseline.text_of(analysed()))) == 2


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"devfix-baseline": 2, "findings": []}', '{"devfix-baseline": 1, "findings": [1]}'],
)
def test_no_baseline(text: str) -> None:
    with pytest.raises(baseline.BaselineError):
        baseline.read(text)


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_changed_lines(folder: Path) -> None:
    git("init", "-q")
    (folder / "ö\t.py").write_text("x = 1\ny = 2\n")
    git("add", ".")
    git("commit", "-qm", "one")
    text = (folder / "a.py").read_text().replace(FOR, FOR.replace("print(", "print(1 + "), 1)
    (folder / "a.py").write_text(text)
    (folder / "ö\t.py").write_text("y = 2\n")
    (folder / "new.py").write_text(LOOP + FOR)
    found = changed_lines("HEAD")
    assert found["a.py"] == ((8, 8),)
    assert set(found) == {"a.py", "ö\t.py", "new.py"}
    selection = Selection(lines=found)
    report = analysed(repair=True, selection=selection)
    assert [(result.path, result.applied) for result in report.results] == [
        ("a.py", 1),
        ("b.py", 0),
        ("new.py", 1),
    ]


def test_lines_that_look_like_a_header(folder: Path) -> None:
    git("init", "-q")
    (folder / "sql.py").write_text("one = 1\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (folder / "sql.py").write_text('text = """\n++ b/a.py\n@@ -1 +7,9 @@\n"""\n-- 1\n')
    assert changed_lines("HEAD") == {"sql.py": ((1, 5),)}


def test_changed_lines_below_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are those of the working directory; files with odd endings count where they are named."""
    git("init", "-q")
    (folder / "sub").mkdir()
    for name in ("a.py", "script", "data.txt"):
        (folder / "sub" / name).write_text("x = 1\ny = 2\n")
    git("add", ".")
    git("commit", "-qm", "one")
    for name in ("a.py", "script", "data.txt"):
        (folder / "sub" / name).write_text("x = 1\ny = 3\n")
    (folder / "sub" / "new.py").write_text("z = 1\n")
    git("add", "sub/new.py")
    (folder / "a.py").write_text("changed = 1\n")
    monkeypatch.chdir(folder / "sub")
    assert changed_lines("HEAD", ["./script", "a.py"]) == {
        "a.py": ((2, 2),),
        "script": ((2, 2),),
        "new.py": ((1, 1 << 30),),
    }


def test_line_ends_that_git_converts_are_no_change(folder: Path) -> None:
    git("init", "-q")
    (folder / "crlf.py").write_bytes(b"x = 1\ny = 2\nz = 3\n")
    git("add", ".")
    git("commit", "-qm", "one")
    git("config", "core.autocrlf", "true")
    (folder / "crlf.py").write_bytes(b"x = 1\r\ny = 2\r\nz = 3\r\n")
    assert changed_lines("HEAD") == {}
    (folder / "crlf.py").write_bytes(b"x = 1\r\ny = 0\r\nz = 3\r\n")
    assert changed_lines("HEAD") == {"crlf.py": ((2, 2),)}


@pytest.mark.parametrize("revision", ["nothing", "--output=x", "HEAD;ls", ""])
def test_no_revision(folder: Path, revision: str) -> None:
    git("init", "-q")
    with pytest.raises(GitError):
        changed_lines(revision)
    assert json.dumps([path.name for path in folder.iterdir() if path.name == "x"]) == "[]"
