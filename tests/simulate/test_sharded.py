"""FSDP, FSDP2 and tensor parallel on two simulated devices: what they train is what one process trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.simulate import supervise

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


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """All programs as modules of one, for torch takes seconds to be imported, in three processes.

    The mesh of the first one makes the process group, with gloo for the CPU and NCCL for CUDA.
    """
    for name, program in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(f"{HEAD}{program}print('trained by {name};')\n")
    path = tmp_path / "program.py"
    path.write_text(f"import {', '.join(PROGRAMS)}\nfsdp2.dist.destroy_process_group()\n")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(path)]
    ended = supervise.run(supervise.python(command), 2, capture=True, seconds=300)
    if any(told.cannot for told in ended.told):
        pytest.skip(ended.unchecked)
    assert ended.code == 0 and not ended.unchecked, ended.output
    assert [ended.output.count(f"trained by {name};") for name in PROGRAMS] == [2] * len(PROGRAMS)
