"""Fixes that span files: worked out together, shown together, written together or not at all."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from devfix.codemod import Codemod, Example
from devfix.commands.review import Review
from devfix.documents import DocumentError, document_of, read_bytes, replace_files
from devfix.findings import Elsewhere, EnsureImport, Finding, ReplaceExpression, Safety, Span
from devfix.flow import Flow
from devfix.pipeline import joint, series
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import as_it_will_be, run
from devfix.pipeline.selection import prints
from devfix.pipeline.work import Task
from devfix.pipeline.writing import write
from devfix.reports.report import Report
from devfix.review.patch import patch


@dataclass(frozen=True)
class Shared(Codemod):
    """`here = old` becomes `here = new`, and so does `there = old` in the file beside it.

    With `made` a third file is made that both import.
    """

    id: ClassVar[str] = "shared"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("here",),)
    examples: ClassVar[tuple[Example, ...]] = ()
    made: bool = False

    def check(self, flow: Flow) -> Iterator[Finding]:
        for name, value in _assigned(flow.source.text, "here"):
            other = Path("there.py")
            text = other.read_bytes().decode()
            edits = tuple(ReplaceExpression(_span(text, node), "new") for _, node in _assigned(text, "there"))
            parts = [Elsewhere("there.py", edits, hashlib.sha256(other.read_bytes()).hexdigest())]
            mine = (ReplaceExpression(flow.source.span(value), "new"),)
            if self.made:
                parts.append(Elsewhere("made.py", new="new = 1\n"))
                mine = (*mine, EnsureImport("made", "new"))
            found = self.finding(flow.source.span(name), "old", title="make it new", edits=mine)
            assert found.fix is not None
            yield Finding(
                found.codemod, found.span, found.message, joint.replace(found.fix, elsewhere=tuple(parts))
            )


def _assigned(text: str, name: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == name and isinstance(node.value, ast.Name) and node.value.id == "old":
                yield node.targets[0], node.value


def _span(text: str, node: ast.expr) -> Span:
    from devfix.text.source import Source

    return Source(text).span(node)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("# mine\nhere = old  # kept\n")
    (tmp_path / "there.py").write_bytes(b"x = 1\r\nthere = old\r\n")
    return tmp_path


def applied(codemod: Codemod, **kinds: object) -> Report:
    return run(discover(["."]), [codemod], Safety.SAFE, jobs=1, **kinds)  # type: ignore[arg-type]


def test_both_files_or_none(pair: Path) -> None:
    report = applied(Shared())
    assert [(result.path, result.changed) for result in report.results] == [
        ("a.py", True),
        ("there.py", True),
    ]
    done = write(report)
    assert (pair / "a.py").read_text() == "# mine\nhere = new  # kept\n"
    assert (pair / "there.py").read_bytes() == b"x = 1\r\nthere = new\r\n"
    assert done.applied == 1  # one fix, though two files changed
    assert applied(Shared()).changed == ()


def test_shown_as_one_fix(pair: Path) -> None:
    from devfix.review.json import document
    from devfix.review.text import findings

    report = applied(Shared())
    (finding,) = document(report)["findings"]
    assert [edit.get("path") for edit in finding["fix"]["edits"]] == [None, "there.py"]
    assert finding["fix"]["edits"][1]["line"] == 2
    lines = list(findings("a.py", report.results[0].findings, level=Safety.SAFE))
    assert "together with there.py" in lines[-1]
    assert json.dumps(document(report))


def test_a_new_file(pair: Path) -> None:
    report = applied(Shared(made=True))
    text = patch(report, explain=True).decode()
    assert "new file mode 100644\n--- /dev/null\n+++ b/made.py" in text
    assert "(together with a.py" in text
    write(report)
    assert (pair / "made.py").read_text() == "new = 1\n"
    assert (pair / "made.py").stat().st_mode & 0o600 == 0o600
    assert "from made import new" in (pair / "a.py").read_text()


@pytest.mark.parametrize("explain", [False, True])
def test_git_takes_the_patch(pair: Path, explain: bool) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    report = applied(Shared(made=True))
    subprocess.run(["git", "apply", "-"], input=patch(report, explain=explain), check=True)
    assert (pair / "made.py").read_text() == "new = 1\n"
    assert (pair / "there.py").read_bytes() == b"x = 1\r\nthere = new\r\n"


def test_two_findings_share_a_new_file(pair: Path) -> None:
    (pair / "b.py").write_text("here = old\n")
    done = write(applied(Shared(made=True)))
    assert sorted(done.written) == ["a.py", "b.py", "made.py", "there.py"]
    # The second fix wants the same in there.py; both count.
    assert done.applied == 2


@dataclass(frozen=True)
class Beside(Codemod):
    """`here = old` is a finding as long as `there = old` stands in the file beside it, and has no repair."""

    id: ClassVar[str] = "elsewhere"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("old",),)
    examples: ClassVar[tuple[Example, ...]] = ()

    def check(self, flow: Flow) -> Iterator[Finding]:
        other = document_of("there.py", read_bytes("there.py")).text
        for name, _ in _assigned(flow.source.text, "here") if list(_assigned(other, "there")) else ():
            yield Finding(self.id, flow.source.span(name), "wrong while the other is")
        for name, value in _assigned(flow.source.text, "there"):
            edit = ReplaceExpression(flow.source.span(value), "new")
            yield self.finding(flow.source.span(name), "old", title="make it new", edits=(edit,))


def test_what_is_left_is_what_the_next_run_finds(pair: Path) -> None:
    """A finding that goes with the repair of another file is left by no report."""
    report = applied(Beside())
    after = as_it_will_be(report, [Beside()], None)
    assert [(one.path, len(one.findings), len(one.remaining), one.changed) for one in after.results] == [
        ("a.py", 1, 0, False),
        ("there.py", 1, 0, True),
    ]
    write(after)
    assert applied(Beside()).findings == 0


def test_what_may_not_change_keeps_the_whole_fix_back(pair: Path) -> None:
    report = applied(Shared(), may_change=lambda path: path != "there.py")
    assert report.changed == ()
    assert len(report.results[0].findings) == 1


def test_a_file_that_is_there_already_is_not_overwritten(pair: Path) -> None:
    (pair / "made.py").write_text("mine = 1\n")
    report = applied(Shared(made=True))
    assert report.changed == ()
    assert "is there already" in report.results[0].findings[0].refusal


def test_a_half_that_cannot_be_rewritten_keeps_the_other_back(pair: Path) -> None:
    (pair / "there.py").write_text("there = old\nif\n")
    with pytest.raises(SyntaxError):
        list(_assigned((pair / "there.py").read_text(), "there"))
    report = applied(Shared())
    assert report.changed == () and report.errors


def test_nothing_is_written_if_one_file_changed(pair: Path) -> None:
    report = applied(Shared())
    (pair / "there.py").write_text("there = mine\n")
    done = write(report)
    assert done.written == ()
    assert (pair / "a.py").read_text() == "# mine\nhere = old  # kept\n"
    assert [(error.path, "changed since" in error.message) for error in done.errors] == [
        ("a.py", False),
        ("there.py", True),
    ]


def test_what_was_put_is_put_back(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second rename fails: the first file gets its bytes back."""
    real, calls = os.replace, []

    def fails_once(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", fails_once)
    one, two = (pair / "a.py").read_bytes(), (pair / "there.py").read_bytes()
    files = [
        ("a.py", hashlib.sha256(one).hexdigest(), b"a = 1\n"),
        ("there.py", hashlib.sha256(two).hexdigest(), b"b = 1\n"),
    ]
    with pytest.raises(DocumentError, match="No space left"):
        replace_files(files)
    assert (pair / "a.py").read_bytes() == one
    assert (pair / "there.py").read_bytes() == two
    assert sorted(os.listdir(pair)) == ["a.py", "there.py"]


def test_step_by_step_what_is_excluded_stays(pair: Path) -> None:
    """Several patches and an interactive review are as strict as one diff is."""
    report = applied(Shared())
    task = Task((Shared(),), Safety.SAFE, True)
    for by in ("codemod", "fix"):
        assert len(list(series.steps(report, task, by))) == 1
        assert not list(series.steps(report, task, by, lambda path: path != "there.py"))
    for allowed, answered in ((True, 1), (False, 0)):
        review = Review(report, task, "", False, lambda path, allowed=allowed: allowed)
        (name,) = prints("a.py", report.results[0].findings)
        alone = review._alone(name, "a.py")
        assert len(alone.changed) == 2 * answered
