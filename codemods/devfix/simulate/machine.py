"""The simulated machine: how many devices, which one is current, what has been counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stats:
    """What this process has done on simulated devices so far."""

    kernels: int = 0  # kernels launched
    mixed: int = 0  # of them, those whose tensors were not all on one device
    refusals: int = 0  # SimulationUnsupported made
    last_refusal: str = ""


@dataclass
class Machine:
    """The one simulated machine of this process."""

    devices: int = 0  # 0: not enabled
    bad_fork: bool = False  # in a child that was forked after CUDA was there
    old_wording: bool = False  # of libtorch's device check
    default_generators: list[Any] = field(default_factory=list)  # one CPU generator per device
    generators: dict[int, int] = field(default_factory=dict)  # GeneratorImpl* of a cuda generator -> device
    pinned: dict[int, int] = field(default_factory=dict)  # address of pinned memory -> bytes


machine = Machine()
stats = Stats()
_local = threading.local()


def current_device() -> int:
    """The current device of this thread, as cudaGetDevice gives it."""
    index: int = getattr(_local, "device", 0)
    return index


def set_device(index: int) -> None:
    _local.device = index


def check_ordinal(index: int) -> None:
    """Raise what CUDA raises for a device that is not there."""
    if not 0 <= index < machine.devices:
        raise RuntimeError(
            "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
        )


def check_fork() -> None:
    """Raise what CUDA raises in a forked child, such as a DataLoader worker."""
    if machine.bad_fork:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
            "you must use the 'spawn' start method"
        )
