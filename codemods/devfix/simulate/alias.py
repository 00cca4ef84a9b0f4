"""The same memory as a CPU tensor and as a cuda tensor.

A CPU tensor is exported as a DLPack capsule, the two int32 of its DLDevice are overwritten, and
the capsule is imported again: a plain torch.Tensor whose C++ device, storage and dispatch keys
are CUDA's, on the CPU's memory. The other way round gives back a CPU tensor on that memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from devfix.simulate import memory, native_kernels
from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import check_ordinal, guard_of, machine

_CPU, _ONE_API = 1, 14  # kDLCPU, kDLOneAPI
_AFTER_DATA = 8  # DLTensor: void* data; {int32 device_type; int32 device_id}; ...
_EQUAL_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_uint64 = ctypes.c_uint64
_somewhere = ctypes.c_uint64()
_SOMEWHERE = ctypes.addressof(_somewhere)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_export, _import = torch._C._to_dlpack, torch._C._from_dlpack
_coo = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default
_compressed = torch.ops.aten._sparse_compressed_tensor_unsafe.default
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}
_nested = torch.ops.aten._nested_view_from_buffer.default
_set = torch.ops.aten.set_.source_Storage_storage_offset
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _relabel(tensor: Any, kind: int, index: int) -> Any:
    if machine.shared is not None and tensor.__class__ in _PLAIN:
        return native_kernels.relabel(tensor, -1 if kind == _CPU else index)
    capsule = _export(tensor)
    address = _pointer(capsule, b"dltensor")
    _uint64.from_address(address + _AFTER_DATA).value = kind | (index << 32)
    if kind == _ONE_API:  # the hooks are asked for the device of an address, which must be one
        machine.arriving = index
        data = _uint64.from_address(address)
        data.value = data.value or _SOMEWHERE
    return _import(capsule)


def _relabel_other(tensor: Any, kind: int, index: int) -> Any:
    """What DLPack does not know: dtypes such as float8, and lazy conjugates and negatives."""
    if tensor.is_conj() or tensor.is_neg():
        plain = tensor.conj() if tensor.is_conj() else tensor
        negative = plain.is_neg()
        plain = torch._neg_view(plain) if negative else plain
        plain = _relabel(plain, kind, index)
        plain = torch._neg_view(plain) if negative else plain
        return plain.conj() if tensor.is_conj() else plain
    return _relabel(tensor.view(_EQUAL_SIZE[tensor.element_size()]), kind, index).view(tensor.dtype)


def _with_parts(tensor: Any, change: Callable[[Any], Any], device: Any) -> Any:
    """A nested or sparse tensor, which is made of one to three dense ones, with these on another device."""
    if tensor.is_nested:
        sizes = tensor._nested_tensor_size(), tensor._nested_tensor_strides()
        return _nested(change(tensor.values()), *sizes, tensor._nested_tensor_storage_offsets())
    if tensor.layout not in (torch.sparse_coo, *_COMPRESSED):
        raise SimulationUnsupported(f"tensors with layout {tensor.layout} are not simulated on cuda")
    kind = {"dtype": tensor.dtype, "layout": tensor.layout, "device": device}
    names: tuple[str, ...] = ("_indices", "_values")
    if tensor.layout is not torch.sparse_coo:
        names = (*_COMPRESSED[tensor.layout], "values")
    parts = [change(getattr(tensor, name)()) for name in names]
    with guard_of(
        -1 if device.index is None else device.index
    ):  # the C++ object begins on the current device
        if tensor.layout is not torch.sparse_coo:
            return _compressed(*parts, list(tensor.shape), **kind)
        dims = tensor.sparse_dim(), tensor.dense_dim(), list(tensor.shape)
        return _coo(*dims, *parts, is_coalesced=tensor.is_coalesced(), **kind)


def cpu_alias(tensor: Any) -> Any:
    """A CPU tensor on the memory of a simulated cuda tensor."""
    try:
        if tensor.dtype.is_complex and (tensor.is_conj() or tensor.is_neg()):
            return _relabel_other(tensor, _CPU, 0)
        return _relabel(tensor, _CPU, 0)
    except (BufferError, RuntimeError, TypeError, ValueError):
        if tensor.layout is not torch.strided or tensor.is_nested:
            return _with_parts(tensor, cpu_alias, torch.device("cpu"))
        return _relabel_other(tensor, _CPU, 0)


def to_cuda(tensor: Any, index: int) -> Any:
    """A simulated cuda tensor on the memory of a CPU tensor.

    Raises SimulationUnsupported for quantized and mkldnn tensors, and CUDA's error for a device
    that is not there.
    """
    if tensor.is_quantized:
        raise SimulationUnsupported("quantized tensors are not simulated on cuda")
    if tensor.layout is not torch.strided or tensor.is_nested:
        return _with_parts(tensor, lambda part: to_cuda(part, index), machine.device(index))
    if index >= machine.devices:
        check_ordinal(index)
    if machine.refused_dtypes and tensor.dtype in machine.refused_dtypes:
        raise TypeError(machine.refused_dtypes[tensor.dtype])
    kind = machine.torch_kind.dlpack
    try:
        if tensor.dtype.is_complex and (tensor.is_conj() or tensor.is_neg()):
            made = _relabel_other(tensor, kind, index)
        else:
            made = _relabel(tensor, kind, index)
    except (BufferError, TypeError, ValueError):
        made = _relabel_other(tensor, kind, index)
    memory.note(made)
    return made


def all_to_cuda(result: Any, index: int) -> Any:
    """`to_cuda` of a tensor, or of the tensors in a tuple or list."""
    if isinstance(result, torch.Tensor):
        return to_cuda(result, index)
    if isinstance(result, (tuple, list)):
        items = [to_cuda(item, index) if isinstance(item, torch.Tensor) else item for item in result]
        return items if type(result) is list else tuple(items)
    return result


def adopt(cuda: Any, cpu: Any) -> Any:
    """Give a cuda tensor the memory and shape of a CPU tensor: what resizing comes down to."""
    source = to_cuda(cpu, cuda.get_device())
    _set._op_dk(
        torch._C.DispatchKey.CPU,
        cuda,
        source.untyped_storage(),
        0,
        list(source.shape),
        list(source.stride()),
    )
    return cuda
