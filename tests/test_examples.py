"""The programs of `examples/`: what devfix says of them, and how they run before and after."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.smoke import Run, Runner, same_numbers
from ran import Ran

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SNAPSHOTS = ROOT / "snapshots" / "examples"


@dataclass(frozen=True)
class Program:
    """A folder of `examples/`. `raises`: what it dies of on CUDA before the fix."""

    folder: str
    script: str
    raises: str
    arguments: tuple[str, ...] = ()
    devices: int = 1
    found: bool = True  # by this version of devfix
    same_on_cuda: bool = True  # it computes the same thing there
    unsafe: bool = False  # a fix of it makes an assumption, which holds here


TWO_DEVICES = r"RuntimeError: Expected all tensors to be on the same device"
PROGRAMS = [
    Program("brain_recipe", "train.py", "device_type", ("--epochs", "2"), same_on_cuda=False),
    Program("ctc_recipe", "train.py", TWO_DEVICES),
    Program("embedding_service", "service.py", TWO_DEVICES, devices=2),
    Program("gpt_classifier", "train.py", TWO_DEVICES, ("--epochs", "2")),
    Program("image_toolkit", "toolkit.py", TWO_DEVICES, ("--epochs", "2")),
    Program("recipe_notebook", "own_model.ipynb", TWO_DEVICES, unsafe=True),
]
Devfix = Callable[..., Ran]
Repaired = Callable[[Program], Path]
REPAIRED = [program for program in PROGRAMS if program.found]


def named(program: Program) -> str:
    return program.folder


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `examples/` and nothing else, for devfix looks for callers in all files of a repository."""
    folder = tmp_path_factory.mktemp("beside")
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def devfix(called: Devfix, beside: Path) -> Devfix:
    return partial(called, cwd=beside)


def test_every_example_is_here() -> None:
    folders = {
        path.name for path in EXAMPLES.iterdir() if any(path.glob("*.py")) or any(path.glob("*.ipynb"))
    }
    assert folders == {program.folder for program in PROGRAMS}


# --- what is shown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_check(program: Program, snapshot: Any, devfix: Devfix) -> None:
    """Findings, summary and exit code as a person sees them."""
    snapshot.snapshot_dir = SNAPSHOTS
    path = f"examples/{program.folder}"
    done = devfix("check", path)
    assert done.code == (1 if program.found else 0)
    seen = f"$ devfix check {path}\n".encode() + done.out + done.err.encode()
    snapshot.assert_match(seen + f"[exit code {done.code}]\n".encode(), f"{program.folder}.check.txt")


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_diff(program: Program, snapshot: Any, devfix: Devfix) -> None:
    snapshot.snapshot_dir = SNAPSHOTS
    done = devfix("diff", f"examples/{program.folder}")
    assert done.code == (1 if program.found else 0), done.err
    snapshot.assert_match(done.out, f"{program.folder}.diff")


def test_explained_diff(tmp_path: Path, snapshot: Any, devfix: Devfix) -> None:
    """All of them at once, with the reasons; applied by git, the patch is what `devfix apply` does."""
    snapshot.snapshot_dir = SNAPSHOTS
    done = devfix("diff", "--explain", "examples")
    assert done.code == 1, done.err
    snapshot.assert_match(done.out, "all.explained.diff")
    for name in ("by_git", "by_devfix"):
        shutil.copytree(EXAMPLES, tmp_path / name / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    by_git = subprocess.run(["git", "apply"], cwd=tmp_path / "by_git", input=done.out, capture_output=True)
    assert by_git.returncode == 0, by_git.stderr
    assert devfix("apply", "examples", cwd=tmp_path / "by_devfix").code == 0
    changed = 0
    for path in sorted((tmp_path / "by_git").rglob("*.*")):
        other = tmp_path / "by_devfix" / path.relative_to(tmp_path / "by_git")
        assert path.read_bytes() == other.read_bytes(), path
        changed += path.read_bytes() != (ROOT / path.relative_to(tmp_path / "by_git")).read_bytes()
    assert changed >= len(REPAIRED)


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_a_second_run_changes_nothing(program: Program, repaired: Repaired, devfix: Devfix) -> None:
    done = devfix("apply", "--exit-code", ".", cwd=repaired(program))
    assert done.code == 0, done.text + done.err


# --- how it runs -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    """The folder of a copy that `devfix apply` has repaired, once for all tests."""
    base, made = tmp_path_factory.mktemp("repaired"), set[str]()

    def copy(program: Program) -> Path:
        folder = base / program.folder
        if program.folder not in made:
            made.add(program.folder)
            shutil.copytree(EXAMPLES / program.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
            unsafe = ("--unsafe",) if program.unsafe else ()
            assert main(["apply", "--exit-code", *unsafe, str(folder)]) == (1 if program.found else 0)
        return folder

    return copy


def as_python(cell: str) -> str:
    """What a cell does, with as much of IPython's magics as the examples use."""
    first, _, rest = cell.partition("\n")
    if first.startswith("%%writefile"):
        return f"open({first.split()[1]!r}, 'w').write({rest!r})"
    return "\n".join(line for line in cell.split("\n") if not line.startswith("%"))


def run(runner: Runner, program: Program, folder: Path, device: Any) -> Run:
    """Run the program of a folder as `python SCRIPT ARGUMENTS` would; of a notebook, the cells in order."""
    script = str(folder / program.script)
    if script.endswith(".ipynb"):
        cells = json.loads(Path(script).read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        launch = "".join(as_python(source) + "\n" for source in sources)
        return runner.run(launch, device, devices=program.devices if device == "cuda" else 1)
    launch = (
        "import runpy, sys\n"
        "sys.dont_write_bytecode = True\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        f"sys.argv = {[script, *program.arguments]!r}\n"
        f"runpy.run_path({script!r}, run_name='__main__')\n"
    )
    return runner.run(launch, device, devices=program.devices if device == "cuda" else 1)


def on_cuda(runner: Runner, program: Program, folder: Path, kind: str) -> Run:
    done = run(runner, program, folder, "cuda")
    if kind == "real":
        assert "simulated" not in done.device
    elif "simulated" not in done.device:
        pytest.skip("there is a real GPU; the test of that name runs on it")
    if done.status == "unsupported" and (
        "GPU build" in done.error or "CUDA devices, and there" in done.error
    ):
        pytest.skip(f"not checked: {done.error}")
    assert done.checked, f"not checked: {done.status}: {done.error}"
    return done


CUDA = pytest.mark.parametrize("kind", ["simulated", pytest.param("real", marks=pytest.mark.cuda)])


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_on_the_cpu_nothing_changes(program: Program, runner: Runner, repaired: Repaired) -> None:
    before = run(runner, program, EXAMPLES / program.folder, "cpu")
    assert before.status == "ok", before.error
    assert any(character.isdigit() for character in before.output)
    after = run(runner, program, repaired(program), "cpu")
    assert (after.status, after.output) == ("ok", before.output), after.error


@CUDA
@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_on_cuda_it_fails_before(program: Program, kind: str, runner: Runner) -> None:
    before = on_cuda(runner, program, EXAMPLES / program.folder, kind)
    assert before.status == "raised", before.output
    assert re.search(program.raises, before.error), before.error


@CUDA
@pytest.mark.parametrize("program", REPAIRED, ids=named)
def test_on_cuda_it_runs_after(program: Program, kind: str, runner: Runner, repaired: Repaired) -> None:
    folder = repaired(program)
    after = on_cuda(runner, program, folder, kind)
    assert after.status == "ok", after.error
    if program.same_on_cuda:
        on_cpu = run(runner, program, folder, "cpu")
        assert same_numbers(after.output, on_cpu.output), f"{after.output}\n{on_cpu.output}"


def test_what_is_not_found_yet_is_said() -> None:
    """An example that this version cannot repair must say so where a person looks."""
    for program in PROGRAMS:
        text = (EXAMPLES / program.folder / "README.md").read_text(encoding="utf-8")
        assert ("does not find it" in text) is not program.found
