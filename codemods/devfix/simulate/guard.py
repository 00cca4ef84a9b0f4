"""A device guard for CUDA in a libc10 that has none.

In a CPU wheel `c10::impl::device_guard_impl_registry[CUDA]` is null, so whatever builds an
autograd InputMetadata or a DeviceGuard for a cuda tensor dies with "PyTorch is not linked with
support for cuda devices". Here the guard of Meta, which does nothing, is copied, its type, device
and event functions are replaced by ctypes callbacks, and the copy is put into the CUDA slot.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from pathlib import Path
from typing import Any

import torch

from devfix.simulate.errors import CannotSimulate
from devfix.simulate.machine import current_device, machine, set_device
from devfix.simulate.vtable import VTable, keep, number, virtual_functions

META = 14
_TYPES = 21  # c10::COMPILE_TIME_MAX_DEVICE_TYPES is at least that
_NO_INDEX = 0xFF

# A c10::Device is two int8, type and index, passed and returned as one 16-bit number.
_POINTER = ctypes.c_void_p
_INT8 = ctypes.CFUNCTYPE(ctypes.c_int8, _POINTER)
_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, _POINTER)
_SET_DEVICE = ctypes.CFUNCTYPE(None, _POINTER, ctypes.c_uint16)
_EXCHANGE_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, _POINTER, ctypes.c_uint16)


def install() -> int:
    """Register the guard; raises CannotSimulate if anything is not as the headers say.

    Returns the address of a function of Meta's guard that returns 1.
    """
    root = Path(torch.__path__[0])
    c10 = ctypes.CDLL(str(root / "lib" / "libc10.so"))
    keep(c10)
    try:
        registry = (_POINTER * _TYPES).in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE")
    except ValueError as error:
        raise CannotSimulate(f"device_guard_impl_registry is not exported: {error}") from error
    own = machine.torch_kind.number
    if registry[own] and not machine.gpu_build:
        raise CannotSimulate(
            f"a device guard of {machine.kind} is already registered (a build of torch for it?)"
        )
    meta = registry[META]
    if not meta:
        raise CannotSimulate("there is no Meta device guard to copy")
    header = root / "include/c10/core/impl/DeviceGuardImplInterface.h"
    slots, size = number(virtual_functions(header, "DeviceGuardImplInterface"))
    needed = {"type", "exchangeDevice", "getDevice", "setDevice", "uncheckedSetDevice", "deviceCount"}
    if not needed <= slots.keys():
        raise CannotSimulate(f"the device guard has no {', '.join(sorted(needed - slots.keys()))}")
    table = VTable(meta, slots, size)
    # The slot numbers are right if these answer as Meta's guard does; none of them has side effects.
    answers = (
        table.call("type", _INT8),
        table.call("getDevice", _DEVICE) & 0xFF,
        table.call("deviceCount", _INT8),
    )
    if answers != (META, META, 1):
        raise CannotSimulate(f"the device guard is not laid out as its header says: {answers}")

    functions = {**_device_functions(table), **_event_functions()}
    fake = machine.kind == "cuda" and hasattr(torch._C, "_ensureCUDADeviceGuardSet")
    if fake and not os.environ.get("DEVFIX_SIMULATE_STUB"):
        _through_fake_guard(registry, table, functions)
    else:
        registry[own] = table.clone_object({**functions, **_stream_functions()})
    return table.function("deviceCount")


def _device_functions(meta: VTable) -> dict[str, Any]:
    own = machine.torch_kind.number
    one = meta.function("deviceCount")
    if own == machine.devices == _DEVICE(one)(None) == 1:  # every answer is 1: that of C++ is much faster
        return {
            **dict.fromkeys(("type", "exchangeDevice", "getDevice", "deviceCount"), one),
            "setDevice": meta.function("setDevice"),
        }

    def get(this: int) -> int:
        return own | ((current_device() & 0xFF) << 8)

    def put(this: int, device: int) -> None:
        index = (device >> 8) & 0xFF
        if index != _NO_INDEX:
            set_device(index)

    return {
        "type": _INT8(lambda this: own),
        # A C++ DeviceGuard changes nothing: it may end while an exception of Python is on its way, and a callback
        # would lose that. The kernels go by the devices of tensors.
        "exchangeDevice": _EXCHANGE_DEVICE(lambda this, device: get(this)),
        "getDevice": _DEVICE(get),
        "setDevice": _SET_DEVICE(put),
        "deviceCount": _INT8(lambda this: machine.devices),
    }


def _event_functions() -> dict[str, Any]:
    """Everything is synchronous, so every event has happened."""

    def nothing(*arguments: object) -> None:
        pass

    pointer, int8 = _POINTER, ctypes.c_int8
    return {
        "record": ctypes.CFUNCTYPE(None, pointer, pointer, pointer, int8, ctypes.c_int)(nothing),
        "block": ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(nothing),
        "queryEvent": ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)(lambda *arguments: True),
        "synchronizeEvent": ctypes.CFUNCTYPE(None, pointer, pointer)(nothing),
        "queryStream": ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)(lambda *arguments: True),
        "isStreamCapturing": ctypes.CFUNCTYPE(ctypes.c_bool, pointer, pointer)(
            lambda *arguments: machine.capture is not None
        ),
        "synchronizeStream": ctypes.CFUNCTYPE(None, pointer, pointer)(nothing),
        "recordDataPtrOnStream": ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(nothing),
        "synchronizeDevice": ctypes.CFUNCTYPE(None, pointer, int8)(nothing),
        "elapsedTime": ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer, pointer, int8)(
            lambda *arguments: 0.0
        ),
    }


def _through_fake_guard(registry: Any, meta: VTable, functions: dict[str, Any]) -> None:
    """Take the stream functions from torch's own NoOpDeviceGuardImpl<CUDA>.

    A Stream is a struct of 16 bytes, which a ctypes callback cannot return. torch (2.10 and newer)
    swaps a CUDA guard that reports 0 devices for a no-op one, made for fake tensors on CUDA builds,
    whose streams are of type CUDA. It is shown such a guard, and what it installs is copied.
    """
    own = machine.torch_kind.number
    bait = meta.clone_object({"deviceCount": _INT8(lambda this: 0), "type": functions["type"]})
    registry[own] = bait
    torch._C._ensureCUDADeviceGuardSet()
    if registry[own] == bait:
        registry[own] = None
        raise CannotSimulate("_ensureCUDADeviceGuardSet did not install a no-op CUDA guard")
    table = VTable(registry[own], meta.slots, meta.size)
    if table.call("type", _INT8) != own:
        raise CannotSimulate("_ensureCUDADeviceGuardSet installed a guard of another type")
    # New streams and those of the pool are the default one: the functions take one argument more, and leave it.
    default = {name: table.function("getStream") for name in ("getStreamFromGlobalPool", "getNewStream")}
    registry[own] = table.clone_object({**functions, **default})


# getStream(this, Device d) -> Stream{d, id 0};  exchangeStream(this, Stream s) -> s
_MACHINE_CODE = {
    # movzx eax, si; xor edx, edx; ret  |  mov rax, rsi; ret
    "x86_64": ("0fb7c631d2c3", "4889f0c3"),
    # and w0, w1, #0xffff; mov x1, #0; ret  |  mov x0, x1; mov x1, x2; ret
    "aarch64": ("203c0012010080d2c0035fd6", "e00301aae10302aac0035fd6"),
}


def _stream_functions() -> dict[str, Any]:
    """For a torch without `_ensureCUDADeviceGuardSet`: seven instructions of our own."""
    code = _MACHINE_CODE.get(platform.machine())
    if code is None:
        raise CannotSimulate(f"this torch needs machine code, and there is none for {platform.machine()}")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex(code[0]).ljust(64, b"\0") + bytes.fromhex(code[1]))
    keep(page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    names = ("getStream", "getDefaultStream", "getStreamFromGlobalPool", "getNewStream")
    return {**dict.fromkeys(names, start), "exchangeStream": start + 64}
