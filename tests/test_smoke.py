"""Running programs, and examples of codemods, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from devfix.codemod import Example
from devfix.smoke import (
    Runner,
    SmokeResult,
    check_example,
    devices_named,
    numbers,
    run_program,
    same_numbers,
    smoke_codemods,
    smoke_examples,
)

SIMULATED = "cuda (simulated)"


# --- programs ------------------------------------------------------------------------------


def test_output_of_all_kinds() -> None:
    run = run_program("import os\nprint('one', flush=True)\nos.system('echo two')\nprint('three')", "cpu")
    assert (run.status, run.output, run.error) == ("ok", "one\ntwo\nthree\n", "")
    assert run.device == "cpu"
    assert run.torch


def test_error_and_its_line() -> None:
    run = run_program("def f():\n    raise ValueError('no')\n\nprint(1)\nf()", "cpu")
    assert (run.status, run.output, run.error, run.line) == ("raised", "1\n", "ValueError: no", 2)


def test_syntax_error() -> None:
    assert run_program("x = = 1", "cpu").error.startswith("SyntaxError: ")


@pytest.mark.parametrize(
    "code, status", [("", "ok"), ("0", "ok"), ("3", "raised"), ("'bad'", "raised")], ids=str
)
def test_exit_codes(code: str, status: str) -> None:
    assert run_program(f"import sys\nsys.exit({code})", "cpu").status == status


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_cpu_sees_no_cuda(device: str) -> None:
    run = run_program("import torch\nprint(torch.cuda.is_available())", device)  # type: ignore[arg-type]
    assert run.output == f"{device == 'cuda'}\n"


def test_a_program_is_main_in_an_empty_folder_of_its_own() -> None:
    program = """
import os, pickle, random, sys, torch
class Thing: pass
assert __name__ == "__main__" and os.listdir() == ["program.py"] and sys.argv == [__file__]
assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
open("left.txt", "w").close()
print(os.getcwd(), torch.rand(1).item(), random.random())
torch.set_default_dtype(torch.float64)
"""
    first, second = run_program(program, "cpu"), run_program(program, "cpu")
    assert (first.status, second.status) == ("ok", "ok"), (first, second)
    folders = {run.output.split()[0] for run in (first, second)}
    assert len(folders) == 2
    assert not any(map(os.path.exists, folders))
    # What one does to torch does not reach the other, and neither seeds: the numbers are the same.
    assert first.output.split()[1:] == second.output.split()[1:]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "program, said",
    [
        ("import os\nos.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import os\nos.abort()", "SIGABRT"),
        ("import os\nos._exit(0)", "exit code 0"),
        ("data = bytearray(64 << 30)", "memory"),
        ("import torch\ndata = torch.zeros(64 << 30)", "memory"),
    ],
)
def test_a_crash_is_no_verdict(program: str, said: str, device: str) -> None:
    run = run_program(program, device)  # type: ignore[arg-type]
    if said == "memory" and run.device not in ("cpu", SIMULATED):
        pytest.skip("there is no limit on real CUDA")
    assert run.status == "crashed"
    assert said in run.error
    assert not run.checked


def test_time_limit_ends_child_processes_too() -> None:
    program = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""
    start = time.monotonic()
    run = run_program(program, "cpu", timeout=1.0)
    assert (run.status, run.checked) == ("timeout", False)
    assert time.monotonic() - start < 30
    child = Path(f"/proc/{int(run.output)}")
    deadline = time.monotonic() + 10
    while child.exists() and "State:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_many_autograd_threads_in_a_fork() -> None:
    """In a fork, torch renews its pool of threads: it must have done so before these start."""
    program = """
import torch
tensors = [torch.ones(4, device=f"cuda:{i}", requires_grad=True) for i in range(16)]
sum(tensor.sum().cpu() for tensor in tensors).backward()
print({str(tensor.grad.device) for tensor in tensors} == {f"cuda:{i}" for i in range(16)})
"""
    runs = {run_program(program, "cuda", devices=16) for _ in range(5)}
    assert len(runs) == 1, runs
    run = runs.pop()
    if run.status == "unsupported":
        pytest.skip(run.error)
    assert (run.status, run.output) == ("ok", "True\n")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as runner:
        yield runner


def test_nothing_here_is_imported(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "json", "devfix", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the repository')")
    monkeypatch.chdir(tmp_path)
    assert runner.run("import torch, numpy, json\nprint(torch.ones(1).item())", "cpu").output == "1.0\n"


@pytest.mark.parametrize(
    "server", ["os.getppid()", "int(open(f'/proc/{os.getppid()}/stat').read().split()[3])"]
)
def test_the_server_may_die(server: str, runner: Runner) -> None:
    run = runner.run(f"import os\nos.kill({server}, 9)\nimport time; time.sleep(5)", "cpu")
    assert run.status == "crashed"
    assert runner.run("print(2)", "cpu").output == "2\n"


def test_torch_stays_outside() -> None:
    code = "import sys, devfix.smoke; assert 'torch' not in sys.modules and 'libcst' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_devices_named() -> None:
    assert devices_named("x.cuda()") == 1
    assert devices_named("a.to('cuda:0'); b.to('cuda:1')") == 2
    assert devices_named("b.cuda(2)") == 3
    assert devices_named("torch.cuda.set_device(1)") == 2


# --- numbers -------------------------------------------------------------------------------


def test_numbers() -> None:
    assert numbers("tensor([0.5, -1., 2e-05, nan], device='cuda:0', dtype=torch.float16)") == [
        "0.5",
        "-1.",
        "2e-05",
        "nan",
    ]
    assert numbers("loss:0.25 cuda:12 conv2 3%") == ["0.25", "3"]


@pytest.mark.parametrize(
    "left, right, same",
    [
        ("loss 0.7312 on cuda:0", "loss 0.7313 on cpu", True),
        ("loss 0.73", "loss 0.79", False),
        ("[1, 2]", "[1, 3]", False),
        ("[1, 2]", "[1, 2, 3]", False),
        ("nan", "nan", True),
        ("nan", "0.5", False),
        ("inf", "inf", True),
        ("1e-9", "0.0", True),
    ],
)
def test_same_numbers(left: str, right: str, same: bool) -> None:
    assert same_numbers(left, right) is same


# --- examples ------------------------------------------------------------------------------

HEAD = """
import torch
torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
x = torch.randn(3, 4)
"""
BEFORE = HEAD + "print(model(x).sum().item())\n"
AFTER = HEAD + "print(model(x.to(device)).sum().item())\n"
RAISES = "Expected all tensors to be on the same device"


def result(example: Example) -> SmokeResult:
    return smoke_examples("id", [example])


def test_a_right_example() -> None:
    done = result(Example("right", BEFORE, AFTER, RAISES))
    assert (done.codemod, done.ok, done.detail) == ("id", True, "")
    assert done.checked_on.startswith("cpu, cuda (")
    assert done.torch


def test_an_example_without_a_bug() -> None:
    done = result(Example("clean", AFTER))
    assert (done.ok, done.detail) == (True, "")
    assert len(list(check_example(Example("clean", AFTER)))) == 2


@pytest.mark.parametrize(
    "example, detail",
    [
        (
            Example("same", BEFORE, BEFORE, RAISES),
            "same: after, on cuda .* raises RuntimeError: Expected all",
        ),
        (
            Example("words", BEFORE, AFTER, "must be on Mars"),
            "words: before, on cuda .* not 'must be on Mars'",
        ),
        (Example("fine", AFTER, AFTER, RAISES), "fine: before, on cuda .* raises nothing"),
        (Example("clean", BEFORE), "clean: before, on cuda .* raises RuntimeError"),
        (Example("cpu", "1 / 0"), "cpu: before, on the CPU, line 1 raises ZeroDivisionError"),
        (
            Example("other", BEFORE, AFTER.replace("sum", "mean"), RAISES),
            "other: after, on the CPU, prints",
        ),
        (
            Example("values", BEFORE, AFTER.replace("x.to(device)", "(x + x.cuda).to(device)"), RAISES),
            "values: after, on the CPU, line 7 raises TypeError",
        ),
        (
            Example("drift", "import torch\nprint(0.5 + torch.cuda.is_available())"),
            "drift: before, on cuda .* prints '1.5",
        ),
    ],
    ids=lambda value: value.title if isinstance(value, Example) else "",
)
def test_wrong_examples(example: Example, detail: str) -> None:
    import re

    done = result(example)
    assert done.ok is False
    assert re.search(detail, done.detail), done.detail


def test_an_example_that_cannot_be_checked() -> None:
    program = """
import os, torch
if torch.cuda.is_available():
    os.abort()
print(1)
"""
    done = result(Example("crash", program))
    assert (done.ok, done.checked_on) == (None, "cpu")
    assert "not checked: crashed: killed by SIGABRT" in done.detail


def test_smoke_codemods() -> None:
    assert smoke_codemods([]) == ()
    with pytest.raises(KeyError):
        smoke_codemods(["no-such-codemod"])
