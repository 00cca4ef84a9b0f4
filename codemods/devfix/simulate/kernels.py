"""CUDA kernels in Python, on CPU memory: check devices, run the CPU kernel, relabel the result.

Everything above the backend (autograd, autocast, composite operations, Module.to, optimizers,
torch.save, printing) is torch's own code and sees real cuda devices. Only what a CUDA build
registers for the CUDA dispatch key gets a kernel from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from devfix.simulate import determinism, dtypes
from devfix.simulate.alias import adopt, all_to_cuda, cpu_alias
from devfix.simulate.device_checks import (
    CUDA_CHECKS,
    OWN_CHECKS,
    check_generator,
    check_iterator,
    check_placeholders,
    check_wrapper,
    tensors,
)
from devfix.simulate.errors import REAL_CUDA
from devfix.simulate.generators import bring_up, numbers_of
from devfix.simulate.machine import check_process, current_device, machine, stats, synchronizes
from devfix.simulate.native_functions import NativeFunction

Tensor = torch.Tensor
Key = torch._C.DispatchKey
CPU = torch.device("cpu")
_NUMBERS = (int, float, complex)
_VIEWS = frozenset(
    f"aten::{name}"
    for name in (
        "as_strided",
        "view",
        "unfold",
        "_reshape_alias",
        "view_as_real",
        "view_as_complex",
        "is_set_to",
        "set_.source_Tensor",
        "set_.source_Storage_storage_offset",
        "set_.source_Storage",
    )
)
OWN_NUMBERS = frozenset({"native_dropout"})  # draw from the device's generator, and take none
WAITS = frozenset(
    {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "is_nonzero", "equal", "bincount"}
    | {"unique_dim", "unique_consecutive", "index"}
)
_BELOW_AUTOCAST = torch._C.DispatchKeySet(Key.AutocastCPU)
_INSIDE = (list, tuple, torch.device)  # what a device may be in, besides tensors
_COMPOSITE = object()  # verdict of a device check: run the composite kernel instead


def natively(make: Callable[[], Callable[..., Any]], operation: Any) -> Callable[..., Any]:
    """The kernel of an operation, as it is registered; it is made at the first call, since a program needs a few.

    It must not see torch function modes, such as a default device, nor autocast of the CPU.
    """
    kernel: Any = None

    def inner(*arguments: Any, **named: Any) -> Any:
        nonlocal kernel
        with torch._C.DisableTorchFunction():
            kernel = kernel or make()
            if machine.capture is None and not torch.is_autocast_enabled("cpu"):
                return kernel(*arguments, **named)
            run = kernel if machine.capture is None else partial(machine.capture.call, kernel, operation)
            with torch._C._ExcludeDispatchKeyGuard(_BELOW_AUTOCAST):
                return run(*arguments, **named)

    return inner


def has_kernel(operation: Any, key: str) -> bool:
    """Is there an explicit kernel? `_op_dk` on a key that has none is a segmentation fault."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), key))


def lacks_a_part(error: RuntimeError) -> bool:
    """Has a C++ function for all devices come to a part (DispatchStub) without a kernel here, or without a GPU?"""
    return "DispatchStub" in str(error) or bool(REAL_CUDA.search(str(error)))


def make_kernel(operation: Any, function: NativeFunction) -> Callable[..., Any] | None:
    """The CUDA kernel of an operation that has a CPU kernel; None where there can be none."""
    if not is_view(operation):
        return natively(lambda: Kernel(operation, function).run, operation)
    if not has_kernel(operation, "CPU"):
        return None
    # Only shapes: it can work on the cuda tensor itself.
    return lambda *arguments, **named: operation._op_dk(Key.CPU, *arguments, **named)


def _full_name(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def is_view(operation: Any) -> bool:
    """Does an operation look at the shape and the memory of its tensor only?"""
    schema = operation._schema
    view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    return view or _full_name(schema) in _VIEWS


def _has_mask(indices: Any) -> bool:
    return any(index.dtype in (torch.bool, torch.uint8) for index in tensors(indices))


class _Lowering:
    """Arguments as CPU tensors; remembers the device that they came from."""

    __slots__ = ("index", "mixed")

    def __init__(self) -> None:
        self.index = -1
        self.mixed = False

    def tensor(self, tensor: Any) -> Any:
        index = tensor.get_device()
        if index < 0:  # not here
            self.mixed = True
            return tensor
        if self.index < 0:
            self.index = index
        elif index != self.index:
            self.mixed = True
        return cpu_alias(tensor)

    def argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            return [self.tensor(item) if isinstance(item, Tensor) else item for item in value]
        if isinstance(value, torch.device):
            if value.type == machine.kind:
                self.index = current_device() if value.index is None else value.index
            return CPU
        return value


class Kernel:
    """The kernel of one operation."""

    def __init__(self, operation: Any, function: NativeFunction, method: str = "") -> None:
        schema = operation._schema
        arguments = schema.arguments
        self.call = operation._op  # what calling it comes to
        self.name = schema.name.removeprefix("aten::")
        self.waits = self.name in WAITS
        self.checks_types = self.name in dtypes.CHECKED
        self.takes_floats = dtypes.takes_floats(self.name)
        self.alerts = self.name in determinism.ALERTS
        self.own_numbers = self.name in OWN_NUMBERS
        self.packet = operation.overloadpacket
        self.run_with = operation._op_dk
        self.names = [argument.name for argument in arguments]
        self.defaults = arguments
        self.is_tensor = [str(a.type) in ("Tensor", "Optional[Tensor]") for a in arguments]
        keyword_only = {argument.name for argument in arguments if argument.kwarg_only}
        self.outputs = [argument.name for argument in arguments if argument.is_out]
        self.order = self.outputs + [name for name in self.names if name not in keyword_only]
        self.written: dict[str, str] = {}  # alias set -> argument
        for argument in arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                for alias in argument.alias_info.before_set:
                    self.written[alias] = argument.name
        self.returned = [self._returned(result) for result in schema.returns]
        self.in_place = bool(self.returned) and None not in self.returned
        self.gives_first = self.returned == self.names[:1] and not self.outputs
        self.has_generator = "generator" in self.names
        positional = self.has_generator and "generator" not in keyword_only
        self.generator_at = self.names.index("generator") if positional else None

        self.method = method or function.method
        self.device_check = function.device_check
        self.own_check = OWN_CHECKS.get(self.name) or OWN_CHECKS.get(
            _full_name(schema).removeprefix("aten::")
        )
        if machine.kind == "cuda" and self.own_check is None:
            self.own_check = CUDA_CHECKS.get(self.name)
        # One C++ function serves CPU and CUDA.
        self.shared = (
            not function.device_check
            and not function.structured
            and has_kernel(operation, "CPU")
            and function.dispatch.get("CPU", "") == function.dispatch.get(machine.torch_kind.like)
        )
        if machine.kind == "mps" and not (self.own_check or self.shared or function.iterates):
            self.own_check = check_placeholders
        self.composite: Any = None
        for key in ("CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"):
            if not method and self.composite is None and has_kernel(operation, key):
                self.composite = getattr(Key, key)

    def _returned(self, result: Any) -> str | None:
        """The argument that is given back as a result, if it is one."""
        if result.alias_info is not None and result.alias_info.is_write:
            return self.written[next(iter(result.alias_info.before_set))]
        return None

    def run(self, *arguments: Any, **named: Any) -> Any:
        stats.launched += 1
        if machine.bad_fork:
            check_process()
        if self.waits and (self.name != "index" or _has_mask(arguments[1])):
            synchronizes()
        lowering = _Lowering()
        call = self.call
        lowered = []
        for value, is_tensor in zip(arguments, self.is_tensor, strict=False):
            if isinstance(value, Tensor):
                lowered.append(lowering.tensor(value))
            elif is_tensor and isinstance(value, _NUMBERS):
                # A "wrapped number" arrives as a Python number: let torch pick the Scalar overload.
                call = self.packet
                lowered.append(value)
            elif isinstance(value, _INSIDE):
                lowered.append(lowering.argument(value))
            else:
                lowered.append(value)
        lowered_named = {name: lowering.argument(value) for name, value in named.items()} if named else {}
        if lowering.mixed:
            stats.mixed += 1
            try:
                verdict = self._check(arguments, named)
                if verdict is _COMPOSITE:
                    return self.run_with(self.composite, *arguments, **named)
                if verdict is not None:
                    return verdict
            except RuntimeError as error:
                if machine.carry_on is None or not machine.carry_on(
                    self.name, error, (*arguments, *named.values())
                ):
                    raise
        if self.checks_types and not (self.takes_floats and arguments and dtypes.is_floating(arguments[0])):
            dtypes.check(self.name, self.bind(arguments, named))
        if self.alerts:
            determinism.check(self.name, self.bind(arguments, named))
        index = lowering.index if lowering.index >= 0 else current_device()
        if self.has_generator:
            self._set_generator(lowered, lowered_named, index)
        if self.outputs:
            return self._run_out(call, arguments, named, lowered, lowered_named)
        if self.own_numbers:
            with numbers_of(index):
                result = self._compute(call, lowered, lowered_named)
        else:
            result = self._compute(call, lowered, lowered_named)
        if self.gives_first and arguments and arguments[0].layout is torch.strided:
            return arguments[0]
        if self.in_place:
            bound = self.bind(arguments, named)
            changed = self.bind(lowered, lowered_named)
            for name in self.written.values():
                if isinstance(bound[name], Tensor) and bound[name].layout is not torch.strided:
                    bound[name].copy_(all_to_cuda(changed[name], index))  # its alias has parts of its own
            given = tuple(bound[name] for name in self.returned if name is not None)
            return given[0] if len(given) == 1 else given
        return all_to_cuda(result, index)

    def _compute(self, call: Any, lowered: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Run the CPU kernel; its errors about data types become CUDA's, or are made good in float32."""
        try:
            return call(*lowered, **named)
        except (NotImplementedError, RuntimeError) as error:
            other = dtypes.of_cuda(error)
            if other is not None:
                raise other from None
            if not dtypes.only_the_cpu_lacks(error):
                raise
        narrow = self.bind(lowered, named)
        if self.name.startswith("_fft_"):
            dtypes.check_half_fft(narrow["self"], narrow["dim"])
        wide = {name: dtypes.widened(value) for name, value in narrow.items()}
        positional = [wide.pop(name) for name in self.names[: len(lowered)]]
        result = call(*positional, **wide)
        wide = self.bind(positional, wide)
        for name in self.written.values():
            narrow[name].resize_(wide[name].shape).copy_(wide[name])
        kind = next(t.dtype for value in narrow.values() for t in tensors(value) if t.dtype in dtypes.HALVES)
        return dtypes.narrowed(result, kind)

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.names, arguments, strict=False)), **named}

    def _check(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Raise what CUDA raises for this mix of devices.

        None: the mix is allowed. Otherwise the result, if the check has already computed it.
        """
        bound = self.bind(arguments, named)
        if self.own_check is not None:
            return self.own_check(bound)
        if self.device_check:
            return check_wrapper(self.order, bound, self.method)
        # NoCheck: the kernel checks by itself, mostly through TensorIterator.
        if self.composite is not None:
            # A structured operation: this kernel runs the very meta function that the CUDA kernel runs,
            # with its checks and its words, and then the out= kernel from here. For _foreach_* it is
            # the slow path, which CUDA takes as well.
            return _COMPOSITE
        if self.shared:
            # Run on the cuda tensors, the function's own checks speak; when they pass, it may come to such a part.
            try:
                return self.run_with(Key.CPU, *arguments, **named)
            except RuntimeError as error:
                if not lacks_a_part(error):
                    raise
                return None
        written = self.written.values()
        outputs = [t for name in self.names if name in written for t in tensors(bound.get(name))]
        inputs = [
            t
            for name in self.names
            if name not in self.outputs
            for t in tensors(bound.get(name))
            if not any(t is output for output in outputs)
        ]
        return check_iterator(outputs, inputs)

    def _set_generator(self, lowered: list[Any], named: dict[str, Any], index: int) -> None:
        at = self.generator_at
        if at is None:
            generator = named.get("generator")
        else:
            generator = lowered[at] if len(lowered) > at else None
        if generator is not None:
            check_generator(generator, machine.kind)
            bring_up(generator)
            return
        if machine.comparable:
            return
        generator = machine.default_generators[index]
        bring_up(generator)
        if at is None:
            named["generator"] = generator
            return
        while len(lowered) <= at:
            lowered.append(self.defaults[len(lowered)].default_value)
        lowered[at] = generator

    def _run_out(
        self,
        call: Any,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        lowered: list[Any],
        lowered_named: dict[str, Any],
    ) -> Any:
        """out= arguments: an alias cannot be resized, so what grows is computed fresh and adopted."""
        fresh: dict[str, Any] = {}

        def renew(name: str) -> None:
            empty = torch.ops.aten.empty.memory_format([0], dtype=named[name].dtype, device=CPU)
            fresh[name] = lowered_named[name] = empty

        single = [name for name in self.outputs if isinstance(named[name], Tensor)]
        for name in single:
            if named[name].layout is torch.strided and named[name].numel() == 0:
                renew(name)
        try:
            self._compute(call, lowered, lowered_named)
        except RuntimeError as error:
            if "resizable" not in str(error):
                raise
            for name in single:
                renew(name)
            self._compute(call, lowered, lowered_named)
        for name, result in fresh.items():
            output = named[name]
            same_shape = tuple(result.shape) == tuple(output.shape)
            if (same_shape and not result.numel()) or output.layout is not torch.strided:
                continue
            if not machine.here(output):
                output.resize_(result.shape).copy_(result)
            elif same_shape:
                cpu_alias(output).copy_(result)
            else:
                adopt(output, result)
        for name in single:
            if named[name].layout is not torch.strided:
                named[name].copy_(all_to_cuda(lowered_named[name], named[name].get_device()))
        if not self.returned:
            return None
        if len(self.outputs) == 1:
            return named[self.outputs[0]]
        return tuple(named[name] for name in self.returned if name is not None)
