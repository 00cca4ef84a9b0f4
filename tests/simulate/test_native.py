"""The compiled extension (native.cpp), which stands in for what is known of the layout of torch's objects."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.simulate import supervise
from devfix.simulate.errors import is_refusal
from facts import facts, themes
from later import needs_torch
from test_cuda_facts import agrees

TESTS = Path(__file__).resolve().parent
# No layout is looked at, so that only the extension can have made the devices.
ENABLE = """
import json, sys
sys.path.insert(0, {tests!r})
import torch
from devfix.simulate import enable, guard, hooks, native
guard.install = hooks.install = None
{change}
enable({devices})
assert native.built()
"""
FACTS = """
from facts import facts
from facts.running import outcomes
wanted = [fact for theme in {themes!r} for fact in facts(theme) if fact.devices == {devices}]
wanted = [fact for fact in wanted if fact.available(torch.__version__)]
print(json.dumps([torch.__version__, outcomes(wanted, 2)]))
"""


Python = Callable[..., supervise.Ended]


@pytest.fixture
def python(programs: Path) -> Python:
    """Run a program in a process that has no devices yet; `more` is set when it has begun."""

    def run(source: str, built: str | Path, **more: str) -> supervise.Ended:
        environment = f"import os\nos.environ.update({more!r})\n"
        (programs / "program.py").write_text(environment + source)
        return supervise.run(
            supervise.python(["program.py"]),
            device="cpu",
            cwd=str(programs),
            env={**os.environ, "DEVFIX_SIMULATE_BUILT": str(built)},
            capture=True,
            seconds=300,
        )

    return run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extension for this torch, made by the command."""
    needs_torch()
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("built")
    words = [sys.executable, "-m", "devfix", "simulate", "--build"]
    environment = {**os.environ, "DEVFIX_SIMULATE_BUILT": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600)
    if "nothing to simulate" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "by the compiled extension, two devices tried" in done.stderr
    assert len(list((folder / "simulate").iterdir())) == 1
    return folder


def wrong(python: Python, themes: list[str], devices: int, built: Path, change: str = "") -> list[str]:
    """The facts that do not hold in a process with the extension."""
    source = ENABLE.format(tests=str(TESTS), devices=devices, change=change)
    done = python(source + FACTS.format(themes=themes, devices=devices), built)
    assert done.code == 0, done.output
    version, found = json.loads(done.output.splitlines()[-1])
    known = {fact.id: fact for theme in themes for fact in facts(theme)}
    assert found
    return [f"{name}: {text}" for name, text in found.items() if not agrees(known[name], text, version)]


@pytest.mark.parametrize("devices", [1, 2])
def test_the_facts(built: Path, devices: int, python: Python) -> None:
    # What two facts of one device import, each in a fork, takes seconds.
    assert not wrong(python, themes(), devices, built, "import torch._dynamo" if devices == 1 else "")


# A build for CPUs that is like one for GPUs: with a kernel and a function for CUDA that are torch's own.
GPU_BUILD = """
torch.version.cuda = "13.0"
torch._C._cuda_tunableop_enable = lambda value: None
torch._C._nccl_all_reduce = lambda *arguments: None
owner = torch.library.Library("quantized", "FRAGMENT")
owner.define("covered(Tensor x) -> Tensor")
owner.impl("covered", lambda x: x, "CUDA")
torch.library._impls.discard("quantized/covered/CUDA")
"""


REFUSED = """
assert not torch.cuda.nccl.is_available([torch.ones(1).cuda(device) for device in (0, 1)])
torch.ones(1).cuda().untyped_storage().resize_(64)
for call, argument in (torch.ops.quantized.covered, torch.ones(1).cuda()), (torch._C._cuda_tunableop_enable, True):
    try:
        call(argument)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_what_a_gpu_build_has_of_its_own_is_covered(built: Path, python: Python) -> None:
    assert not wrong(python, ["first"], 1, built, GPU_BUILD)
    source = ENABLE.format(tests=str(TESTS), devices=2, change=GPU_BUILD)
    done = python(source + REFUSED, built)
    assert done.code == 0, done.output
    first, second = done.output.splitlines()[-2:]
    assert is_refusal(first) and is_refusal(second)


def test_what_comes_to_cuda_itself_is_no_verdict() -> None:
    assert is_refusal(
        "AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    )
    assert is_refusal("AcceleratorError: CUDA error: no CUDA-capable device is detected")
    assert not is_refusal("AcceleratorError: CUDA error: invalid device ordinal")


TRAINED = """
from devfix.simulate import stats
import torch.nn as nn, torch.nn.functional as F

def steps(device):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    model = nn.Sequential(body, nn.Linear(128, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5))
    x, y = torch.randn(4, 3, 8, 8), torch.tensor([0, 3, 1, 4])
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) + model[1].weight[y.clamp(max=2)].square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()

steps("cuda")
before, by_python = stats.kernels, stats.launched
assert abs(steps("cuda") - steps("cpu")) < 1e-6
print(stats.kernels - before > 150, (stats.launched - by_python) / (stats.kernels - before) < 0.02)
"""


def test_a_step_of_training_is_computed_without_python(built: Path, python: Python) -> None:
    done = python(ENABLE.format(tests=str(TESTS), devices=1, change="") + TRAINED, built)
    assert done.output.splitlines()[-1:] == ["True True"], done.output


FREED = """
start = torch.cuda.memory_allocated()
x = torch.zeros(1000, 1000, device="cuda")
view = x[10:].t()
y = (x + 1).relu_()
three = torch.split_with_sizes_copy(x, [200, 300, 500])
print((torch.cuda.memory_allocated() - start) // 4_000_000, y is y.add_(1), view.data_ptr() == x[10].data_ptr())
del x, y, three
print((torch.cuda.memory_allocated() - start) // 4_000_000)
del view
print(torch.cuda.memory_allocated() - start, torch.cuda.max_memory_allocated() // 4_000_000)
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.max_memory_allocated() - start)
"""


def test_memory_is_counted_until_it_is_freed(built: Path, python: Python) -> None:
    done = python(ENABLE.format(tests=str(TESTS), devices=1, change="") + FREED, built)
    assert done.output.splitlines()[-4:] == ["3 True True", "1", "0 3", "0"], done.output


RESIZED = """
x = torch.arange(4.0, device="cuda")
view, start = x[1:3], torch.cuda.memory_allocated()
storage = x.untyped_storage()
storage.resize_(2**20)
print(storage.nbytes(), view.tolist(), (torch.cuda.memory_allocated() - start) // 2**10)
storage.resize_(0)
print(storage.nbytes(), x.untyped_storage().nbytes(), torch.cuda.memory_allocated() - start)
storage.resize_(16)
x.copy_(torch.tensor([5.0, 6, 7, 8]))
print(view.tolist(), torch.cuda.memory_allocated() - start)
"""


def test_storages_grow_and_give_their_memory_back(built: Path, python: Python) -> None:
    done = python(ENABLE.format(tests=str(TESTS), devices=1, change="") + RESIZED, built)
    wanted = ["1048576 [1.0, 2.0] 1023", "0 0 -512", "[6.0, 7.0] 0"]
    assert done.output.splitlines()[-3:] == wanted, done.output


SWAPPED = """
from devfix.simulate import guard, enable
read, swapped = guard.virtual_functions, {"type": "deviceCount", "deviceCount": "type"}
guard.virtual_functions = lambda *where: [swapped.get(name, name) for name in read(*where)]
enable(2)
import torch
x = torch.ones(2, device="cuda:1", requires_grad=True)
x.sum().backward()
torch.cuda.set_device(1)
print(x.grad.device, torch.ones(2).to(0).device, torch._C._get_accelerator(), torch.ones(2).pin_memory().is_pinned())
"""


def test_it_is_used_where_the_layout_is_another(built: Path, tmp_path: Path, python: Python) -> None:
    assert python(SWAPPED, built).output == "cuda:1 cuda:0 cuda True\n"
    without = python(SWAPPED, tmp_path)
    assert without.code == 1 and "; `devfix simulate --build` compiles an extension" in without.output


def test_it_is_not_looked_for_in_the_folder_at_hand(python: Python) -> None:
    source = "from devfix.simulate import native; print(native.library(), native.built())"
    assert python(source, "simulate", XDG_CACHE_HOME="", HOME="here").output == "None False\n"


def test_a_library_that_cannot_be_loaded(built: Path, tmp_path: Path, python: Python) -> None:
    (tmp_path / "simulate").mkdir()
    (library,) = (built / "simulate").iterdir()
    (tmp_path / "simulate" / library.name).write_text("no library")
    done = python("from devfix.simulate import enable; enable()", tmp_path)
    assert "CannotSimulate: the compiled extension cannot be loaded" in done.output


def test_no_compiler(tmp_path: Path, python: Python) -> None:
    needs_torch()
    source = "from devfix.cli import main; raise SystemExit(main(['simulate', '--build']))"
    none = python(source, tmp_path, CXX=str(tmp_path / "none"))
    assert none.code == 2 and "could not be run" in none.output
    (tmp_path / "broken.py").write_text("raise SystemExit('it is broken')")
    fails = python(source, tmp_path, CXX=f"{sys.executable} {tmp_path / 'broken.py'}")
    assert fails.code == 2 and "could not compile it: it is broken" in fails.output
    assert not list((tmp_path / "simulate").iterdir())
