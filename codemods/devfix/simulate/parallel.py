"""Several devices in one process: DataParallel's C++ half."""

from __future__ import annotations

from typing import Any

import torch

from devfix.simulate import groups
from devfix.simulate.machine import current_device, machine


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
    if machine.gpu_build:  # without these, torch.cuda.nccl is not available, as in a build for the CPU
        for name in [one for one in dir(torch._C) if one.startswith("_nccl_") and "version" not in one]:
            delattr(torch._C, name)

    groups.install()
