"""The simulator itself: what it refuses, how it is started, what it tells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.smoke import Run, run_program


def simulated(source: str, devices: int = 1) -> Run:
    run = run_program(source, "cuda", devices=devices)
    if run.device != "cuda (simulated)":
        pytest.skip(f"there is a real GPU: {run.device}")
    return run


def test_devices_are_there() -> None:
    run = simulated(
        """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
x = torch.ones(2, device="cuda")
assert type(x) is torch.Tensor and x.is_cuda and x.device == torch.device("cuda", 0)
torch.cuda.set_device(1)
assert torch.ones(2, device="cuda").device.index == 1 and torch.cuda.current_device() == 1
with torch.cuda.device(0):
    assert torch.zeros(1).cuda().get_device() == 0
assert torch.zeros(1).to(0).device.index == 0
print(torch.cuda.get_device_name(), torch.device("cuda"))
""",
        devices=2,
    )
    assert run.status == "ok", run
    assert "simulated" in run.output


def test_sparse_tensors_while_another_device_is_the_current_one() -> None:
    run = simulated(
        """
import torch
x = torch.eye(3, device="cuda:0")
torch.cuda.set_device(1)
for sparse in (x.to_sparse(), x.to_sparse_csr(), x.to_sparse().coalesce(), torch.eye(3).to_sparse().to(x.device)):
    assert sparse.device == x.device and torch.equal(sparse @ x, x) and torch.equal(sparse.to_dense(), x)
assert torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2), device="cuda:0").device.index == 0
assert torch.cuda.current_device() == 1
""",
        devices=2,
    )
    assert run.status == "ok", run


def test_a_storage_is_as_large_as_it_is_told_to_be() -> None:
    """FSDP frees the memory of parameters, and asks whether they are there by its size."""
    run = simulated(
        """
import torch
x = torch.ones(4, device="cuda")
storage = x.untyped_storage()
storage.resize_(0)
assert (storage.size(), x.untyped_storage().nbytes(), x._typed_storage()._size()) == (0, 0, 0)
storage.resize_(16)
assert x.fill_(2).sum().item() == 8 and storage.nbytes() == 16
"""
    )
    assert run.status == "ok", run


def test_a_device_that_is_not_there() -> None:
    run = simulated("import torch\nnumber = 3\ntorch.ones(1, device=f'cuda:{number}')")
    assert run.status == "raised"
    assert re.match("(Accelerator|Runtime)Error: CUDA error: invalid device ordinal", run.error)
    assert run.line == 3


@pytest.mark.parametrize(
    "code",
    [
        "torch.quantize_per_tensor(torch.ones(3, device='cuda'), 1.0, 0, torch.qint8)",
        "torch.ones(2, device='cuda').untyped_storage()._share_cuda_()",
        "torch.ones(2, device='cuda').untyped_storage().resize_(64)",
    ],
)
def test_limits_are_refusals(code: str) -> None:
    run = simulated(f"import torch\n{code}")
    assert run.status == "unsupported"
    assert "limit of the simulator, not a bug found in your program" in run.error


def test_a_part_that_only_a_build_for_gpus_has() -> None:
    run = simulated(
        """
import torch
nested = torch.nested.nested_tensor([torch.ones(4, 8, device="cuda")]).view(1, -1, 2, 4).transpose(1, 2)
torch.nn.functional.scaled_dot_product_attention(nested, nested, nested)
"""
    )
    assert run.status == "unsupported", run


def test_nested_tensors_of_two_devices() -> None:
    run = simulated(
        """
import torch
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
nested.cuda() * nested
"""
    )
    assert run.status == "raised" and "found at least two devices, cuda:0 and cpu!" in run.error, run


@pytest.mark.parametrize(
    "code, backend",
    [
        (
            "torch.nested.nested_tensor([torch.ones(2, 3)], device='cuda').sum(-1, keepdim=True)",
            "NestedTensorCUDA",
        ),
        ("torch.eye(2, device='cuda').to_sparse().exp()", "SparseCUDA"),
    ],
)
def test_what_cuda_lacks_as_well_is_an_error_of_the_program(code: str, backend: str) -> None:
    run = simulated(f"import torch\n{code}")
    assert run.status == "raised" and f"with arguments from the '{backend}' backend" in run.error, run


def test_the_default_tensor_type_is_that_of_the_constructor() -> None:
    run = simulated(
        """
import torch


class Own(torch.Tensor):
    pass


torch.set_default_tensor_type("torch.cuda.FloatTensor")
for made in (torch.Tensor(2, 3), torch.Tensor([1.0]), torch.Tensor(), Own([1.0])):
    assert made.is_cuda, made
assert type(Own([1.0])) is Own and torch.FloatTensor([1.0]).is_cpu and torch.Tensor(torch.FloatTensor([1.0])).is_cpu
assert torch.nn.Parameter(torch.Tensor(3)).is_cuda and torch.Tensor([2.0]).requires_grad_().is_leaf
torch.set_default_tensor_type(torch.FloatTensor)
assert torch.Tensor(2, 3).is_cpu and torch.Tensor([1.0]).is_cpu and torch.nn.Linear(2, 2)(torch.Tensor(1, 2)).is_cpu
"""
    )
    assert run.status == "ok", run


def test_functions_of_torch_are_known_by_their_identity() -> None:
    """By `__torch_function__`, pickle and torch.fx."""
    run = simulated(
        """
import pickle, torch, torch.fx
from torch.overrides import TorchFunctionMode, get_overridable_functions, resolve_name
own = [torch.zeros_like, torch.bernoulli, torch.multinomial, torch.poisson, torch.Tensor.normal_, torch.Tensor.type]
for function in [*own, torch.zeros, torch.cuda.synchronize, torch.cuda.memory_allocated]:
    assert pickle.loads(pickle.dumps(function)) is function
assert [resolve_name(function) for function in own[:4]] == [f"torch.{one.__name__}" for one in own[:4]]
assert set(own[:4]) < set(get_overridable_functions()[torch])


class Ones:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.ones_like if function is torch.zeros_like else NotImplemented


class Seen(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(function)
        return function(*args, **(kwargs or {}))


seen = []
with Seen():
    torch.zeros(2).normal_()
assert seen == [torch.zeros, torch.Tensor.normal_], seen
assert torch.zeros_like(Ones()) is torch.ones_like
traced = torch.fx.symbolic_trace(lambda x: torch.zeros_like(x) + torch.randn(2, device=x.device).type(torch.float64))
assert "torch.zeros_like" in traced.code and traced(torch.ones(2, device="cuda")).dtype is torch.float64
"""
    )
    assert run.status == "ok", run


def test_memory_pools_and_libraries() -> None:
    run = simulated(
        """
import torch
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = torch.ones(1024, device="cuda")
assert pool.id != torch.cuda.MemPool().id and pool.snapshot() == []
nested = torch.cuda.memory_stats_as_nested_dict()
assert nested["allocated_bytes"]["all"]["current"] == torch.cuda.memory_allocated() >= 4096
assert "allocated_bytes.current" in torch.cuda.host_memory_stats()
plans = torch.backends.cuda.cufft_plan_cache
plans[0].max_size = 7
plans.clear()
assert (plans.size, plans.max_size) == (0, 7)
assert torch.backends.cuda.preferred_linalg_library("magma") == torch.backends.cuda.preferred_linalg_library()
assert torch.cuda.nccl.version() >= (2, 10)
"""
    )
    assert run.status == "ok", run


def test_pinned_memory_that_cpp_asks_for() -> None:
    """DistributedDataParallel does so where parameters may go unused, and insists that it is pinned."""
    run = simulated(
        """
import os, torch, torch.distributed, torch.nn as nn
y = torch.ones(3, device="cuda").to("cpu", non_blocking=True)
assert (y.is_pinned(), torch.ones(3).is_pinned(), y.is_pinned()) == (True, False, True)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
for options in ({"find_unused_parameters": True}, {"static_graph": True}):
    net = nn.parallel.DistributedDataParallel(Half().cuda(), **options)
    for _ in range(2):
        net(torch.ones(1, 2, device="cuda")).sum().backward()
    assert net.module.used.weight.grad.tolist() == [[2, 2], [2, 2]] and net.module.unused.weight.grad is None
"""
    )
    assert run.status == "ok", run


def test_what_a_collective_gives_in_the_end_is_on_the_device() -> None:
    """A hook of DistributedDataParallel goes on with it."""
    run = simulated(
        """
import torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
x = torch.ones(2, device="cuda")
work = dist.all_reduce(x, async_op=True)
work.wait()
given = work.get_future().then(lambda future: future.value()[0]).wait()
assert given.device == x.device and given.data_ptr() == x.data_ptr()
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 20).cuda())
net.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
for _ in range(3):
    net(torch.ones(4, 20, device="cuda")).sum().backward()
"""
    )
    assert run.status == "ok", run


def test_a_caught_refusal_is_one() -> None:
    run = simulated(
        """
import torch
try:
    torch.quantize_per_tensor(torch.ones(1, device='cuda'), 1.0, 0, torch.qint8)
except RuntimeError:
    print("on")
"""
    )
    assert (run.status, run.output) == ("unsupported", "on\n")


def test_statistics() -> None:
    run = simulated(
        """
import torch
from devfix.simulate import enabled, stats
assert enabled() == 1
start, mixed = stats.kernels, stats.mixed
x = torch.ones(3, device="cuda")
x + x
assert stats.kernels > start and stats.mixed == mixed
x + torch.tensor(1.0)
assert stats.mixed > mixed
"""
    )
    assert run.status == "ok", run


REFUSED = {
    "a ROCm build": ("torch.version.hip = '6.4'", "GPU build"),
    "real CUDA": ("torch.cuda.is_available = lambda: True", "nothing to simulate"),
    "a guard of another order": (
        """
from devfix.simulate import guard
read, swapped = guard.virtual_functions, {"type": "deviceCount", "deviceCount": "type"}
guard.virtual_functions = lambda *where: [swapped.get(name, name) for name in read(*where)]
""",
        "device guard is not laid out as its header says",
    ),
    "hooks of another order": (
        """
from devfix.simulate import hooks
read, swapped = hooks.virtual_functions, {"getNumGPUs": "current_device", "current_device": "getNumGPUs"}
hooks.virtual_functions = lambda *where: [swapped.get(name, name) for name in read(*where)]
""",
        "CUDAHooksInterface is not laid out as its headers say",
    ),
    "shorter tables": (
        """
from devfix.simulate import hooks
read = hooks.virtual_functions
hooks.virtual_functions = lambda *where: [*read(*where), *(f"more{i}" for i in range(9))]
""",
        "holds no function",
    ),
    "no headers": (
        """
from devfix.simulate import vtable
vtable.Path.read_text = lambda self, **named: (_ for _ in ()).throw(FileNotFoundError(str(self)))
""",
        "cannot read",
    ),
    "another system": (
        "import sys, sysconfig; sysconfig.get_paths(); sys.platform = 'win32'",
        "not on win32",
    ),
}


@pytest.mark.parametrize("change, reason", REFUSED.values(), ids=REFUSED)
def test_cannot_simulate(change: str, reason: str) -> None:
    run = run_program(f"import torch\n{change}\nfrom devfix.simulate import enable\nenable()", "cpu")
    assert run.status == "raised", run
    assert run.error.startswith("CannotSimulate: "), run.error
    assert reason in run.error


def test_enable_twice() -> None:
    run = simulated("from devfix.simulate import enable\nassert enable(1) == ()\nenable(2)")
    assert run.error == "CannotSimulate: this process already has 1 simulated devices (cuda)"


PROGRAM = """
import sys, torch, factors
x = torch.ones(2, device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    (x * factors.FACTOR).sum().backward()
print(__name__, torch.cuda.device_count(), x.grad.tolist(), sys.argv[1:])
"""


@pytest.mark.parametrize("stub", ["", "1"], ids=["fake guard", "machine code"])
def test_command(tmp_path: Path, stub: str) -> None:
    """`python -m devfix.simulate`, also in the way of a torch without _ensureCUDADeviceGuardSet."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "factors.py").write_text("FACTOR = 3.0\n")
    done = subprocess.run(
        [sys.executable, "-m", "devfix.simulate", "-n", "2", str(tmp_path / "program.py"), "-n", "x"],
        capture_output=True,
        text=True,
        env={**os.environ, "DEVFIX_SIMULATE_STUB": stub, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    if "nothing to simulate" in done.stderr or "GPU build" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout == "__main__ 2 [3.0, 3.0] ['-n', 'x']\n", done.stderr


def test_command_without_a_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devfix.simulate", str(tmp_path / "none.py")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "no such file" in done.stderr
