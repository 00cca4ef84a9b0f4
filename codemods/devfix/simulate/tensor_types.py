"""torch.cuda.FloatTensor and its like, storages on cuda, and pinned memory."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from functools import wraps
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils._device import _device_constructors

from devfix.simulate import native_kernels
from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import machine

_LEGACY = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
    "BFloat16Tensor": torch.bfloat16,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
}
_FACTORIES = (
    *("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "tensor", "empty_strided"),
    *("arange", "range", "linspace", "logspace", "eye"),
    *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
)
_PREFIX = "torch.cuda."
_known: set[Any] = _device_constructors()  # cached by torch, with the original functions


class _TensorType(type):
    """The type of torch.cuda.FloatTensor: no tensor's class, but `isinstance` works."""

    dtype: Any

    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, torch.Tensor) and bool(item.is_cuda and item.dtype == cls.dtype)


def _new(cls: Any, *arguments: Any, **named: Any) -> Any:
    return torch.empty(0, dtype=cls.dtype, device="cuda").new(*arguments, **named)


def _new_sparse(cls: Any, *arguments: Any, **named: Any) -> Any:
    if len(arguments) > 1 and isinstance(arguments[0], torch.Tensor):  # indices and values say where it is
        return torch.sparse_coo_tensor(*arguments, **named)
    return torch.zeros(arguments, dtype=cls.dtype, device="cuda", layout=torch.sparse_coo)


def _new_of_default(cls: Any, *arguments: Any, **named: Any) -> Any:
    """torch.Tensor(2, 3) and torch.Tensor([1.0]), while the default type is one of torch.cuda's."""
    made = torch._C.TensorBase.__new__(cls, *arguments, **named)
    if arguments and isinstance(arguments[0], (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)):
        return made
    with torch._C.DisableTorchFunctionSubclass():
        return made.to("cuda").as_subclass(cls)


def install() -> None:
    _install_storage()
    _install_pinning()
    if machine.kind == "cuda":
        _install_legacy()


def _install_legacy() -> None:
    for name, dtype in _LEGACY.items():
        members = {"__new__": _new, "dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}
        setattr(torch.cuda, name, _TensorType(name, (), members))
        members = {"__new__": _new_sparse, "dtype": dtype, "__module__": "torch.cuda.sparse"}
        setattr(torch.cuda.sparse, name, type(name, (), members))
    _install_conversions()


def _named(text: str) -> Any:
    return getattr(torch.cuda, text[len(_PREFIX) :])


def _install_conversions() -> None:
    original_type = torch.Tensor.type
    original_default = torch.set_default_tensor_type

    def tensor_type(self: Any, dtype: Any = None, non_blocking: bool = False, **named: Any) -> Any:
        if isinstance(dtype, str) and dtype.startswith(_PREFIX):
            dtype = _named(dtype)
        if isinstance(dtype, _TensorType):
            return self.to("cuda", dtype.dtype)
        if dtype is None:
            return original_type(self)
        return original_type(self, dtype, non_blocking, **named)

    def set_default_tensor_type(kind: Any) -> None:
        if isinstance(kind, str) and kind.startswith(_PREFIX):
            kind = _named(kind)
        if isinstance(kind, _TensorType):
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")
            torch.Tensor.__new__ = _new_of_default
        else:
            torch.set_default_device(None)
            torch.Tensor.__new__ = torch._C.TensorBase.__new__
            original_default(kind)

    torch.Tensor.type = tensor_type
    torch.set_default_tensor_type = set_default_tensor_type


def _install_storage() -> None:
    storage = torch.storage.UntypedStorage
    original = storage.__new__

    def new(cls: Any, *arguments: Any, **named: Any) -> Any:
        device = named.get("device")
        if device is not None and torch.device(device).type == machine.kind:
            size = arguments[0] if arguments and isinstance(arguments[0], int) else named.get("size", 0)
            return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()
        return original(cls, *arguments, **named)

    resize, real = storage.resize_, storage.nbytes

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != machine.kind:
            return resize(self, size)
        if machine.shared is not None:
            native_kernels.resize(self, size)
            return self
        if size > real(self):
            raise SimulationUnsupported("a storage on a device cannot grow without `devfix simulate --build`")
        self._size_told = size  # memory that is given up early, as FSDP does, may as well be kept
        return self

    def nbytes(self: Any) -> Any:
        told = getattr(self, "_size_told", None)
        return real(self) if told is None else told  # that of a fake tensor may be a symbol

    def share(self: Any, *arguments: Any, **named: Any) -> Any:
        raise SimulationUnsupported("storages on cuda cannot be sent to another process")

    storage.__new__ = staticmethod(new)
    storage.resize_, storage.nbytes, storage.size = resize_, nbytes, nbytes
    if machine.kind == "cuda":
        storage._share_cuda_ = storage._new_shared_cuda = share


def _install_pinning() -> None:
    original = torch.Tensor.pin_memory

    def pin_memory(self: Any, device: Any = None) -> Any:
        if has_torch_function_unary(self):
            return original(self)
        return pinned(self if self.is_pinned() else original(self))

    torch.Tensor.pin_memory = pin_memory
    for name in _FACTORIES:
        _pin_results_of(torch, name)
    for name in ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided"):
        _pin_results_of(torch.Tensor, name)


def pinned(tensor: Any) -> Any:
    """Keep in mind that the memory of a CPU tensor is pinned."""
    machine.pinning = 0
    address = tensor.data_ptr()
    if tensor.is_cpu and address not in machine.pinned:
        machine.pinned[address] = tensor.untyped_storage().nbytes()
        weakref.finalize(tensor, machine.pinned.pop, address, None)
    return tensor


def pinned_for_copy(tensor: Any) -> None:
    """What torch's C++ has made as the target of a copy that does not block is pinned."""
    if machine.pinning == threading.get_ident():
        pinned(tensor)


def _pin_results_of(owner: Any, name: str) -> None:
    original = getattr(owner, name)

    @wraps(original, assigned=("__name__", "__doc__"), updated=())
    def factory(*arguments: Any, **named: Any) -> Any:
        if not named.get("pin_memory"):
            return original(*arguments, **named)
        return pinned(original(*arguments, **named))

    setattr(owner, name, factory)
    if owner is torch:
        known_to_torch(factory, original, name)


def known_to_torch(function: Any, original: Any, name: str) -> None:
    """Let a function take the place of torch's own wherever these are known by their identity.

    TorchScript does so, the mode of a default device that torch.compile traces, and what `__torch_function__` is given.
    """
    torch.jit._builtins._register_builtin(function, f"aten::{name}")
    if original in _known:
        _known.add(function)
    # C++ looks here for the function to give; the class is immutable to Python only.
    (functions,) = gc.get_referents(torch._C._VariableFunctionsClass.__dict__)
    functions[name] = staticmethod(function)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch._C._VariableFunctionsClass))
