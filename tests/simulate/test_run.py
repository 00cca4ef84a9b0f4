"""`devfix run`: programs of all kinds on simulated devices, and what is said of how they end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import click
import devfix
import pytest
from ran import Ran


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Write a program and `devfix run` it in its folder, all in processes of their own: see `simulated`, too."""

    def start(program: str, *arguments: str, options: tuple[str, ...] = (), **environment: str) -> Ran:
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, "-m", "devfix", "run", *options]
        if "-m" not in options:
            command.append("program.py")
        done = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            timeout=300,
        )
        real = "GPU build" in done.stderr and not environment
        if real or "nothing was simulated" in done.stderr:
            pytest.skip(done.stderr)
        return Ran(done.returncode, done.stdout.encode(), done.stderr)

    return start


def test_the_program_is_run_as_python_runs_it(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("FACTOR = 3.0\n")
    ran = run(
        "import sys, beside, torch\n"
        "x = torch.ones(2, device='cuda:1') * beside.FACTOR\n"
        "print(__name__, __file__, sys.argv, x.tolist(), torch.cuda.device_count())\n"
        "print(any('simulate' in path for path in sys.path), 'sitecustomize' in sys.modules)\n"
        "sys.exit(int(sys.argv[2]))\n",
        "--devices",
        "7",
        options=("--devices", "2"),
    )
    first, second = ran.text.splitlines()
    assert first == f"__main__ {tmp_path / 'program.py'} ['program.py', '--devices', '7'] [3.0, 3.0] 2"
    assert second == "False True"
    assert (ran.code, ran.err) == (7, "")


def test_a_module(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, torch\nprint(torch.ones(1).cuda().device, sys.argv[1:])\n"
    )
    assert run("", "package", "-m", "x", options=("-m",)).text == "cuda:0 ['-m', 'x']\n"


def test_a_program_without_torch_pays_nothing(run: Callable[..., Ran]) -> None:
    ran = run(
        "import sys\nprint([name for name in sys.modules if name in ('torch', 'numpy', 'ctypes')])\n1 / 0\n"
    )
    assert (ran.code, ran.text) == (1, "[]\n")
    assert ran.err.endswith("ZeroDivisionError: division by zero\n")


def test_where_torch_is_missing_devfix_says_so(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for one in Path(click.__file__).parents[1].iterdir():
        if not one.name.startswith("torch"):
            (packages / one.name).symlink_to(one)
    (tmp_path / "program.py").write_text("import torch\n")
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    source = Path(devfix.__file__).parents[1]
    done = subprocess.run(
        [python, "-m", "devfix", "run", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{packages}"},
        timeout=300,
    )
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"devfix: {python}, which ran it, has no torch; pip install 'devfix[smoke]' there\n"
    )


def test_a_sitecustomize_is_not_lost(run: Callable[..., Ran], tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('custom', __file__)\n")
    ask = "assert importlib.util.find_spec('torch')\n"  # as libraries do
    program = (
        f"import importlib.util\n{ask}{ask}import sitecustomize, torch\nprint(torch.cuda.device_count())\n"
    )
    ran = run(program, PYTHONPATH=str(folder))
    line = f"custom {folder / 'sitecustomize.py'}\n"
    assert ran.text == f"{line}{line}1\n"  # once in devfix's own process, once in the program's


BUG = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net()
model.to(device)
model.head = torch.nn.Linear(4, 3)
model(torch.randn(2, 4).to(device))
"""


def test_a_device_error_is_explained(simulated: Callable[..., Ran]) -> None:
    ran = simulated(BUG)
    assert ran.code == 1
    traceback, told = ran.err.split("devfix: this is a device error, raised on cuda (simulated)\n")
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "devfix" not in traceback and "_ops.py" not in traceback
    assert "RuntimeError: Expected all tensors to be on the same device" in traceback
    assert "program.py:11: `self.head` is on cpu, `self.body` is on cuda:0, `x` is on cuda:0\n" in told
    assert "program.py:16:1: reorder-to: " in told or "program.py:15:1: reorder-to: " in told
    assert "program.py:15: `model` is moved here" in told
    assert told.rstrip().endswith("devfix apply --codemod reorder-to program.py")


def test_an_error_that_is_not_about_devices(simulated: Callable[..., Ran]) -> None:
    ran = simulated("import torch\ntorch.ones(2, 3, device='cuda') @ torch.ones(2, 3, device='cuda')\n")
    assert ran.code == 1
    assert "shapes cannot be multiplied" in ran.err and "devfix:" not in ran.err


# Such as those of speechbrain: to ask it for an attribute is to import it, which may fail.
LAZY = """
import sys, types, torch
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise ImportError('an integration that is not installed')
sys.modules['integration'] = Lazy('integration')
"""


def test_causes_are_looked_at_and_a_lazy_module_is_not_imported(simulated: Callable[..., Ran]) -> None:
    program = LAZY + BUG.replace("model(torch.randn", "try:\n    model(torch.randn")
    ran = simulated(
        program + "except RuntimeError as error:\n    raise ValueError('training failed') from error\n"
    )
    assert "training failed" in ran.err and "simulate" not in ran.err.split("devfix: ")[0]
    assert "devfix apply --codemod reorder-to program.py" in ran.err and "integration" not in ran.err


def test_a_crash_is_not_checked(simulated: Callable[..., Ran]) -> None:
    ran = simulated("import ctypes, torch\nctypes.string_at(0)\n")
    assert (ran.code, ran.err) == (2, "devfix: not checked: the simulated process crashed (SIGSEGV)\n")


def test_limits_are_not_checked(simulated: Callable[..., Ran]) -> None:
    ran = simulated("import torch\ntorch.cuda.CUDAGraph().debug_dump('')\n")
    assert ran.code == 2
    assert "devfix: not checked: " in ran.err and "limit of the simulator, not a bug" in ran.err
    program = (
        "import torch\ngraph = torch.cuda.CUDAGraph()\n"
        "try:\n    graph.debug_dump('')\nexcept RuntimeError:\n    print(1)\n"
    )
    ran = simulated(program)
    assert (ran.code, ran.text) == (0, "1\n")
    assert ran.err.startswith("devfix: not everything was checked: ")


def test_refusals_end_the_process(run: Callable[..., Ran], tmp_path: Path) -> None:
    """A torch that is laid out otherwise: a build for GPUs, here."""
    folder = tmp_path / "site"
    folder.mkdir()
    # Runs after torch itself and before the devices are made: torch/version.py is what tells builds apart.
    (folder / "sitecustomize.py").write_text(
        "import importlib.machinery as machinery\n"
        "real = machinery.SourceFileLoader.exec_module\n"
        "def execute(self, module):\n"
        "    real(self, module)\n"
        "    if module.__name__ == 'torch.version':\n"
        "        module.hip = '6.4'\n"
        "machinery.SourceFileLoader.exec_module = execute\n"
    )
    ran = run("import torch\nprint('on')\n", PYTHONPATH=str(folder))
    assert (ran.code, ran.text) == (2, "")
    assert re.search(r"devfix: cannot simulate devices: torch \S+ is a GPU build", ran.err)


def test_no_such_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "run", "none.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "devfix: none.py: no such file\n")


API = """
torch.cuda.get_device_properties("cuda:0").total_memory > 0 and torch.cuda.get_device_capability() >= (8, 0)
torch.cuda.memory_allocated(), torch.cuda.memory_summary(), torch.cuda.memory_stats()["allocated_bytes.all.current"]
torch.cuda.memory_snapshot(), torch.cuda.mem_get_info(), torch.cuda.reset_peak_memory_stats(), torch.cuda.empty_cache()
torch.cuda.manual_seed_all(2), torch.cuda.initial_seed(), torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
torch.Stream(device="cuda").synchronize(), torch.Stream(device="cuda:1").record_event()
torch.cuda.Stream().wait_stream(torch.cuda.current_stream()), torch.cuda.Event(enable_timing=True).record()
torch.accelerator.current_accelerator(), torch.accelerator.synchronize(), torch.accelerator.memory_allocated()
torch.get_device_module(), torch.cuda.amp.GradScaler(), torch.cuda.is_bf16_supported(), torch.backends.cudnn.version()
torch.cuda.FloatTensor(2, 3).device, isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)
torch.ones(2).pin_memory().is_pinned(), torch.empty(2, pin_memory=True).to(0, non_blocking=True)
torch.optim.AdamW([torch.ones(2, device=0, requires_grad=True)], fused=True)
torch.jit.script(torch.nn.Linear(2, 2).cuda())(torch.ones(1, 2, device="cuda"))
torch.export.export(torch.nn.Linear(2, 2).cuda(), (torch.ones(1, 2, device="cuda"),))
torch.func.vmap(lambda x: x * 2)(torch.ones(3, 2, device="cuda"))
torch.histc(torch.ones(3, device="cuda").int(), 2).tolist(), torch.linalg.svd(torch.eye(3, device="cuda"))
torch.cuda.comm.broadcast(torch.ones(2, device="cuda"), [0, 1])[1].device.index
torch.utils.checkpoint.checkpoint(torch.nn.Linear(2, 2).cuda(), torch.ones(1, 2).cuda(), use_reentrant=False).sum()
"""


def test_what_programs_ask_of_torch_cuda(simulated: Callable[..., Ran]) -> None:
    lines = [line for line in API.splitlines() if line]
    program = (
        "import torch, torch.cuda.comm, torch.utils.checkpoint, warnings\nwarnings.simplefilter('ignore')\n"
    )
    program += "".join(
        f"try:\n    {line}\nexcept Exception as error:\n    print(repr(error))\n" for line in lines
    )
    program += (
        "from torch.profiler import ProfilerActivity, profile\n"
        "with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:\n"
        "    torch.ones(2, device='cuda') + 1\n"
        "assert profiler.key_averages()\n"
    )
    ran = simulated(program, options=("--devices", "2"))
    assert (ran.code, ran.text) == (0, ""), ran.err


def test_a_worker_has_no_traceback_of_ours(simulated: Callable[..., Ran]) -> None:
    ran = simulated(
        "import torch\ntorch.cuda.is_available()\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Numbers(Dataset):\n"
        "    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, index):\n        return torch.ones(2, device='cuda')\n"
        "for batch in DataLoader(Numbers(), num_workers=1):\n    pass\n"
    )
    assert ran.code == 1 and "Cannot re-initialize CUDA in forked subprocess" in ran.err
    assert "simulate" not in ran.err.partition("devfix:")[0]
    assert "devfix: this is a device error" in ran.err


# --- processes that the program starts -------------------------------------------------------------


SPAWN = """
import torch, torch.multiprocessing as mp

def work(rank, said):
    print(f'{rank} {torch.ones(1, device=f"cuda:{rank}").device}\\n', end="", flush=True)  # at once
    said.wait()
    if rank:
        weight = torch.ones(2, 2, device="cuda")
        torch.nn.functional.linear(torch.ones(1, 2), weight)

if __name__ == "__main__":
    mp.spawn(work, (mp.get_context("spawn").Barrier(2),), nprocs=2)
"""


def test_spawn(run: Callable[..., Ran]) -> None:
    ran = run(SPAWN, options=("--devices", "2"))
    assert sorted(ran.text.splitlines()) == ["0 cuda:0", "1 cuda:1"]
    assert ran.code == 1
    assert "devfix: this is a device error" in ran.err


FORKED = """
import os, torch
{before}
reader, writer = os.pipe()
if not os.fork():
    try:
        told = str(torch.ones(1, device="cuda").device)
    except RuntimeError as error:
        told = str(error)
    os.write(writer, told.encode())
    os._exit(0)
os.close(writer)
print(os.read(reader, 10000).decode())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "cuda:0"),
        ("torch.manual_seed(0); torch.cuda.device_count(); torch.nn.Linear(2, 2)", "cuda:0"),
        ("torch.cuda.is_available()", "Cannot re-initialize CUDA in forked subprocess"),
        ("torch.nn.Linear(2, 2).cuda()", "Cannot re-initialize CUDA in forked subprocess"),
        ("torch.cuda.get_device_name()", "Cannot re-initialize CUDA in forked subprocess"),
    ],
)
def test_a_fork_may_use_what_its_parent_has_not_used(
    simulated: Callable[..., Ran], before: str, told: str
) -> None:
    ran = simulated(FORKED.format(before=before))
    assert ran.text.startswith(told), ran.err
