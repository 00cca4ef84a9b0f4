"""The kernels compiled from kernels.cpp: which operations have one, and what they share with Python.

A compiled kernel takes the calls that need no more than the CPU's kernel: all tensors on one device, no CUDA graph,
nothing that CUDA says of their data types. It hands every other call to the kernel of kernels.py, which then
stands under `KEY`, a dispatch key that torch uses for nothing.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from devfix.simulate import determinism, dtypes
from devfix.simulate.machine import machine

KEY = "PrivateUse3"
_DEVICES = 64
_int64 = ctypes.c_int64

# As in kernels.cpp: what must hold of a call.
_FLOATS, _SAME, _LONGS, _DETERMINISM, _NO_MASK, _NOT_WIDENED, _ROOM = (1 << bit for bit in range(7))
_VIEW, _COPY = -1, -2
# Of operations that have a kernel of their own in special_kernels.py.
_SPECIAL = {
    "empty.memory_format": _ROOM,
    "empty_strided": _ROOM,
    "copy_": _COPY,
    "convolution": _FLOATS | _SAME,
    "convolution_backward": _FLOATS | _SAME,
    "_softmax": _NOT_WIDENED,
    "_log_softmax": _NOT_WIDENED,
    "_softmax_backward_data": _NOT_WIDENED | _SAME,
    "_log_softmax_backward_data": _NOT_WIDENED | _SAME,
}
# Of data types that `dtypes` looks at.
_TYPES = {"native_layer_norm": _SAME, "nll_loss_forward": _LONGS, "index_select": _LONGS}


class _Memory(ctypes.Structure):
    _fields_ = tuple(
        (name, _int64) for name in ("allocated", "blocks", "peak", "reserved", "ever", "ever_blocks")
    )


class Shared(ctypes.Structure):
    """As in memory.h."""

    _fields_ = (
        ("careful", _int64),
        ("used", _int64),
        ("devices", _int64),
        ("kernels", _int64),
        ("memory", _Memory * _DEVICES),
    )


_library: Any = None


def share(library: Any) -> None:
    """Let the kernels of a loaded library know this machine."""
    global _library
    library.devfix_share.restype = ctypes.POINTER(Shared)
    _library, machine.shared = library, library.devfix_share(machine.devices).contents


def relabel(tensor: Any, index: int) -> Any:
    """A tensor on the same memory that is on the device of that number, or on the CPU (-1)."""
    return torch.ops.devfix.relabel.default._op_dk(torch._C.DispatchKey.CPU, tensor, index)


def resize(storage: Any, size: int) -> None:
    """Give an untyped storage of a device another size in bytes, and what fits of its contents."""
    whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    torch.ops.devfix.resize_storage.default._op_dk(torch._C.DispatchKey.CUDA, whole, size)


def wants(full: str, operation: Any, by_hand: bool, is_view: bool) -> int | None:
    """What a call of an operation must be like for its compiled kernel; None where there is none.

    `by_hand`: its kernel is one of special_kernels.py.
    """
    schema = operation._schema
    name = str(schema.name).removeprefix("aten::")
    if by_hand:
        return _SPECIAL.get(full)
    if is_view:
        return _VIEW
    given = schema.arguments
    if any(one.is_out or one.name == "generator" for one in given) or name == "native_dropout":
        return None
    needed = _DETERMINISM if name in determinism.ALERTS else 0
    if name in dtypes.CHECKED:
        found = _FLOATS if dtypes.takes_floats(name) else _TYPES.get(name)
        if found is None:
            return None
        needed |= found
    return needed | (_NO_MASK if name == "index" else 0)


def register(wanted: dict[str, int]) -> None:
    """Put the compiled kernels of these operations on CUDA's dispatch key."""
    names = (ctypes.c_char_p * len(wanted))(*(name.encode() for name in wanted))
    _library.devfix_register(names, (ctypes.c_int * len(wanted))(*wanted.values()), len(wanted))
