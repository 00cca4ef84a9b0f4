"""A repository's own program before and after a repair, in copies of the repository."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.commands.advice import device_error
from devfix.simulate import landlock
from devfix.simulate.copies import TooLarge, copy
from devfix.simulate.forks import Forks
from devfix.simulate.supervise import run
from devfix.simulate.trial import Attempt, Copies, Trial, command, try_out
from ran import Ran

BUG = """
import torch
from parts import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net()
model.to(device)
model.head = torch.nn.Linear(4, 3)
print(model(torch.randn(2, 4).to(device)).sum().item())
"""
PARTS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x)
"""
# The same bug in a file that the program does not import.
OTHER = BUG.replace("from parts import Net", "from parts import Net  # other")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: object) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(BUG)
    (folder / "parts.py").write_text(PARTS)
    (folder / "other.py").write_text(OTHER)
    monkeypatch.chdir(folder)
    return folder


def trial(after: str, *, command: str = "python train.py", file: str = "train.py") -> Trial:
    path = os.path.realpath(file)
    done = try_out(Attempt(command, {path: after.encode()}, seconds=120), device_error)
    if "build for GPUs" in done.word:
        pytest.skip(done.word)
    return done


REPAIRED = BUG.replace("model.to(device)\n", "").replace("print(", "model.to(device)\nprint(")


@pytest.mark.parametrize(
    "before, after, ok, word",
    [
        (REPAIRED, REPAIRED + "\n", True, "did not reproduce: on cuda ("),
        (
            REPAIRED,
            REPAIRED + "1 / 0\n",
            False,
            "failed: after the fix, the program still fails (train.py:10: Z",
        ),
        (
            "import torch\n1 / 0\n",
            REPAIRED,
            None,
            "not run: because before the fix, the program ends with no dev",
        ),
        (
            "print(1)\n",
            REPAIRED,
            None,
            "not run: because the program has not imported torch (exit code 0: 1)",
        ),
        (
            BUG,
            "import os, torch\nos.abort()\n",
            None,
            "not run: because after the fix, the simulated process cra",
        ),
        pytest.param(
            BUG,
            "import torch\nx = torch.quantize_per_tensor(torch.ones(1, device='cuda'), 1.0, 0, torch.qint8)\n",
            None,
            "not run: because after the fix, devfix: CUDA graphs are not simulated",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["no bug", "broken", "other error", "no torch", "crash", "limit"],
)
def test_what_is_not_verified(repository: Path, before: str, after: str, ok: bool | None, word: str) -> None:
    (repository / "train.py").write_text(before)
    done = trial(after)
    assert done.ok is ok
    assert done.word.startswith(word), done.word


def test_a_run_has_a_limit_of_time() -> None:
    ended = run([sys.executable, "-c", "import time; time.sleep(60)"], seconds=1, capture=True)
    assert (ended.code, ended.unchecked) == (None, "it took too long")


@pytest.mark.parametrize(
    "command, word",
    [
        ("", "not run: because the command is empty"),
        ("no-such-command-here", "not run: because there is no command 'no-such-command-here'"),
        ("python 'train.py", "not run: because No closing quotation"),
    ],
)
def test_commands_that_cannot_be_run(repository: Path, command: str, word: str) -> None:
    assert trial(REPAIRED, command=command) == Trial(word, None)


@pytest.mark.skipif(not landlock.version(), reason="no Landlock in this kernel")
def test_nothing_is_written_outside_of_the_copy(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    program = f"""
import os, tempfile, torch
refused = 0
for write in (lambda: open({str(outside)!r}, "w"), lambda: torch.save(torch.ones(2), {str(outside)!r}),
              lambda: os.mkdir({str(outside)!r}), lambda: os.remove({str(repository / "parts.py")!r})):
    try:
        write()
    except (OSError, RuntimeError):
        refused += 1
tempfile.TemporaryFile().write(b"x")
torch.save(torch.ones(2), "inside.pt")
if torch.cuda.is_available() and refused == 4:
    torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2))
"""
    (repository / "train.py").write_text(program)
    assert trial(program.replace("torch.ones(1, 2)", "torch.ones(1, 2).cuda()")).ok
    assert not outside.exists() and (repository / "parts.py").exists()


def test_an_installed_repository_is_imported_from_its_copy(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    (repository / "sub").mkdir()
    (repository / "sub" / "main.py").write_text("import train\n")
    monkeypatch.chdir(repository / "sub")
    done = trial(REPAIRED, command="python main.py", file="../train.py")
    assert done.ok, done.word
    assert done.of("../train.py").startswith("verified: cuda (")


def test_copies_have_limits(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("kept", ".git", "__pycache__", "env"):
        (source / name).mkdir(parents=True)
        (source / name / "file").write_text("x" * 100)
    (source / "env" / "pyvenv.cfg").write_text("")
    (source / "link").symlink_to("kept/file")
    os.mkfifo(source / "pipe")
    copy(str(source), str(tmp_path / "copy"))
    found = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert found == ["kept", "kept/file", "link"]
    with pytest.raises(TooLarge):
        copy(str(source), str(tmp_path / "second"), most=50)


# --- the commands --------------------------------------------------------------------------------


def test_apply_with_a_command(repository: Path, called: Callable[..., Ran]) -> None:
    """One that starts Python itself."""
    (repository / "run.sh").write_text(f"exec '{sys.executable}' train.py\n")
    words = ("apply", "--smoke-cmd", "sh run.sh", "--codemod", "reorder-to", ".", "--format", "json")
    done = called(*words, cwd=repository)
    assert done.code == 0, done.err
    changes = json.loads(done.out)["changes"]
    assert {change["path"]: change["verdict"] for change in changes} == {
        "train.py": "verified: cuda (simulated)",
        "other.py": "not run: because the program does not import this file",
    }
    assert "devfix: verified: cuda (simulated)\n" in done.err
    assert (repository / "train.py").read_text() != BUG
    assert sorted(os.listdir()) == [".git", "other.py", "parts.py", "run.sh", "train.py"]


def test_apply_writes_nothing_that_fails(repository: Path, called: Callable[..., Ran]) -> None:
    """A repair that is not enough; it is told what is left."""
    before = BUG + (
        "print((model(torch.ones(2, 4).to(device)) + torch.ones(3)).sum().item())\nmodel(torch.ones(1, 4).cpu())\n"
    )
    (repository / "train.py").write_text(before)
    words = ("apply", "--smoke-cmd", "python train.py", "--codemod", "reorder-to", ".")
    done = called(*words, cwd=repository)
    assert done.code == 2
    assert "devfix: failed: after the fix, the program still fails (train.py:10: " in done.err
    left = "; with --keep-going, it has 2 device errors, at train.py:10, parts.py:10; nothing was written"
    assert done.err.rstrip().endswith(left)
    assert (repository / "train.py").read_text() == before


def test_smoke_writes_nothing(repository: Path, called: Callable[..., Ran]) -> None:
    words = ("smoke", "train.py", "--codemod", "reorder-to", "--smoke-cmd", "python train.py")
    done = called(*words, cwd=repository)
    assert done.code == 0, done.err
    first, second = done.text.splitlines()
    assert first.startswith("reorder-to: examples pass on cpu, cuda (simulated); torch ")
    assert second == "train.py:7: reorder-to: verified: cuda (simulated)"
    assert (repository / "train.py").read_text() == BUG


def test_smoke_of_codemods(repository: Path, called: Callable[..., Ran]) -> None:
    done = called("smoke", "--codemod", "normalize-device-type", cwd=repository)
    assert done.code == 0
    assert done.text.startswith("normalize-device-type: examples pass on cpu, cuda (")
    assert called("smoke", cwd=repository).code == 2
    assert "did you mean" in called("smoke", "--codemod", "reorder-too", cwd=repository).err


def test_random_numbers_that_can_be_compared(
    repository: Path, tmp_path: Path, lent: Callable[[], Forks]
) -> None:
    """With a seed, devices draw the CPU's numbers: dropout, factories, generators, whatever comes first."""
    (repository / "train.py").write_text(
        "import torch\n"
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "x = torch.nn.functional.dropout(torch.randn(50, device=device), 0.3)\n"
        "own = torch.Generator(device).manual_seed(7)\n"
        "y = [torch.rand(3, generator=own, device=device).tolist() for _ in range(2)]\n"
        "z = torch.nn.init.xavier_uniform_(torch.empty(3, 3, device=device)) + torch.rand(3).to(device)\n"
        "print(x.tolist(), y, torch.randperm(9, device=device).tolist(), z.tolist(), torch.rand(2).tolist())\n"
    )
    copies = Copies(str(repository), ".", str(tmp_path), seed="3", forks=lent())
    words = command(["python", "train.py"])
    there, here = (copies.run(words, {}, 1, cpu=cpu) for cpu in (False, True))
    if there.unchecked:
        pytest.skip(there.unchecked)
    assert (there.code, here.code) == (0, 0) and here.output.startswith("[")
    assert there.output == here.output


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    root, outside = tmp_path / "repository", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "one.py").write_text("print(1)\n")
    (root / "one.py").symlink_to(outside / "one.py")
    (root / "parts").symlink_to(outside)
    copies = Copies(str(root), "", str(tmp_path / "copies"))
    ended = copies.run(command(["python", "one.py"]), {str(root / "one.py"): b"print(2)\n"}, 1)
    assert ended.code == 0
    with pytest.raises(OSError, match="leads out"):
        copies.run(command(["python", "one.py"]), {str(root / "parts" / "one.py"): b"print(3)\n"}, 1)
    assert (outside / "one.py").read_text() == "print(1)\n"
