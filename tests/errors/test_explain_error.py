"""`devfix explain-error` on tracebacks of real runs, here and from another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = ROOT / "examples" / "image_toolkit" / "toolkit.py"
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "toolkit.py").write_text(source.read_text())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "toolkit.py").write_text("x = 1\n" * 200)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def raised() -> str:
    """What the program prints when it ends on simulated CUDA."""
    pytest.importorskip("torch")
    folder = ROOT / "examples" / "image_toolkit"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "devfix.simulate", "toolkit.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert "Expected all tensors to be on the same device" in done.stderr
    return done.stderr


def explained(text: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    (folder / "error.txt").write_text(text)
    code = main(["explain-error", *more, "error.txt"])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_a_real_run(project: Path, raised: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained(raised, project, capsys)
    assert code == 1
    assert "move-inputs `sizes`" in said
    assert "+            sizes = sizes.to(device)" in said
    assert "devfix apply --codemod move-inputs pkg/toolkit.py" in said
    assert "other/toolkit.py" not in said  # a file of the same name that has other lines


def test_the_command_that_it_names_works(
    project: Path, raised: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = explained(raised, project, capsys)
    command = next(line for line in said.splitlines() if "to repair it:" in line).split("devfix ", 1)[1]
    assert main(command.split()) == 1
    assert "sizes = sizes.to(device)" in (project / "pkg" / "toolkit.py").read_text()


def test_from_another_machine_and_an_older_version(
    project: Path, raised: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = raised.replace('File "', 'File "C:\\\\Users\\\\ann\\\\pkg\\\\').replace("\\\\", "\\")
    path = project / "pkg" / "toolkit.py"
    path.write_text("# one line more\n" + path.read_text())
    code, said = explained(text, project, capsys)
    assert code == 1 and "move-inputs `sizes`" in said


def test_nothing_is_known_here(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained("RuntimeError: Tensors must be CUDA and dense\n", project, capsys)
    assert code == 0
    assert "collective" in said and "no traceback" in said


def test_other_errors(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained("KeyError: 'x'\n", project, capsys)
    assert code == 2 and "no device error" in said


def test_no_such_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", "gone.txt"]) == 2
    assert "gone.txt: no such file" in capsys.readouterr().err
