"""Programs of two processes, each on a device of its own."""  # devices: 2

import os
import socket
import tempfile

import lightning as L
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from common import DEVICE, report
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def data():
    torch.manual_seed(1)
    return TensorDataset(torch.randn(24, 8), torch.randint(0, 4, (24,)))


def of_process(rank):
    return torch.device("cuda", rank) if DEVICE.type == "cuda" else torch.device("cpu")


def trained(model, rank, whole=lambda tensor: tensor, inputs=lambda tensor: tensor):
    """The last loss of a few steps, the same in all processes."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = DistributedSampler(data(), shuffle=False)
    for x, y in DataLoader(data(), batch_size=4, sampler=sampler):
        x, y = inputs(x.to(of_process(rank))), inputs(y.to(of_process(rank)))
        optimizer.zero_grad()
        loss = F.cross_entropy(whole(model(x)), y)
        loss.backward()
        optimizer.step()
    loss = loss.detach().clone()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    return loss.item() / dist.get_world_size()


def ddp(rank):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), net()).to(of_process(rank))
    ids = [rank] if DEVICE.type == "cuda" else None
    return trained(nn.parallel.DistributedDataParallel(model, device_ids=ids), rank)


def fsdp(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return trained(FullyShardedDataParallel(net().to(of_process(rank)), device_id=of_process(rank)), rank)


def fsdp2(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE.type, (2,))
    model = net().to(of_process(rank))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return trained(fully_shard(model, mesh=mesh), rank)


def tensor_parallel(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def everywhere(tensor):
        dist.broadcast(tensor, 0)
        return tensor

    mesh = init_device_mesh(DEVICE.type, (2,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return trained(parallelize_module(net().to(of_process(rank)), mesh, plan), rank, inputs=everywhere)


def accelerate(rank):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=DEVICE.type == "cpu")
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(data(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    assert accelerator.num_processes == 2 and accelerator.device.type == DEVICE.type
    return accelerator.gather(loss.detach()).mean().item()


def process(rank, name, port, path):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2"
    )
    torch.manual_seed(0)
    if DEVICE.type == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
    value = globals()[name](rank)
    dist.destroy_process_group()
    if rank == 0:
        torch.save(value, path)


def spawned(name):
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        port, path = found.getsockname()[1], os.path.join(folder, "value")
        found.close()
        torch.multiprocessing.spawn(process, (name, port, path), nprocs=2)
        return torch.load(path)


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss, sync_dist=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def lightning():
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_epochs=1,
            devices=2,
            accelerator="auto",
            strategy="ddp_spawn",
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Module(), DataLoader(data(), batch_size=4))
        return trainer.callback_metrics["loss_epoch"].item()


if __name__ == "__main__":
    report("DistributedDataParallel", lambda: spawned("ddp"))
    report("FSDP", lambda: spawned("fsdp"))
    report("FSDP2", lambda: spawned("fsdp2"))
    report("tensor parallel", lambda: spawned("tensor_parallel"))
    report("accelerate, two processes", lambda: spawned("accelerate"))
    report("lightning DDP", lightning)
