"""`devfix explain-error` on tracebacks of real runs, here and from another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.cli import main
from later import needs_torch

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
    needs_torch()
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
    if "GPU build" in done.stderr:
        pytest.skip("the simulator needs the CPU build of torch")
    assert "Expected all tensors to be on the same device" in done.stderr
    return done.stderr


def explained(text: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    (folder / "error.txt").write_text(text)
    code = main(["explain-error", *more, "error.txt"])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_a_real_run(project: Path, raised: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained(raised, project, capsys)
    assert code == 0
    assert "move-inputs `sizes`" in said
    assert "+            sizes = sizes.to(device)" in said
    assert "devfix apply --codemod move-inputs pkg/toolkit.py" in said
    assert "other/toolkit.py" not in said  # a file of the same name that has other lines


def test_the_command_that_it_names_works(
    project: Path, raised: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = explained(raised, project, capsys)
    command = next(line for line in said.splitlines() if "to fix it:" in line).split("devfix ", 1)[1]
    assert main(command.split()) == 0
    assert "sizes = sizes.to(device)" in (project / "pkg" / "toolkit.py").read_text()


def test_from_another_machine_and_an_older_version(
    project: Path, raised: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = raised.replace('File "', 'File "C:\\\\Users\\\\ann\\\\pkg\\\\').replace("\\\\", "\\")
    path = project / "pkg" / "toolkit.py"
    path.write_text("# one line more\n" + path.read_text())
    code, said = explained(text, project, capsys)
    assert code == 0 and "move-inputs `sizes`" in said


def test_nothing_is_known_here(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained("RuntimeError: Tensors must be CUDA and dense\n", project, capsys)
    assert code == 0
    assert "collective" in said and "no traceback" in said


GENERATOR = """
Traceback (most recent call last):
  File "/home/ann/proj/lib/training.py", line 7, in train
    for batch in loader:
  File "/home/ann/venv/lib/python3.10/site-packages/torch/utils/data/sampler.py", line 124, in __iter__
    yield from torch.randperm(n, generator=generator).tolist()
RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'
"""
TRAINING = """import torch
from torch.utils.data import DataLoader


def train(args):
    loader = DataLoader(list(range(8)), shuffle=True)
    for batch in loader:
        print(batch)
"""
MAIN = """import torch
from lib.training import train

if __name__ == "__main__":
    torch.set_default_tensor_type({kind})
    train(None)
"""


@pytest.mark.parametrize(
    "kind, told",
    [('"torch.cuda.FloatTensor"', True), ("torch.cuda.FloatTensor", True), ('"torch.DoubleTensor"', False)],
)
def test_a_default_of_the_programs_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str, told: bool
) -> None:
    """The traceback does not go through the file that sets it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "training.py").write_text(TRAINING)
    (tmp_path / "main.py").write_text(MAIN.format(kind=kind))
    (tmp_path / "talk.py").write_text("# torch.set_default_tensor_type('torch.cuda.FloatTensor')\n")
    found, said = explained(GENERATOR, tmp_path, capsys)
    assert found == 0, said
    assert ("set at main.py:5: torch.set_default_tensor_type" in said) is told
    assert "talk.py" not in said
    assert "most often the stray one: the generator" in said


def test_no_source(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cpu, different from other "
        "tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)\n"
    )
    code, said = explained(text, project, capsys)
    assert code == 0
    assert "operation: nn.Linear" in said and "the input of the layer" in said and "look for: a batch" in said


def test_other_errors(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = explained("KeyError: 'x'\n", project, capsys)
    assert code == 2 and "no device error" in said


def test_no_such_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-error", "gone.txt"]) == 2
    assert "gone.txt: no such file" in capsys.readouterr().err


def test_a_file_that_python_cannot_parse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its parser says of deep nesting that there is no memory."""
    monkeypatch.chdir(tmp_path)
    deep = f"# set_default_device set_default_tensor_type\nx = {'-' * 100_000}1\n"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "training.py").write_text(deep)
    (tmp_path / "main.py").write_text(deep)
    found, said = explained(GENERATOR, tmp_path, capsys)
    assert found == 0 and "no cause found" in said
