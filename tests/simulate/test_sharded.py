"""FSDP, FSDP2 and tensor parallel on two simulated devices: what they train is what one process trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import copy, os
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(0)
whole = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
model = copy.deepcopy(whole)
x = torch.randn(8, 8, device="cuda")

def step(module, optimizer, batch):
    optimizer.zero_grad()
    module(batch).square().mean().backward()
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()

def compare():
    for one, other in zip(model.parameters(), whole.parameters(), strict=True):
        assert one.to_local().device == torch.device("cuda", rank)
        assert torch.allclose(one.full_tensor(), other, atol=1e-5)
"""
FSDP2 = """
mesh = init_device_mesh("cuda", (2,))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
one, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(whole.parameters(), 0.1)
for _ in range(3):
    step(model, one, x[rank * 4 : rank * 4 + 4])
    step(whole, other, x)
compare()
"""
FSDP = """
from torch.distributed.fsdp import FullyShardedDataParallel

model = FullyShardedDataParallel(model, device_id=rank)
one, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(whole.parameters(), 0.1)
for _ in range(3):
    one.zero_grad()
    model(x[rank * 4 : rank * 4 + 4]).square().mean().backward()
    model.clip_grad_norm_(1.0)
    one.step()
    step(whole, other, x)
assert torch.allclose(model(x), whole(x), atol=1e-5)
"""
TENSOR_PARALLEL = """
mesh = init_device_mesh("cuda", (2,))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
one, other = torch.optim.SGD(model[:1].parameters(), 0.1), torch.optim.SGD(whole[:1].parameters(), 0.1)
for _ in range(3):
    step(model, one, x)
    step(whole, other, x)
assert torch.allclose(model(x), whole(x), atol=1e-5)
assert torch.allclose(model[0].weight.full_tensor(), whole[0].weight, atol=1e-5)
"""


SYNC_BATCH_NORM = """
whole = nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)).cuda()
model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
one, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(whole.parameters(), 0.1)
x = x.unsqueeze(1)
for _ in range(3):
    step(model, one, x[rank * 4 : rank * 4 + 4])
    step(whole, other, x)
for one, other in zip(model.module.state_dict().values(), whole.state_dict().values(), strict=True):
    assert torch.allclose(one, other, atol=1e-5)
"""


PROGRAMS = {
    "fsdp2": FSDP2,
    "fsdp": FSDP,
    "tensor_parallel": TENSOR_PARALLEL,
    "sync_batch_norm": SYNC_BATCH_NORM,
}


GROUP = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group(sys.argv[1])
rank, device = dist.get_rank(), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)).to(device)
net = DistributedDataParallel(net, device_ids=[device.index])
for step in range(2):
    torch.manual_seed(step + rank)
    loss = net(torch.randn(6, 4, device=device)).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weight in net.parameters():
            weight -= 0.1 * weight.grad
total = torch.ones(2, device=device) * (rank + 1)
dist.all_reduce(total)
parts = [torch.zeros(1, device=device) for _ in range(dist.get_world_size())]
dist.all_gather(parts, torch.full((1,), rank + 5.0, device=device))
objects = [None] * dist.get_world_size()
dist.all_gather_object(objects, {"rank": rank})
weights = [torch.zeros_like(net.module[0].weight) for _ in parts]
dist.all_gather(weights, net.module[0].weight.detach())
dist.barrier()
try:
    dist.all_reduce(torch.ones(1))
    refused = "no"
except RuntimeError as error:
    refused = str(error)
if rank == 0:
    same = all(torch.equal(weights[0], other) for other in weights)
    print(total.tolist(), [part.item() for part in parts], objects, same, total.device, flush=True)
    print(dist.get_backend(), refused, flush=True)
dist.destroy_process_group()
"""


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """All programs as modules of one, for torch takes seconds to be imported, in three processes.

    The mesh of the first one makes the process group, with gloo for the CPU and NCCL for CUDA; that of the last one
    has NCCL alone.
    """
    for name, program in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(f"{HEAD}{program}print('trained by {name};')\n")
    said = torchrun(
        tmp_path, f"import {', '.join(PROGRAMS)}\nfsdp2.dist.destroy_process_group()\n{GROUP}", "nccl", 2
    )
    assert [said.count(f"trained by {name};") for name in PROGRAMS] == [2] * len(PROGRAMS)
    *_, first, second = said.splitlines()
    assert first == "[3.0, 3.0] [5.0, 6.0] [{'rank': 0}, {'rank': 1}] True cuda:0"
    assert second == "nccl No backend type associated with device type cpu"


@pytest.mark.slow
def test_a_group_of_one(tmp_path: Path) -> None:
    first, second = torchrun(tmp_path, GROUP, "gloo", 1).splitlines()
    assert (first, second) == ("[1.0, 1.0] [5.0] [{'rank': 0}] True cuda:0", "gloo no")


def torchrun(folder: Path, program: str, backend: str, processes: int) -> str:
    """What a program prints under `devfix run`."""
    (folder / "program.py").write_text(program)
    launcher = (
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc_per_node={processes}",
        "program.py",
        backend,
    )
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "run", "--devices", str(processes), *launcher],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    if "GPU build" in done.stderr or "nothing was simulated" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0 and "not checked" not in done.stderr, done.stderr
    return done.stdout
