from __future__ import annotations

import gc
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from devfix.codemod import Codemod
from devfix.documents import Document
from devfix.findings import Safety
from devfix.pipeline import parallel, runner, writing
from devfix.pipeline.discover import Discovered, discover
from devfix.pipeline.runner import process, run
from devfix.pipeline.work import Task
from devfix.reports.report import FileResult
from stubs import Flip, Grow, Insert, Rename, Trouble


def of(
    text: str, codemods: Sequence[Codemod], level: Safety = Safety.SAFE, repair: bool = True
) -> FileResult:
    return process(Document.of("x.py", text.encode()), codemods, level, repair=repair)


def test_findings_and_repair() -> None:
    result = of("x = 1\né = alpha + alpha\n", [Rename()])
    assert result.error is None
    first, second = result.findings
    assert (first.place.line, first.place.column, first.place.end_column) == (2, 5, 10)
    assert first.fix is not None
    assert first.fix.edits[0].text == "beta"
    assert second.place.column == 13
    assert result.after.decode() == "x = 1\né = beta + beta\n"
    assert result.applied == 2
    assert result.remaining == ()


def test_check_does_not_repair() -> None:
    result = of("alpha\n", [Rename()], repair=False)
    assert len(result.findings) == 1
    assert not result.changed


def test_safety_level() -> None:
    for safety, level, changed in (
        ("safe", Safety.SAFE, True),
        ("unsafe", Safety.SAFE, False),
        ("unsafe", Safety.UNSAFE, True),
        ("manual", Safety.UNSAFE, False),
    ):
        result = of("alpha\n", [Rename(safety=safety)], level)  # type: ignore[arg-type]
        assert result.changed is changed
        assert len(result.remaining) == (not changed)


def test_not_wanted_is_not_parsed() -> None:
    result = of("x = (\n", [Rename()])
    assert result.error is None
    assert not result.noteworthy


def test_passes_and_the_lines_of_their_changes() -> None:
    """The second codemod finds something only in what the first one made."""
    text = "one = 1\nanchor()\n\n\nx = 1\ny = 2\nalpha()\nlast = 2\n"
    result = of(text, [Rename(to="anchor"), Insert()])
    assert result.after.decode() == (
        "one = 1\nanchor()\nplaced()\n\n\nx = 1\ny = 2\nanchor()\nplaced()\nlast = 2\n"
    )
    assert [(change.codemod, change.lines) for change in result.changes] == [
        ("insert-call", ((1, 1),)),
        ("rename-alpha", ((6, 6),)),
        ("insert-call", ((6, 6),)),
    ]


def test_scopes_are_those_of_before() -> None:
    result = of("import os\n\n@dec\nclass A:\n    def f(self):\n        return alpha\n", [Rename()])
    assert [(scope.header, scope.first, scope.last) for scope in result.scopes] == [(3, 2, 5), (4, 4, 5)]


@pytest.mark.parametrize(("codemod", "text"), [(Flip(), "ping\n"), (Grow(), "grow\n")])
def test_no_end(codemod: Codemod, text: str) -> None:
    result = of(text, [codemod])
    (trouble,) = result.troubles
    assert trouble.stage == "rewrite"
    assert "never come to an end" in trouble.message and "devfix's own bug" in trouble.message
    assert codemod.id in trouble.message
    assert not result.changed
    (finding,) = result.findings
    assert finding.fix is None and "never come to an end" in finding.refusal
    # The fixes of others are made.
    result = of(text + "alpha\n", [codemod, Rename()])
    assert result.after.decode() == text + "beta\n"
    assert [finding.fix is None for finding in result.findings] == [True, False]


@pytest.mark.parametrize(
    ("text", "stage", "message"),
    [
        ("alpha = (\n", "parse", "line 1: '(' was never closed"),
        ("x = 1\nprint 'alpha'\n", "parse", "line 2: Missing parentheses in call to 'print'"),
        ("alpha = " + "(" * 300 + ")" * 300, "parse", "too many nested parentheses"),
        ("alpha = " + "-" * 100_000 + "1", "parse", "nested"),
    ],
)
def test_syntax_errors(text: str, stage: str, message: str) -> None:
    result = of(text, [Rename()])
    assert result.error is not None
    assert result.error.stage == stage
    assert message in result.error.message
    assert "\n" not in result.error.message
    assert ("Python 2?" in result.error.message) is ("print" in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crash_here\n", "KeyError: 'oh' (stubs.py:"),
        ("nest_here\n", "too deeply nested for Python to check"),
        ("memory_here\n", "too large or too deeply nested for Python to check"),
    ],
)
def test_crash_of_a_codemod(text: str, message: str) -> None:
    result = of("alpha\n" + text, [Rename(), Trouble()])
    assert result.error is not None
    assert result.error.stage == "check"
    assert message in result.error.message
    assert not result.changed


def test_failed_verification_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriter that damages the file: here one that loses the last character."""
    import devfix.rewrite

    real = devfix.rewrite.apply
    monkeypatch.setattr(devfix.rewrite, "apply", lambda text, edits: real(text, edits)[:-1])
    result = of("alpha = 1\n", [Rename()])
    (trouble,) = result.troubles
    assert trouble.stage == "verify"
    assert "devfix's own bug" in trouble.message
    assert not result.changed
    assert result.findings[0].fix is None and "text outside the edits changed" in result.findings[0].refusal


def test_one_fix_that_cannot_be_made_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriter that loses a comment on certain lines: those findings stay, and say why."""
    import devfix.rewrite

    real = devfix.rewrite.apply
    monkeypatch.setattr(
        devfix.rewrite, "apply", lambda text, edits: re.sub(r"beta  # bad.*", "beta", real(text, edits))
    )
    lines = [f"alpha  # {'bad' if number in (0, 3, 4, 9) else 'good'} {number}\n" for number in range(10)]
    result = of("".join(lines), [Rename()])
    assert result.error is None
    assert result.after.decode() == "".join(
        line if "bad" in line else line.replace("alpha", "beta") for line in lines
    )
    assert [finding.fix is None for finding in result.findings] == ["bad" in line for line in lines]
    assert [finding.place.line for finding in result.remaining] == [1, 4, 5, 10]
    refusals = {finding.refusal for finding in result.findings if finding.fix is None}
    assert all("text outside the edits changed" in refusal for refusal in refusals)
    (trouble,) = result.troubles
    assert "4 of 10 fixes were not applied (rename-alpha)" in trouble.message


def test_fixes_that_only_together_make_something_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of them are made as can be."""
    import devfix.rewrite

    real = devfix.rewrite.apply
    monkeypatch.setattr(
        devfix.rewrite, "apply", lambda text, edits: real(text, edits).replace("beta\nbeta\nbeta", "beta")
    )
    result = of("alpha\nalpha\nalpha\nx\nalpha\n", [Rename()])
    assert result.after.decode() == "beta\nbeta\nalpha\nx\nbeta\n"


def test_fix_that_cannot_be_written() -> None:
    """The finding stays, without its fix and with the reason."""
    result = of("alpha\n", [Rename(to="a b (")])
    assert result.error is None
    (finding,) = result.findings
    assert finding.fix is None
    assert finding.refusal
    assert not result.changed


def test_unencodable_result() -> None:
    document = Document.of("x.py", b"# coding: latin-1\nalpha\n")
    result = process(document, [Rename(to="'\u20ac'")])
    assert result.error is not None
    assert result.error.stage == "write"
    assert not result.changed


SUPPRESSED = [
    "alpha  # devfix: ignore\n",
    "alpha  # devfix: ignore[rename-alpha]\n",
    "alpha  # noqa  # devfix:ignore[other, rename-alpha] because\n",
    "f(\n    1,\n    alpha,\n)  # devfix: ignore\n",
    "f(  # devfix: ignore\n    1,\n    alpha,\n)\n",
    "with alpha:  # devfix: ignore\n    pass\n",
    "if (1 and\n    alpha):  # devfix: ignore\n    pass\n",
    "@alpha\ndef f():  # devfix: ignore\n    pass\n",
    "try:\n    pass\nexcept alpha:  # devfix: ignore\n    pass\n",
    "match x:\n    case [1, alpha.b]:  # devfix: ignore\n        pass\n",
    "x = 1\r\nalpha # devfix: ignore\r\n",
    "x = 1\ralpha # devfix: ignore\r",
    "x = '\u2028'\n\x0c\nalpha # devfix: ignore\n",
    "# devfix: skip-file\nalpha\n",
    "alpha\n# why: devfix: ... # devfix: skip-file\n",
]
SHOWN = [
    "alpha  # devfix: ignore[other]\n",
    "alpha\n# devfix: ignore\n",
    "alpha, '# devfix: ignore'\n",
    "alpha, '''\n# devfix: skip-file\n'''\n",
    "with x:  # devfix: ignore\n    alpha\n",
    "if alpha:\n    pass  # devfix: ignore\n",
    "try:  # devfix: ignore\n    pass\nexcept alpha:\n    pass\n",
    "alpha  # devfix: ignored\n",
    "alpha  # devfix: ignore-not-a-word\n",
    "alpha  # devfix: ignore[]\n",
    "def f():  # devfix: ignore\n    x = 1\n    alpha\n",
]


@pytest.mark.parametrize("text", SUPPRESSED)
def test_suppressed(text: str) -> None:
    result = of(text, [Rename()])
    assert result.error is None
    assert result.findings == ()
    assert not result.changed


@pytest.mark.parametrize("text", SHOWN)
def test_not_suppressed(text: str) -> None:
    result = of(text, [Rename()])
    assert len(result.findings) == 1
    assert result.changed


# --- many files ----------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for n in range(60):
        (tmp_path / f"f{n:02}.py").write_text(f"x = {n}\n" + ("alpha\n" if n % 3 == 0 else ""))
    (tmp_path / "f07.py").write_text("alpha = (\n")
    (tmp_path / "f08.py").write_bytes(b"\xff\n")
    return tmp_path


def test_result_does_not_depend_on_jobs(many: Path) -> None:
    found = discover(["."])
    one, two = (run(found, [Rename()], jobs=jobs) for jobs in (1, 2))

    def comparable(results: Sequence[FileResult]) -> list[tuple[object, ...]]:
        return [(r.path, r.findings, r.after, r.changes, r.error) for r in results]

    assert comparable(one.results) == comparable(two.results)
    assert one.errors == two.errors
    assert (one.files, one.files_read, one.findings, one.fixable) == (60, 59, 20, 20)
    assert (two.files, two.files_read, two.findings, two.fixable) == (60, 59, 20, 20)
    assert [error.path for error in one.errors] == ["f07.py", "f08.py"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_told_in_order_while_others_are_to_come(many: Path, jobs: int) -> None:
    told: list[FileResult] = []
    seen: list[int] = []
    found = discover([str(many)])
    codemods = [Rename()]
    report = run(
        found, codemods, repair=False, jobs=jobs, each=told.append, progress=lambda _: seen.append(len(told))
    )
    assert told == list(report.results)
    assert 0 < seen[1] < len(told)
    told.clear()
    assert run(found, codemods, jobs=jobs, each=told.append).changed
    assert not told  # what is repaired may still be changed by fixes of other files


@pytest.mark.parametrize("method", sorted({*multiprocessing.get_all_start_methods()} - {"fork"}))
def test_however_processes_start(tmp_path: Path, method: str) -> None:
    """Python 3.14 starts them from a server; then their parent is not the main process."""
    bug = "import torch\nx = torch.zeros(2)\nif x.device == 'cuda':\n    print(x)\n"
    for n in range(60):
        (tmp_path / f"f{n:02}.py").write_text(bug if n % 7 == 0 else "x = 1\n")
    (tmp_path / "main.py").write_text(
        "import multiprocessing\n"
        "from devfix.cli import main\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method({method!r})\n"
        "    print(main(['check', '--jobs', '2', '--no-cache', '.']))\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert "9 findings" in done.stderr, done
    assert done.stdout.endswith("1\n")


@pytest.mark.parametrize(
    ("name", "why"), [("die_here", "died (exit code 3)"), ("sleep_here", "longer than 2 s")]
)
def test_deadly_file_takes_no_other_with_it(many: Path, name: str, why: str) -> None:
    (many / "f20.py").write_text(f"{name}\n")
    (many / "f45.py").write_text(f"{name}\n")
    report = run(discover(["."]), [Rename(), Trouble()], jobs=2, seconds=2.0)
    assert [error.path for error in report.errors] == ["f07.py", "f08.py", "f20.py", "f45.py"]
    assert why in report.errors[2].message
    assert report.findings == 19  # f45 had one


def test_garbage_collection_is_as_before(many: Path) -> None:
    assert gc.isenabled()
    run(discover(["."]), [Rename()], jobs=1)
    assert gc.isenabled()


def test_chunks_are_small_in_number_and_size(tmp_path: Path) -> None:
    sizes = [10] * 40 + [30_000] * 6 + [90_000, 10, 90_000] + [10] * 40
    paths = []
    for number, size in enumerate(sizes):
        (tmp_path / f"f{number:03}.py").write_text("#" * size)
        paths.append(str(tmp_path / f"f{number:03}.py"))
    chunks = list(parallel._chunks(paths, 2))
    assert [path for chunk in chunks for path in chunk] == paths
    size = [sum(Path(path).stat().st_size for path in chunk) for chunk in chunks]
    assert all(len(c) == 1 or s <= parallel.CHUNK_BYTES for c, s in zip(chunks, size, strict=True))
    assert max(map(len, chunks)) == parallel.CHUNK


def test_garbage_is_collected_between_the_files_of_a_chunk(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "GARBAGE", -1)
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    runner._Chunks(runner._task([Rename()], Safety.SAFE, False, None))(("f00.py", "f01.py", "f02.py"))
    assert len(collected) == 3


def test_file_that_vanishes(many: Path) -> None:
    report = run(Discovered(("gone.py",)), [Rename()])
    assert [(error.stage, error.path) for error in report.errors] == [("read", "gone.py")]
    assert report.files_read == 0


def test_write_reports_what_it_could_not_do(many: Path) -> None:
    report = run(discover(["."]), [Rename()], jobs=1)
    (many / "f03.py").write_text("mine = 1\n")
    done = writing.write(report)
    assert len(done.written) == 19
    assert ("f03.py", "write") in [(error.path, error.stage) for error in done.errors]
    assert (many / "f03.py").read_text() == "mine = 1\n"
    assert (many / "f00.py").read_text() == "x = 0\nbeta\n"
    assert run(discover(["."]), [Rename()], jobs=1).changed == ()


def test_interrupted_write_says_what_was_written(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(discover(["."]), [Rename()], jobs=1)
    real = writing.replace_files

    def until_f06(files: list[tuple[str, str, bytes]]) -> None:
        if files[0][0] == "f06.py":
            raise KeyboardInterrupt
        real(files)

    monkeypatch.setattr(writing, "replace_files", until_f06)
    done = writing.write(report)
    assert done.interrupted
    assert done.written == ("f00.py", "f03.py")
    assert (many / "f06.py").read_text() == "x = 6\nalpha\n"


def test_one_file(many: Path) -> None:
    assert Task((Rename(),)).file("f03.py").applied == 1
    assert Task((Rename(),)).file("f04.py").noteworthy is False
    assert parallel.cores() >= 1
