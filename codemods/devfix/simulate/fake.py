"""Programs on fake cuda devices: torch's FakeTensorMode, where shapes and devices are all there is.

The fallback where no devices can be simulated. It sees modules and tensors on different devices, and
has no numbers. Whatever it does not judge as CUDA does is refused (SimulationUnsupported): not checked.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.program import Report, run_program

PLACE = "cuda (fake tensors)"
MIXED = "Expected all tensors to be on the same device, but found at least two devices, "
_NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
# torch's words where a fake device is asked for what only a real one, or a number, can give.
_BEYOND = (
    "not linked with support for cuda",
    "accelerator device when none",
    "from the 'CUDA' backend",
    "not supported for tensor subclasses",
    "not compiled with CUDA",
    "Found no NVIDIA driver",  # in a build with CUDA
    "driver version is insufficient",
)
_TENSOR = torch.Tensor
# Operators that take a CPU scalar together with CUDA tensors, on CUDA as well. FakeTensorMode lets all do so.
_SCALARS = frozenset({
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow",
    "eq", "ne", "lt", "le", "gt", "ge", "where", "maximum", "minimum", "masked_fill", "fill",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
})  # fmt: skip
_COPIES = frozenset({"_to_copy", "copy_", "copy"})


def run_fake(source: str, path: str, devices: int) -> Report:
    """Run a program as `run_program` does, with fake devices; this process is spoiled afterwards."""
    with fake_devices(devices):
        report = run_program(source, path)
    if report.status == "raised" and not judged(report.error):
        return replace(report, status="unsupported", error=f"with fake tensors: {report.error}")
    return report


def judged(error: str) -> bool:
    """Does the text of an error say something? Others are the program's own or stem from what fake tensors
    lack: nobody knows."""
    return MIXED in error or _NUMPY in error


@contextlib.contextmanager
def fake_devices(count: int) -> Iterator[None]:
    """What is made inside is fake, and there are so many cuda devices; once for a process."""
    _devices(count)
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Without autograd: a graph with cuda tensors needs a device guard, which a CPU build has not.
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), _Checks(), _Calls():
        yield


def _devices(count: int) -> None:
    """What programs ask before they use a device, without one."""
    import torch._subclasses.fake_tensor as fake_tensor

    cuda: Any = torch.cuda
    for name, answer in (
        ("is_available", True), ("is_initialized", True), ("device_count", count), ("current_device", 0),
        ("is_bf16_supported", True), ("_lazy_init", None), ("synchronize", None), ("empty_cache", None),
        ("manual_seed", None), ("manual_seed_all", None), ("set_device", None),
    ):  # fmt: skip
        setattr(cuda, name, lambda *args, answer=answer, **kwargs: answer)
    for name in ("init_gpu_context", "init_cuda_context"):
        if hasattr(fake_tensor, name):
            setattr(fake_tensor, name, lambda *args: None)
    module: Any = torch.nn.Module
    function: Any = torch.autograd.Function
    autocast: Any = torch.autocast
    module._apply, function.apply, autocast.__enter__ = _apply, classmethod(_no_function), _autocast


def _apply(module: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
    """Module._apply, which cannot put a fake tensor in the place of another: its device is changed."""
    if recurse:
        for child in module.children():
            child._apply(function)
    for parameter in module._parameters.values():
        if parameter is None:
            continue
        for tensor in (parameter, parameter.grad):
            if tensor is None:
                continue
            with torch.no_grad():
                made = function(tensor)
            if made.dtype != tensor.dtype:
                raise SimulationUnsupported("changing the type of parameters, with fake tensors")
            tensor.fake_device = made.device
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


def _autocast(*_: object) -> Any:
    raise SimulationUnsupported("autocast, with fake tensors")  # it would end the process


def _no_function(*_: object, **__: object) -> Any:
    raise SimulationUnsupported("an autograd.Function, with fake tensors")


# --- numbers that are not there ----------------------------------------------------------------


def _no_number(*_: object) -> Any:
    raise SimulationUnsupported("a decision that depends on numbers, which fake tensors have not")


class Unknown(float):
    """What `item()` gives: it can be computed with and printed, and decides nothing."""

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __bool__ = __int__ = _no_number
    __hash__ = float.__hash__

    def _same(self, *_: object) -> Unknown:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __round__ = __neg__ = __abs__ = __pow__ = _same  # type: ignore[assignment]


def _numbers(shape: list[int]) -> Any:
    if not shape:
        return Unknown("nan")
    return [_numbers(shape[1:]) for _ in range(shape[0])]


# --- calls of torch ----------------------------------------------------------------------------


def _indexed(value: Any) -> Any:
    """`cuda` is its first device: torch asks a driver otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        return torch.device("cuda", value)
    if value is None:
        return torch.device("cuda", 0)
    device = torch.device(value)
    return torch.device("cuda", 0) if device.type == "cuda" and device.index is None else device


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda"))


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    """What torch does on the way to its operators, and what wants numbers."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        try:
            return self.called(function, args, kwargs)
        except SimulationUnsupported:
            raise
        except Exception as error:
            raise _translated(error) from error

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if function is _TENSOR.item and args[0].is_floating_point():
            return Unknown("nan")
        if function is _TENSOR.tolist and args[0].is_floating_point():
            return _numbers(list(args[0].shape))
        if function is _TENSOR.__format__ and args[0].dim() == 0 and args[0].is_floating_point():
            return format(Unknown("nan"), args[1])
        if function in (_TENSOR.numpy, _TENSOR.__array__) and args[0].device.type == "cuda":
            raise TypeError(_NUMPY)
        if function is _TENSOR.backward:
            return _backward()
        if function is torch._C._set_grad_enabled:
            return None
        if _in_loader() and function in (_TENSOR.item, _TENSOR.tolist):
            # Seeds and orders of a DataLoader: any will do.
            return 0 if function is _TENSOR.item else list(range(args[0].numel()))
        if function in (_TENSOR.__getitem__, _TENSOR.__setitem__) and args[0].device.type == "cuda":
            view = _part(args[0], args[1])
            if function is _TENSOR.__getitem__:
                return view
            value = args[2]
            return _copied(view, value) if isinstance(value, _TENSOR) else view.fill_(value)
        if function is _TENSOR.copy_:
            return _copied(args[0], args[1])
        if function is _TENSOR.cuda:
            device = args[1] if len(args) > 1 else kwargs.get("device")
            return args[0].to(_indexed(device))
        if kwargs.get("generator") is not None and not _in_loader():
            raise SimulationUnsupported("a generator, with fake tensors")
        if _is_device(kwargs.get("device")):
            kwargs["device"] = _indexed(kwargs["device"])
        if function in (torch.tensor, torch.as_tensor) and _is_device(kwargs.get("device")):
            device = kwargs.pop("device")
            grad = kwargs.pop("requires_grad", False)
            return function(*args, **kwargs).to(device).requires_grad_(grad)
        if function is _TENSOR.to:
            args = tuple(_indexed(one) if _is_device(one) else one for one in args)
        return function(*args, **kwargs)


def _copied(target: Any, source: Any) -> Any:
    """`target.copy_(source)`, without the device guard that the method asks for."""
    return torch.ops.aten.copy_.default(target, source.to(target.device))


def _part(tensor: Any, index: Any) -> Any:
    """`tensor[index]`, which asks for a device guard, in operators that do not."""
    items = index if isinstance(index, tuple) else (index,)
    used = sum(isinstance(one, (int, slice)) for one in items)
    dim, rest = 0, tensor.dim() - used
    for one in items:
        if one is Ellipsis:
            dim += rest
        elif one is None:
            tensor, dim = tensor.unsqueeze(dim), dim + 1
        elif isinstance(one, int) and not isinstance(one, bool):
            tensor = tensor.select(dim, one)
        elif isinstance(one, slice):
            step = 1 if one.step is None else one.step
            tensor, dim = torch.ops.aten.slice.Tensor(tensor, dim, one.start, one.stop, step), dim + 1
        else:
            raise SimulationUnsupported("indexing by tensors or lists, with fake tensors")
    return tensor


def _in_loader() -> bool:
    """Is it the DataLoader that calls torch, not the program?"""
    frame = sys._getframe(3)
    return os.path.join("torch", "utils", "data") in frame.f_code.co_filename


def _translated(error: Exception) -> Exception:
    """CUDA's words for what CUDA refuses too, and a refusal for what says nothing."""
    name, text = type(error).__name__, str(error)
    if name == "FakeTensorDeviceMismatchError" or "found two different devices" in text:
        return error if MIXED in text else RuntimeError(f"{MIXED}{text.rpartition('devices ')[2]}")
    if name in (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedFakeTensorException",
    ):
        return SimulationUnsupported(f"{text}, with fake tensors")
    if any(words in text for words in _BEYOND):
        return SimulationUnsupported(f"with fake tensors: {text.splitlines()[0]}")
    return error


def _backward() -> None:
    """Gradients for every parameter there is, of its shape and device. That nothing goes wrong on the way
    is taken from the forward pass: torch's operators and their backwards run on the same tensors."""
    for one in gc.get_objects():
        if isinstance(one, torch.nn.Parameter) and one.requires_grad and one.grad is None:
            one.grad = torch.zeros_like(one, requires_grad=False)


class _Checks(TorchDispatchMode):  # type: ignore[misc]
    """Refuses what FakeTensorMode lets pass though its tensors are on different devices."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            result = function(*args, **kwargs)
        except SimulationUnsupported:
            raise
        except Exception as error:
            raise _translated(error) from error
        name = function._schema.name.partition("::")[2]
        tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
        if len({one.device for one in tensors}) > 1 and not _allowed(name, args, tensors):
            raise SimulationUnsupported(
                f"{name} of tensors on different devices, which fake tensors do not check"
            )
        return result


def _allowed(name: str, args: tuple[Any, ...], tensors: list[Any]) -> bool:
    """Does CUDA take these, too, as far as it is known here?"""
    if name in _COPIES:
        return True
    first = args[0] if args else None
    if not isinstance(first, torch.Tensor):
        return False
    if name == "index" and first.device.type == "cuda":  # CPU indices into a CUDA tensor
        return all(one.device in (first.device, torch.device("cpu")) for one in tensors)
    if name.rstrip("_") not in _SCALARS or (name.endswith("_") and first.device.type == "cpu"):
        return False
    others = [one for one in tensors if not (one.device.type == "cpu" and one.dim() == 0)]
    return len({one.device for one in others}) == 1
