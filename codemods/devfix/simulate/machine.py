"""The simulated machine: how many devices, which one is current, what has been counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any


@dataclass
class Stats:
    """What this process has done on simulated devices so far."""

    launched: int = 0  # kernels of Python
    mixed: int = 0  # of them, those whose tensors were not all on one device
    refusals: int = 0  # SimulationUnsupported made
    last_refusal: str = ""

    @property
    def kernels(self) -> int:
        """Kernels launched."""
        return self.launched + (machine.shared.kernels if machine.shared is not None else 0)


@dataclass
class Numbers:
    """Where a cuda generator stands: CUDA's is a function of a seed and an offset, and so is this one.

    Before each kernel the CPU generator beneath it is seeded with `next()`, so that a state can be put back.
    """

    index: int
    seed: int = 67280421310721  # c10::detail::default_rng_seed_val
    offset: int = 0

    def next(self) -> int:
        offset, self.offset = self.offset, self.offset + 4
        return self.seed if not offset else (self.seed * 0x9E3779B97F4A7C15 + offset) % 2**63


@dataclass(frozen=True)
class Kind:
    """What torch's C++ calls a kind of devices."""

    number: int  # c10::DeviceType
    dlpack: int  # DLDeviceType
    key: str  # DispatchKey
    hooks: str  # the class of its hooks, in ATen/detail
    like: str  # the dispatch key whose kernels in native_functions.yaml it is taken to have


KINDS = {
    "cuda": Kind(1, 2, "CUDA", "CUDAHooksInterface", "CUDA"),
    "mps": Kind(13, 8, "MPS", "MPSHooksInterface", "MPS"),
    # torch-xpu-ops, where its kernels are, aims at CUDA's operators; torch's own table has few of them.
    "xpu": Kind(12, 14, "XPU", "XPUHooksInterface", "CUDA"),
    # The key for accelerators of packages, without the package.
    "privateuseone": Kind(20, 12, "PrivateUse1", "PrivateUse1HooksInterface", "CUDA"),
}


@dataclass
class Machine:
    """The one simulated machine of this process."""

    devices: int = 0  # 0: not enabled
    kind: str = "cuda"  # the type of the devices, of KINDS
    torch_kind: Kind = KINDS["cuda"]
    here: Callable[[Any], bool] = attrgetter("is_cuda")  # is a tensor on one of them?
    gpu_build: bool = False  # torch itself has kernels and functions for these devices, which must not run
    used: bool = False  # by more than an import: CUDA forbids forks from then on
    bad_fork: bool = False  # in a child that was forked after that
    sync_debug: int = 0  # torch.cuda.set_sync_debug_mode: 1 warn, 2 error
    default_generators: list[Any] = field(default_factory=list)  # one cuda generator per device
    generators: dict[int, Numbers] = field(default_factory=dict)  # by GeneratorImpl* of a cuda generator
    refused_dtypes: dict[Any, str] = field(default_factory=dict)  # that the devices cannot hold: the error
    comparable: bool = False  # random numbers of devices come from the CPU's generator, as on the CPU
    pinned: dict[int, int] = field(default_factory=dict)  # address of pinned memory -> bytes
    pinning: int = 0  # the thread in which C++ has asked for pinned memory, whose address nobody tells
    arriving: int = 0  # the device that a tensor goes to, for XPU's hooks
    capture: Any = None  # graphs.Capture, while a CUDA graph is captured
    # Of a run that goes on after device errors (`keeping_going`): may a kernel go on, and with which generator?
    carry_on: Callable[[str, Exception, Sequence[Any]], bool] | None = None
    other_generator: Callable[[str, Exception, Any, Any], Any] | None = None
    shared: Any = None  # what the compiled kernels know as well: native_kernels.Shared

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _SHARED and self.shared is not None:
            self.shared.used = self.used
            self.shared.careful = self.bad_fork or self.sync_debug or self.capture is not None

    def become(self, kind: str, devices: int) -> None:
        self.kind, self.torch_kind, self.devices = kind, KINDS[kind], devices
        self.here = attrgetter(f"is_{kind}")

    @property
    def key(self) -> str:
        """The dispatch key of the devices."""
        return self.torch_kind.key

    @property
    def module(self) -> Any:
        """torch.cuda and its like."""
        import torch

        return getattr(torch, self.kind)

    def device(self, index: int) -> Any:
        import torch

        return torch.device(self.kind, index)


_SHARED = frozenset({"shared", "used", "bad_fork", "sync_debug", "capture"})
machine = Machine()
stats = Stats()
_local = threading.local()


def current_device() -> int:
    """The current device of this thread, as cudaGetDevice gives it."""
    index: int = getattr(_local, "device", 0)
    return index


def set_device(index: int) -> None:
    _local.device = index


@contextmanager
def guard_of(index: int) -> Iterator[None]:
    """c10::DeviceGuard: the current device is another one, or none is meant (-1)."""
    before = current_device()
    set_device(index if index >= 0 else before)
    try:
        yield
    finally:
        set_device(before)


def check_ordinal(index: int) -> None:
    """Raise what CUDA raises for a device that is not there."""
    if not 0 <= index < machine.devices:
        if machine.kind != "cuda":  # c10/xpu/XPUFunctions.h; of others as well
            raise RuntimeError(
                f"The device index is out of range. It must be in [0, {machine.devices}), but got {index}."
            )
        raise cuda_error(
            101, "invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
        )


def cuda_error(code: int, message: str) -> RuntimeError:
    """An error of CUDA itself: torch.AcceleratorError, which torch has since 2.8."""
    import torch

    error: RuntimeError = getattr(torch, "AcceleratorError", RuntimeError)(f"CUDA error: {message}")
    error.error_code = code  # type: ignore[attr-defined]
    return error


def check_fork() -> None:
    """Raise what CUDA raises in a forked child, such as a DataLoader worker; in others, CUDA is used from now on."""
    if machine.bad_fork:
        raise RuntimeError(
            f"Cannot re-initialize {machine.key} in forked subprocess. To use {machine.key} with multiprocessing, "
            "you must use the 'spawn' start method"
        )
    machine.used = True


def check_process() -> None:
    """Raise what CUDA raises where a forked child uses a tensor of its parent."""
    if machine.bad_fork:
        raise cuda_error(3, "initialization error")


def not_capturing() -> None:
    """Raise what CUDA raises while a graph is captured."""
    if machine.capture is not None:
        machine.capture.refuse()


def synchronizes() -> None:
    """Something waits for the device: what torch.cuda.set_sync_debug_mode asks to hear of."""
    not_capturing()
    if machine.sync_debug == 2:
        raise RuntimeError("called a synchronizing CUDA operation")
    if machine.sync_debug == 1:
        import warnings

        warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
