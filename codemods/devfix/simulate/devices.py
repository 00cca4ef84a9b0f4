"""torch.cuda's questions about devices: how many, which one, what kind, how much memory."""

from __future__ import annotations

import collections
import os
import re
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import check_fork, check_ordinal, current_device, machine, set_device

NAME = "simulated CUDA device (devfix)"
CAPABILITY = (8, 0)
_MEMORY = 80 * 2**30
_PROPERTIES = types.SimpleNamespace(
    name=NAME,
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    total_memory=_MEMORY,
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
)


def device_index(device: Any) -> int:
    """The number of a device as torch.cuda takes it: None, a number, text or a torch.device."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return current_device() if device.index is None else int(device.index)


def _set_device(device: Any) -> None:
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
    if not 0 <= device_index(device) < machine.devices:
        raise AssertionError("Invalid device id")
    return _PROPERTIES


def _in_child() -> None:
    machine.bad_fork = True


def install() -> None:
    cuda = torch.cuda
    count = machine.devices
    cuda._lazy_init = lambda: check_fork()
    cuda.init = lambda: check_fork()
    cuda._initialized = True
    cuda._is_compiled = lambda: True
    cuda.is_available = lambda: count > 0
    cuda.is_initialized = lambda: True
    cuda._cached_device_count = count
    cuda.device_count = lambda: count
    cuda._device_count_nvml = lambda: count
    cuda._raw_device_count_nvml = lambda: count
    cuda._nvml_based_avail = lambda: False
    cuda.current_device = lambda: current_device()
    cuda.set_device = lambda device: _set_device(device)
    os.register_at_fork(after_in_child=_in_child)

    for name, function in _native_functions().items():
        setattr(torch._C, name, _own(function))
    for name in _declared():
        if not hasattr(torch._C, name):
            setattr(torch._C, name, _refusal(name))
    cuda._exchange_device = lambda index: _exchange(index)
    cuda._maybe_exchange_device = lambda index: _exchange(index)
    cuda._lazy_call = lambda function, **named: function()
    cuda._is_in_bad_fork = lambda: machine.bad_fork
    cuda.default_generators = tuple(machine.default_generators)
    cuda.synchronize = lambda device=None: None
    cuda.empty_cache = lambda: None
    cuda.ipc_collect = lambda: None

    cuda.get_device_properties = lambda device=None: _properties(device)
    cuda.get_device_name = lambda device=None: _properties(device).name
    cuda.get_device_capability = lambda device=None: (_properties(device), CAPABILITY)[1]
    cuda._get_device_properties = lambda index: _PROPERTIES
    cuda.is_bf16_supported = lambda including_emulation=True: True
    cuda.can_device_access_peer = lambda device, peer_device: True
    cuda.utilization = lambda device=None: 0
    cuda.temperature = lambda device=None: 30
    cuda.power_draw = lambda device=None: 0
    cuda.device_memory_used = lambda device=None: 2**21
    cuda.memory_usage = lambda device=None: 0
    cuda.clock_rate = lambda device=None: 1410
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(cuda.nvtx, name, lambda *arguments, **named: 0)
    cuda.cudart = lambda: types.SimpleNamespace(
        cudaProfilerStart=lambda: 0,
        cudaProfilerStop=lambda: 0,
        cudaMemGetInfo=lambda device: cuda.mem_get_info(),
        cudaError=types.SimpleNamespace(success=0),
    )
    _install_memory()


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function object of its own: dynamo refuses one function under two names of torch."""
    return lambda *arguments, **named: function(*arguments, **named)


def _native_functions() -> dict[str, Callable[..., Any]]:
    """The C++ functions behind torch.cuda, which a CPU build lacks."""

    def nothing(*arguments: Any, **named: Any) -> None:
        pass

    return {
        "_cuda_getDeviceCount": lambda: machine.devices,
        "_cuda_init": nothing,
        "_cuda_getDevice": current_device,
        "_cuda_setDevice": _set_device,
        "_cuda_exchangeDevice": _exchange,
        "_cuda_maybeExchangeDevice": _exchange,
        "_cuda_synchronize": nothing,
        "_cuda_emptyCache": nothing,
        "_cuda_ipc_collect": nothing,
        "_cuda_isInBadFork": lambda: machine.bad_fork,
        "_cuda_getCompiledVersion": lambda: 12080,
        "_cuda_getArchFlags": lambda: "sm_80",
        "_cuda_hasPrimaryContext": lambda index: True,
        "_cuda_setMemoryFraction": nothing,
        "_cuda_getMemoryFraction": lambda *arguments: 1.0,
        "_cuda_resetPeakMemoryStats": nothing,
        "_cuda_resetAccumulatedMemoryStats": nothing,
        "_cuda_memoryStats": lambda device: {},
        "_cuda_canDeviceAccessPeer": lambda device, peer: True,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_sleep": nothing,
        "_cuda_set_sync_debug_mode": nothing,
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_clearCublasWorkspaces": nothing,
        "_cuda_getCurrentRawStream": lambda device: 0,
        "_cuda_record_memory_history": nothing,
        "_cuda_record_memory_history_legacy": nothing,
        "_cuda_cudaHostAllocator": lambda: 0,
        "_cuda_hostMemoryStats": dict,
        "_cuda_memorySnapshot": lambda *arguments: {"segments": [], "device_traces": []},
    }


def _declared() -> list[str]:
    """The C++ functions that a CUDA build has for torch.cuda, as torch's own stub file declares them."""
    stub = Path(torch.__path__[0]) / "_C" / "__init__.pyi"
    try:
        return re.findall(r"^def (_cuda_\w+)\(", stub.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return []


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise SimulationUnsupported(f"torch._C.{name} is not simulated")

    return refuse


def _install_memory() -> None:
    """Memory figures are constants: they mean nothing here, but programs print and divide them."""
    cuda = torch.cuda

    def constant(value: Any) -> Callable[..., Any]:
        return lambda device=None: value

    figures = {
        "memory_allocated": 2**20,
        "max_memory_allocated": 2**20,
        "memory_reserved": 2**21,
        "max_memory_reserved": 2**21,
        "memory_cached": 2**21,
        "max_memory_cached": 2**21,
        "reset_peak_memory_stats": None,
        "reset_accumulated_memory_stats": None,
        "reset_max_memory_allocated": None,
        "reset_max_memory_cached": None,
    }
    for name, value in figures.items():
        function = constant(value)
        setattr(cuda, name, function)
        setattr(cuda.memory, name, function)
    _install_accelerator(figures)
    cuda.mem_get_info = lambda device=None: (_MEMORY - 2**30, _MEMORY)
    cuda.memory_stats = cuda.memory.memory_stats = lambda device=None: collections.OrderedDict(
        {
            "allocated_bytes.all.peak": 2**20,
            "allocated_bytes.all.current": 2**20,
            "reserved_bytes.all.peak": 2**21,
            "reserved_bytes.all.current": 2**21,
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }
    )
    summary = "no memory statistics of simulated devices\n"
    cuda.memory_summary = cuda.memory.memory_summary = lambda device=None, abbreviated=False: summary


def _install_accelerator(figures: Mapping[str, Any]) -> None:
    """torch.accelerator asks an allocator that a CPU build does not have."""
    accelerator: Any = getattr(torch, "accelerator", None)
    for home in filter(None, (accelerator, getattr(accelerator, "memory", None))):
        for name, value in {**figures, "empty_cache": None}.items():
            if hasattr(home, name):
                setattr(home, name, lambda device=None, value=value: value)
        if hasattr(home, "memory_stats"):
            home.memory_stats = lambda device=None: collections.OrderedDict()
        if hasattr(home, "get_memory_info"):
            home.get_memory_info = lambda device=None: (_MEMORY - 2**30, _MEMORY)
