"""torch.cuda's memory figures: what this process has on simulated devices, in CUDA's steps of 512 bytes.

Weak references to storages tell what has been freed. They are looked through when somebody asks, and when the
sum of what was allocated passes the peak so far; so a block that lived only shortly may count into a
peak, and figures are upper bounds.
"""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, field
from typing import Any

import torch

from devfix.simulate.machine import current_device, machine

POOLS = itertools.count(1)  # numbers for those of memory, of graphs too
TOTAL = 80 * 2**30
_STEP, _SEGMENT = 512, 2**21
_storage = torch.UntypedStorage
_bytes_of = torch.UntypedStorage.nbytes


@dataclass
class _Device:
    allocated: int = 0
    blocks: int = 0
    peak: int = 0
    reserved: int = 0
    peak_reserved: int = 0
    ever: int = 0  # bytes and blocks allocated so far
    ever_blocks: int = 0

    def reach(self) -> None:
        """Let the peaks follow."""
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, -(-self.allocated // _SEGMENT) * _SEGMENT)
        self.peak_reserved = max(self.peak_reserved, self.reserved)


@dataclass
class _Ledger:
    blocks: dict[int, tuple[int, int, int]] = field(
        default_factory=dict
    )  # address -> weak reference, bytes, device
    devices: dict[int, _Device] = field(default_factory=lambda: collections.defaultdict(_Device))
    unswept: int = 0  # blocks since all were looked through


_ledger = _Ledger()


def note(tensor: Any) -> None:
    """A tensor has come to a device; if its memory is known, nothing is new."""
    if machine.shared is not None:  # there, memory says itself when it is freed
        return
    storage = tensor.untyped_storage()
    size = _bytes_of(storage)
    if not size:
        return
    address = storage.data_ptr()
    known = _ledger.blocks.get(address)
    if known is not None:
        if not _storage._expired(known[0]):
            return
        _forget(address)
    size, index = -(-size // _STEP) * _STEP, tensor.get_device()
    device = _ledger.devices[index]
    _ledger.blocks[address] = storage._weak_ref(), size, index
    _ledger.unswept += 1
    device.allocated += size
    device.blocks += 1
    device.ever += size
    device.ever_blocks += 1
    if device.allocated > device.peak:
        if _ledger.unswept * 64 > len(_ledger.blocks):
            _sweep()
        device.reach()


def _forget(address: int) -> None:
    weak, size, index = _ledger.blocks.pop(address)
    _storage._free_weak_ref(weak)
    _ledger.devices[index].allocated -= size
    _ledger.devices[index].blocks -= 1


def _sweep() -> None:
    _ledger.unswept = 0
    for address in [at for at, block in list(_ledger.blocks.items()) if _storage._expired(block[0])]:
        _forget(address)


def check_room(size: Any, dtype: Any) -> None:
    """Raise CUDA's error for more memory than a device has."""
    wanted = (dtype or torch.get_default_dtype()).itemsize
    for length in size:
        wanted *= length
    if wanted <= TOTAL - _known(current_device()).allocated:
        return
    free = TOTAL - figures(None).allocated
    if wanted > free:
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {_text(wanted)}. GPU {current_device()} has a total capacity of "
            f"{_text(TOTAL)} of which {_text(free)} is free."
        )


def _text(size: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def figures(device: Any) -> _Device:
    """What is known of a device, given as torch.cuda takes it; raises what CUDA raises."""
    from devfix.simulate.devices import device_index

    index = device_index(device)
    if not 0 <= index < machine.devices:
        raise RuntimeError(
            f"Invalid device argument {chr(index & 127)}: did you call init?"
        )  # an int8 is a char
    _sweep()
    known = _known(index)
    known.reach()
    return known


def _known(index: int) -> _Device:
    known = _ledger.devices[index]
    if machine.shared is not None:
        counted = machine.shared.memory[index]
        for name, _ in counted._fields_:
            setattr(known, name, getattr(counted, name))
    return known


def _empty_cache() -> None:
    for index in range(machine.devices):
        known = figures(index)
        known.reserved = 0
        known.reach()
        if machine.shared is not None:
            machine.shared.memory[index].reserved = known.reserved


def _reset_peak(device: Any = None) -> None:
    from devfix.simulate.devices import device_index

    known = figures(device)
    known.peak, known.peak_reserved = known.allocated, known.reserved
    if machine.shared is not None:
        machine.shared.memory[device_index(device)].peak = known.allocated


def _stats(device: Any = None) -> dict[str, Any]:
    known = figures(device)
    bytes_ = (known.allocated, known.peak, known.ever, known.ever - known.allocated)
    count = (known.blocks, known.blocks, known.ever_blocks, known.ever_blocks - known.blocks)
    reserved = (known.reserved, known.peak_reserved, known.peak_reserved, 0)
    found: dict[str, int] = {"num_alloc_retries": 0, "num_ooms": 0, "max_split_size": -1}
    for names, values in (
        (("allocated_bytes", "active_bytes", "requested_bytes"), bytes_),
        (("allocation", "active"), count),
        (("reserved_bytes",), reserved),
        (("segment",), tuple(value // _SEGMENT for value in reserved)),
        (
            ("inactive_split", "inactive_split_bytes", "oversize_allocations", "oversize_segments"),
            (0, 0, 0, 0),
        ),
    ):
        for name in names:
            pools = ("",) if name.startswith("oversize") else (".all", ".large_pool", ".small_pool")
            for pool in pools:
                for metric, value in zip(("current", "peak", "allocated", "freed"), values, strict=True):
                    found[f"{name}{pool}.{metric}"] = value
    return collections.OrderedDict(sorted(found.items()))


def nested_stats(device: Any = None) -> dict[str, Any]:
    """The statistics as C++ gives them: dictionaries in dictionaries."""
    found: dict[str, Any] = {}
    for name, value in _stats(device).items():
        *path, last = name.split(".")
        inner = found
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return found


def host_stats() -> dict[str, Any]:
    """Those of pinned memory, which nobody counts here."""
    metrics = ("current", "peak", "allocated", "freed")
    names = ("allocations", "allocated_bytes", "active_requests", "active_bytes")
    found: dict[str, Any] = {name: dict.fromkeys(metrics, 0) for name in names}
    for name in ("host_alloc_time", "host_free_time"):
        found[name] = dict.fromkeys(("total", "max", "min", "count", "avg"), 0)
    return {**found, "num_host_alloc": 0, "num_host_free": 0}


class _Pool:
    """What torch.cuda.MemPool derives from; where its tensors lie makes no difference here."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return super().__new__(cls)

    def __init__(self, allocator: Any = None, *more: Any, **named: Any) -> None:
        self.allocator = allocator
        self._id = (0, next(POOLS))

    @property
    def id(self) -> tuple[int, int]:
        return self._id

    def use_count(self) -> int:
        return 1


def install_pools() -> None:
    module: Any = torch.cuda.memory
    if hasattr(module, "MemPool") and not machine.gpu_build:
        module.MemPool.__bases__ = (_Pool,)
        for name in ("beginAllocateCurrentThreadToPool", "endAllocateToPool", "releasePool"):
            setattr(module, f"_cuda_{name}", lambda device, pool: None)


def install() -> None:
    module: Any = machine.module
    functions = {
        "memory_allocated": lambda device=None: figures(device).allocated,
        "max_memory_allocated": lambda device=None: figures(device).peak,
        "memory_reserved": lambda device=None: figures(device).reserved,
        "max_memory_reserved": lambda device=None: figures(device).peak_reserved,
        "memory_cached": lambda device=None: figures(device).reserved,
        "max_memory_cached": lambda device=None: figures(device).peak_reserved,
        "reset_peak_memory_stats": _reset_peak,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "reset_max_memory_allocated": _reset_peak,
        "reset_max_memory_cached": _reset_peak,
        "memory_stats": _stats,
        "empty_cache": _empty_cache,
        "mem_get_info": lambda device=None: (TOTAL - max(figures(device).reserved, 2**20), TOTAL),
        "memory_summary": lambda device=None, abbreviated=False: (
            "no memory statistics of simulated devices\n"
        ),
    }
    for name, function in functions.items():
        setattr(module, name, function)
        if hasattr(module, "memory"):
            setattr(module.memory, name, function)
    accelerator: Any = getattr(torch, "accelerator", None)
    for home in filter(None, (accelerator, getattr(accelerator, "memory", None))):
        for name, function in {**functions, "get_memory_info": functions["mem_get_info"]}.items():
            if hasattr(home, name):
                setattr(home, name, function)
