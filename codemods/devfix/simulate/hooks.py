"""Make libtorch believe in an accelerator of type CUDA: `at::getAccelerator() == CUDA`.

torch owns one CUDAHooksInterface object, in a CPU build a stub. Its table of virtual functions is
replaced by a copy in which hasCUDA, deviceCount and their like answer for the simulated machine.
Of PrivateUse1 there is none: it gets one whose other functions are the stub's of XPU, of the same base.
Needed by the autograd engine, `torch.device(0)`, `.to(0)`, `torch.accelerator` and pinned memory.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import torch

from devfix.simulate.errors import CannotSimulate
from devfix.simulate.machine import current_device, machine, set_device
from devfix.simulate.vtable import VTable, keep, number, virtual_functions

_POINTER = ctypes.c_void_p
_BOOL = ctypes.CFUNCTYPE(ctypes.c_bool, _POINTER)
_INT = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER)
_INT8 = ctypes.CFUNCTYPE(ctypes.c_int8, _POINTER)
_REGISTER = "_ZN2at33RegisterPrivateUse1HooksInterfaceEPNS_25PrivateUse1HooksInterfaceE"
# What the stub says no to.
_PROBES: dict[str, dict[str, Any]] = {
    "cuda": {
        **dict.fromkeys(("hasCUDA", "hasCUDART", "hasMAGMA", "hasCuDNN", "compiledWithCuDNN"), _BOOL),
        "getNumGPUs": _INT,
    },
    "mps": {"hasMPS": _BOOL},
    "xpu": {"hasXPU": _BOOL},
    "privateuseone": {},
}


def install(one: int) -> None:
    """Replace the hooks; raises CannotSimulate if anything is not as the headers say.

    `one` is the address of a function that returns 1, to answer without Python.
    """
    root = Path(torch.__path__[0])
    include = root / "include/ATen/detail"
    interface = machine.torch_kind.hooks
    slots, size = number(
        virtual_functions(include / "AcceleratorHooksInterface.h", "AcceleratorHooksInterface"),
        virtual_functions(include / f"{interface}.h", interface),
    )
    library = ctypes.CDLL(str(root / "lib" / "libtorch_cpu.so"))
    keep(library)
    own = machine.kind != "privateuseone"
    getter = f"get{machine.key if own else 'XPU'}Hooks"
    try:
        get_hooks = getattr(library, f"_ZN2at6detail{len(getter)}{getter}Ev")
        register = None if own else getattr(library, _REGISTER)
    except AttributeError as error:
        raise CannotSimulate(f"the hooks of {machine.kind} are not exported: {error}") from error
    get_hooks.restype = _POINTER
    hooks: int = get_hooks()
    table = VTable(hooks, slots, size)
    # The stub says no to all of these: the slot numbers are right, and there is no real CUDA. The hooks of a GPU build
    # know what they were built with.
    probes = _PROBES[machine.kind]
    if not set(probes) <= slots.keys():
        raise CannotSimulate(f"{interface} lacks functions that it should have")
    built = {*probes} - {"hasCUDA", "getNumGPUs"} if machine.gpu_build else set()
    if any(bool(table.call(name, prototype)) != (name in built) for name, prototype in probes.items()):
        raise CannotSimulate(f"{interface} is not laid out as its headers say, or {machine.kind} is there")
    if register is None:
        _POINTER.from_address(hooks).value = table.clone(_functions(root, one))
        return
    torch.utils.rename_privateuse1_backend(machine.kind)
    register.argtypes = [_POINTER]
    register(table.clone_object(_functions(root, one)))


def is_pinned(address: int | None) -> bool:
    """Is it pinned memory? DistributedDataParallel asks so of what it has allocated right before."""
    asked, machine.pinning = machine.pinning, 0
    if address in machine.pinned or asked == threading.get_ident():
        return True
    return any(start <= (address or 0) < start + size for start, size in machine.pinned.items())


def pinning() -> None:
    machine.pinning = threading.get_ident()


def _functions(root: Path, one: int) -> dict[str, Any]:
    def exchange(this: int, index: int) -> int:
        old = current_device()
        if index >= 0:
            set_device(index)
        return old

    pointer, int8 = _POINTER, ctypes.c_int8
    lacking = _BOOL(lambda this: False)
    functions = {
        # Of a GPU build, which must not come to these libraries; a CPU build says so itself.
        **dict.fromkeys(("hasMAGMA", "hasCuDNN", "compiledWithCuDNN", "hasCuSOLVER", "hasCuBLASLt"), lacking),
        # An engine asks for each node, and a callback of Python takes as long as a small kernel.
        **dict.fromkeys(("hasCUDA", "hasCUDART", "hasMPS", "hasXPU", "isBuilt", "isAvailable"), one),
        "hasPrimaryContext": one,
        # A tensor on xpu goes through DLPack without the number of its device.
        "getGlobalIdxFromDevice": ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(lambda this, device: 0),
        "getDeviceFromPtr": ctypes.CFUNCTYPE(ctypes.c_uint16, pointer, pointer)(
            lambda this, address: machine.torch_kind.number | machine.arriving << 8
        ),
        "isOnMacOSorNewer": ctypes.CFUNCTYPE(ctypes.c_bool, pointer, ctypes.c_uint, ctypes.c_uint)(
            lambda this, major, minor: True
        ),
        "init": ctypes.CFUNCTYPE(None, pointer)(lambda this: None),
        "deviceCount": one if machine.devices == 1 else _INT8(lambda this: machine.devices),
        "getNumGPUs": _INT(lambda this: machine.devices),
        "current_device": _INT8(lambda this: current_device()),
        "getCurrentDevice": _INT8(lambda this: current_device()),
        "setCurrentDevice": ctypes.CFUNCTYPE(None, pointer, int8)(lambda this, index: set_device(index)),
        "exchangeDevice": ctypes.CFUNCTYPE(int8, pointer, int8)(exchange),
        "maybeExchangeDevice": ctypes.CFUNCTYPE(int8, pointer, int8)(exchange),
        "deviceSynchronize": ctypes.CFUNCTYPE(None, pointer, int8)(lambda this, index: None),
        "isPinnedPtr": ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)(
            lambda this, address: is_pinned(address)
        ),
    }
    c10 = ctypes.CDLL(str(root / "lib" / "libc10.so"))
    keep(c10)
    try:
        get_allocator = c10._ZN3c1015GetCPUAllocatorEv
    except AttributeError:
        return functions  # without it, pinning is torch's error, and only that
    get_allocator.restype = pointer
    allocator: int = get_allocator()

    def pinned_allocator(this: int) -> int:
        pinning()
        return allocator

    functions["getPinnedMemoryAllocator"] = ctypes.CFUNCTYPE(pointer, pointer)(pinned_allocator)
    return functions
