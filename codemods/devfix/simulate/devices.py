"""torch.cuda's questions about devices: how many, which one, what kind, how much memory."""

from __future__ import annotations

import enum
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from devfix.simulate import memory
from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import (
    check_fork,
    check_ordinal,
    current_device,
    machine,
    not_capturing,
    set_device,
)

NAME = "simulated {} device (devfix)"
CAPABILITY = (8, 0)


class _CudaDeviceProperties(types.SimpleNamespace):
    """As torch._C._CudaDeviceProperties."""


_PROPERTIES = _CudaDeviceProperties(
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    total_memory=memory.TOTAL,
    multi_processor_count=108,
    is_integrated=0,
    is_multi_gpu_board=0,
    max_threads_per_multi_processor=2048,
    gcnArchName="",
    warp_size=32,
    L2_cache_size=40 * 2**20,
    uuid="simulated",
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=166912,
    shared_memory_per_multiprocessor=167936,
    pci_bus_id=0,
    # Of XPU.
    has_fp16=True,
    has_fp64=True,
    has_atomic64=True,
    platform_name="simulated",
    driver_version="simulated",
    max_compute_units=512,
    gpu_eu_count=512,
    gpu_subslice_count=64,
    max_work_group_size=1024,
    max_num_sub_groups=64,
    sub_group_sizes=[16, 32],
)


class cudaError(enum.IntEnum):
    success = 0


_CUDART = types.SimpleNamespace(
    cudaProfilerStart=lambda: cudaError.success,
    cudaProfilerStop=lambda: cudaError.success,
    cudaMemGetInfo=lambda device: torch.cuda.mem_get_info(),
    cudaError=cudaError,
)


def device_index(device: Any) -> int:
    """The number of a device as torch.cuda takes it: None, a number, text or a torch.device."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != machine.kind:
        raise ValueError(f"Expected a {machine.kind} device, but got: {device}")
    return current_device() if device.index is None else int(device.index)


def _set_device(device: Any) -> None:
    if (
        not isinstance(device, int)
        and torch.device(device).type == machine.kind
        and torch.device(device).index is None
    ):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    index = device_index(device)
    if index >= 0:
        check_ordinal(index)
        set_device(index)


def _exchange(index: int) -> int:
    old = current_device()
    if index >= 0:
        check_ordinal(index)
        set_device(index)
    return old


def _properties(device: Any = None) -> Any:
    check_fork()
    if not 0 <= device_index(device) < machine.devices:
        raise AssertionError("Invalid device id")
    _PROPERTIES.name = NAME.format(machine.kind.upper())
    return _PROPERTIES


def _synchronize(device: Any = None) -> None:
    not_capturing()
    check_ordinal(device_index(device))


def _can_access(device: Any, peer: Any) -> bool:
    for index, what in ((device_index(device), "device"), (device_index(peer), "peer device")):
        if not 0 <= index < machine.devices:
            raise AssertionError(f"Invalid {what} id")
    return True


def _in_child() -> None:
    machine.bad_fork = machine.bad_fork or machine.used


def _current_device() -> int:
    check_fork()
    return current_device()


def _count() -> int:
    """As the driver tells it, after which a forked child must not use it; NVML tells the same without that."""
    machine.used = True
    return machine.devices


def install() -> None:
    """torch.cuda, or the module of other devices that have one like it."""
    module = machine.module
    module._lazy_init = lambda: check_fork()
    module.init = lambda: check_fork()
    module._initialized = True
    module._is_compiled = lambda: True
    module.is_available = lambda: _count() > 0
    module.is_initialized = lambda: True
    module._cached_device_count = machine.devices
    module.device_count = lambda: machine.devices
    module.current_device = _current_device
    module.set_device = lambda device: _set_device(device)
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=_in_child)

    functions = {f"_{machine.kind}_{name}": one for name, one in _native_functions().items()}
    for name in _declared():
        if machine.gpu_build or not hasattr(torch._C, name):
            setattr(torch._C, name, _refusal(name))
    for name, function in functions.items():
        setattr(torch._C, name, _own(function))
    module._exchange_device = lambda index: _exchange(index)
    module._maybe_exchange_device = lambda index: _exchange(index)
    module._lazy_call = lambda function, **named: function()
    module._is_in_bad_fork = lambda: machine.bad_fork
    module.default_generators = tuple(machine.default_generators)
    module.synchronize = lambda device=None: _synchronize(device)

    module.get_device_properties = lambda device=None: _properties(device)
    module.get_device_name = lambda device=None: _properties(device).name
    module._get_device_properties = lambda index: _properties(index)
    module.is_bf16_supported = lambda including_emulation=True: True
    module.can_device_access_peer = lambda device, peer_device: _can_access(device, peer_device)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.set_device_index = accelerator.set_device_idx = lambda device: _set_device(device)
        accelerator.synchronize = lambda device=None: _synchronize(device)
        for name in ("_accelerator_exchangeDevice", "_accelerator_maybeExchangeDevice"):
            setattr(torch._C, name, _own(_exchange))
    memory.install()


def install_nvidias() -> None:
    """What only torch.cuda has."""
    cuda = torch.cuda
    cuda._CudaDeviceProperties = _CudaDeviceProperties
    cuda.get_device_capability = lambda device=None: (_properties(device), CAPABILITY)[1]
    cuda._device_count_nvml = lambda: machine.devices
    cuda._raw_device_count_nvml = lambda: machine.devices
    cuda._nvml_based_avail = lambda: False
    cuda.ipc_collect = lambda: None
    cuda.utilization = lambda device=None: 0
    cuda.temperature = lambda device=None: 30
    cuda.power_draw = lambda device=None: 0
    cuda.device_memory_used = lambda device=None: 2**21
    cuda.memory_usage = lambda device=None: 0
    cuda.clock_rate = lambda device=None: 1410
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, lambda *arguments, **named: -1)
    cuda.cudart = cuda.profiler.cudart = lambda: _CUDART
    cuda._cudart = _CUDART
    memory.install_pools()
    _install_plan_caches()
    for kind in ("linalg", "blas"):
        _install_preference(kind)


def _install_preference(kind: str) -> None:
    """Which of CUDA's libraries is to compute: that is kept, and nothing follows from it."""
    chosen = [getattr(torch._C, f"_get_{kind}_preferred_backend")()]
    setattr(torch._C, f"_get_{kind}_preferred_backend", lambda: chosen[-1])
    setattr(torch._C, f"_set_{kind}_preferred_backend", lambda library: chosen.append(library))


def _install_plan_caches() -> None:
    """cuFFT's, in which there is never a plan."""
    sizes: dict[int, int] = {}
    cache = torch.backends.cuda.cuFFTPlanCache
    vars(cache)["size"].getter = lambda index: 0
    vars(cache)["max_size"].getter = lambda index: sizes.get(index, 4096)
    vars(cache)["max_size"].setter = sizes.__setitem__
    cache.clear = lambda self: None


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function object of its own: dynamo refuses one function under two names of torch."""
    return lambda *arguments, **named: function(*arguments, **named)


def _native_functions() -> dict[str, Callable[..., Any]]:
    """The C++ functions behind torch.cuda, which a CPU build lacks, without `_cuda_` in front."""

    def nothing(*arguments: Any, **named: Any) -> None:
        pass

    return {
        "getDeviceCount": _count,
        "init": nothing,
        "getDevice": current_device,
        "setDevice": _set_device,
        "exchangeDevice": _exchange,
        "maybeExchangeDevice": _exchange,
        "synchronize": nothing,
        "emptyCache": nothing,
        "ipc_collect": nothing,
        "isInBadFork": lambda: machine.bad_fork,
        "getCompiledVersion": lambda: 12080,
        "getArchFlags": lambda: "sm_80",
        "hasPrimaryContext": lambda index: True,
        "setMemoryFraction": nothing,
        "getMemoryFraction": lambda *arguments: 1.0,
        "resetPeakMemoryStats": nothing,
        "resetAccumulatedMemoryStats": nothing,
        "memoryStats": memory.nested_stats,
        "canDeviceAccessPeer": lambda device, peer: True,
        "getAllocatorBackend": lambda: "native",
        "sleep": nothing,
        "set_sync_debug_mode": nothing,
        "get_sync_debug_mode": lambda: 0,
        "get_cudnn_benchmark_limit": lambda: 10,
        "set_cudnn_benchmark_limit": nothing,
        "getCurrentBlasHandle": lambda: 0,
        "clearCublasWorkspaces": nothing,
        "getCurrentRawStream": lambda device: 0,
        "record_memory_history": nothing,
        "record_memory_history_legacy": nothing,
        "cudaHostAllocator": lambda: 0,
        "hostMemoryStats": memory.host_stats,
        "resetPeakHostMemoryStats": nothing,
        "resetAccumulatedHostMemoryStats": nothing,
        "memorySnapshot": lambda *arguments: {"segments": [], "device_traces": []},
    }


def _declared() -> list[str]:
    """The C++ functions that a build for the devices has, as torch's own stub file declares them."""
    stub = Path(torch.__path__[0]) / "_C" / "__init__.pyi"
    try:
        return re.findall(rf"^def (_{machine.kind}_\w+)\(", stub.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return []


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise SimulationUnsupported(f"torch._C.{name} is not simulated")

    return refuse
