"""Several devices: DataParallel's C++ half, and process groups of one process."""

from __future__ import annotations

import os
from typing import Any

import torch

from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import current_device
from devfix.simulate.notes import note


def _device(item: Any) -> Any:
    if not isinstance(item, int):
        return torch.device(item)
    return torch.device("cuda", item) if item >= 0 else torch.device("cpu")


def _broadcast(tensor: Any, devices: Any) -> list[Any]:
    return [tensor.to(_device(device)) for device in devices]


def _broadcast_coalesced(tensors: Any, devices: Any, buffer_size: int | None = None) -> list[list[Any]]:
    return [
        [tensor if tensor.device == _device(device) else tensor.to(_device(device)) for tensor in tensors]
        for device in devices
    ]


def _scatter(
    tensor: Any, devices: Any, chunk_sizes: Any = None, dim: int = 0, streams: Any = None
) -> list[Any]:
    if chunk_sizes is not None:
        parts = tensor.split(list(chunk_sizes), dim)
    else:
        parts = tensor.chunk(len(devices), dim)
    # torch gives fewer chunks than devices where there is less to share out
    return [part.to(_device(device)) for part, device in zip(parts, devices, strict=False)]


def _gather(tensors: Any, dim: int, destination: Any = None) -> Any:
    device = _device(current_device() if destination is None else destination)
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def install() -> None:
    torch._C._broadcast = _broadcast
    torch._C._broadcast_coalesced = _broadcast_coalesced
    torch._C._scatter = _scatter
    torch._C._gather = _gather

    import torch.distributed as dist

    if dist.is_available():
        _install_groups(dist)


def _install_groups(dist: Any) -> None:
    """NCCL does not exist here; one process can be simulated, several cannot."""
    original = dist.init_process_group

    def init_process_group(backend: Any = None, *arguments: Any, **named: Any) -> Any:
        if backend is not None and "nccl" not in str(backend):
            return original(backend, *arguments, **named)
        world_size = named.get("world_size", -1)
        if world_size == -1:
            world_size = int(os.environ.get("WORLD_SIZE", "1"))
        if world_size > 1:
            raise SimulationUnsupported(f"NCCL process group with world_size={world_size}")
        from torch.testing._internal.distributed.fake_pg import FakeStore

        note("NCCL is replaced by a one-process fake group")
        return original("fake", store=FakeStore(), rank=0, world_size=1)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group
    dist.is_nccl_available = lambda: True

    from torch.nn.parallel import DistributedDataParallel

    original_init = DistributedDataParallel.__init__

    def own_gradients(state: Any, bucket: Any) -> Any:
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def init(self: Any, module: Any, *arguments: Any, **named: Any) -> None:
        original_init(self, module, *arguments, **named)
        if str(dist.get_backend(self.process_group)) == "fake":
            self.register_comm_hook(None, own_gradients)  # the fake group's Work has no result

    DistributedDataParallel.__init__ = init
