"""A Mac's GPU: torch.mps, what MPS lacks, and its words, from torch's sources (aten/src/ATen/mps, native/mps).

Which operations MPS has is read from native_functions.yaml. torchgen writes no device checks for MPS, so a tensor
on the CPU comes to the kernels: to TensorIterator, to the checks of `linear` and the convolutions, or to a placeholder
that it has no storage for.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from devfix.simulate import memory
from devfix.simulate.alias import all_to_cuda, cpu_alias
from devfix.simulate.lacking import on_the_cpu
from devfix.simulate.machine import machine
from devfix.simulate.native_functions import NativeFunction

aten = torch.ops.aten
_DOUBLE = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
_NO_DTYPE = "Trying to convert {} to the MPS backend but it does not have support for that dtype."
# MPSFallback.mm: what is done on the CPU without being asked for. Of linalg_svd it is the inner operation here, so that
# its gradient is torch's.
_ALWAYS = {
    "embedding_renorm_": "embedding_renorm_",
    "col2im": "col2im",
    "_linalg_svd": "linalg_svd",
    "_linalg_svd.U": "linalg_svd.U",
}
_numbers = itertools.count(1)
_events: dict[int, float] = {}


def install() -> None:
    """torch.mps and torch.backends.mps."""
    machine.refused_dtypes = {
        torch.float64: _DOUBLE,
        torch.complex128: _NO_DTYPE.format("ComplexDouble"),
        torch.float8_e4m3fn: _NO_DTYPE.format("Float8_e4m3fn"),
        torch.float8_e5m2: _NO_DTYPE.format("Float8_e5m2"),
    }
    torch._C._has_mps = True
    for name, function in _functions().items():
        setattr(torch._C, name, function)
    torch.backends.mps.is_available.cache_clear()


def _functions() -> dict[str, Callable[..., Any]]:
    """The C++ functions behind torch.mps, which a build without MPS lacks."""

    def nothing(*arguments: Any) -> None:
        pass

    return {
        "_mps_is_available": lambda: True,
        "_mps_is_on_macos_or_newer": lambda major, minor: True,
        "_mps_is_in_bad_fork": lambda: False,
        "_mps_get_default_generator": lambda: machine.default_generators[0],
        "_mps_get_name": lambda: "simulated MPS device (devfix)",
        "_mps_get_core_count": lambda: 8,
        "_mps_deviceSynchronize": nothing,
        "_mps_emptyCache": nothing,
        "_mps_setMemoryFraction": nothing,
        "_mps_currentAllocatedMemory": lambda: memory.figures(0).allocated,
        "_mps_driverAllocatedMemory": lambda: memory.figures(0).reserved,
        "_mps_recommendedMaxMemory": lambda: memory.TOTAL,
        "_mps_profilerStartTrace": nothing,
        "_mps_profilerStopTrace": nothing,
        "_mps_acquireEvent": lambda timing: next(_numbers),
        "_mps_releaseEvent": nothing,
        "_mps_recordEvent": _record,
        "_mps_waitForEvent": nothing,
        "_mps_synchronizeEvent": nothing,
        "_mps_queryEvent": lambda event: True,
        "_mps_elapsedTimeOfEvents": lambda start, end: (_events[end] - _events[start]) * 1e3,
    }


def _record(event: int) -> None:
    _events[event] = time.perf_counter()


# --- operations that only MPS has ----------------------------------------------------------


def special_kernels() -> dict[str, Callable[..., Any]]:
    """By name and overload."""
    return {
        "linear": _linear,
        "linear_backward": _linear_backward,
        "_lstm_mps": _lstm,
        "lstm_mps_backward": _lstm_backward,
        "_scaled_dot_product_attention_math_for_mps": _attention,
        "max_pool2d_backward": _max_pool2d_backward,
    }


def always_on_the_cpu(functions: Mapping[str, NativeFunction]) -> dict[str, Callable[..., Any]]:
    """Kernels of operations that fall back to the CPU unasked, by name and overload."""
    made: dict[str, Callable[..., Any]] = {}
    for full, name in _ALWAYS.items():
        function = functions.get(full)
        operation = function and getattr(getattr(aten, function.name), function.overload or "default", None)
        if function and operation is not None and not function.there:
            made[full] = partial(on_the_cpu, operation, f"aten::{name}")
    return made


def check_convolution(input: Any, weight: Any, bias: Any) -> None:
    """MPSFallback.mm, and Convolution.cpp, ConvBackend::Mps."""
    if not machine.here(input) and input.dim() == 4:
        raise RuntimeError(
            f"slow_conv2d_forward_mps: input(device='{input.device}') and weight(device={weight.device}')  must be on "
            "the same device"
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if isinstance(tensor, torch.Tensor) and tensor.type() != input.type():
            raise RuntimeError(
                f"Input type ({_type(input)}) and {name} type ({_type(tensor)}) should be the same"
            )


def _type(tensor: Any) -> str:
    kind: str = tensor.type()
    return f"MPS{kind.split('.')[-1].removesuffix('Tensor')}Type" if machine.here(tensor) else kind


def _lowered(values: Sequence[Any]) -> list[Any]:
    return [cpu_alias(value) if isinstance(value, torch.Tensor) else value for value in values]


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    for name, tensor in (("input", input), ("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if name != "bias" and not (tensor.is_floating_point() or tensor.is_complex()):
            raise RuntimeError(f"MPS device does not support linear for non-float {name}s")
        if not machine.here(tensor):
            raise RuntimeError(f"Tensor for argument {name} is on {tensor.device} but expected on mps")
    return all_to_cuda(aten.linear.default(*_lowered((input, weight, bias))), 0)


def _linear_backward(self: Any, grad_output: Any, weight: Any, output_mask: Sequence[bool]) -> Any:
    input, gradient, matrix = _lowered((self, grad_output, weight))
    rows = gradient.reshape(-1, gradient.shape[-1])
    made = (
        (gradient @ matrix) if output_mask[0] else None,
        (rows.T @ input.reshape(-1, input.shape[-1])) if output_mask[1] else None,
        rows.sum(0) if output_mask[2] else None,
    )
    return all_to_cuda(made, 0)


def _attention(*arguments: Any, **named: Any) -> Any:
    lowered = dict(zip(named, _lowered(list(named.values())), strict=True))
    return all_to_cuda(aten._scaled_dot_product_attention_math.default(*_lowered(arguments), **lowered), 0)


def _max_pool2d_backward(grad_output: Any, self: Any, *settings: Any) -> Any:
    gradient, input = _lowered((grad_output, self))
    _, indices = aten.max_pool2d_with_indices.default(input, *settings)
    every = (*settings, *((), 0, 1, False)[len(settings) - 1 :])
    return all_to_cuda(aten.max_pool2d_with_indices_backward.default(gradient, input, *every, indices), 0)


def _run_lstm(
    input: Any, hx: Sequence[Any], params: Sequence[Any], settings: Sequence[Any]
) -> tuple[Any, ...]:
    has_biases, layers, dropout, train, bidirectional, batch_first = settings
    run: tuple[Any, ...] = aten.lstm.input(
        input, list(hx), list(params), has_biases, layers, dropout, train, bidirectional, batch_first
    )
    return run


def _lstm(input: Any, hx: Sequence[Any], params: Sequence[Any], *settings: Any) -> Any:
    tensor, state, weights = cpu_alias(input), _lowered(hx), _lowered(params)
    with torch.no_grad():
        output, hidden, cell = _run_lstm(tensor, state, weights, settings)
    # What the backward pass gets besides is its own affair: it computes the forward pass again.
    rest = torch.empty(0, dtype=output.dtype)
    return all_to_cuda((output, hidden, cell, rest, rest.clone(), rest.clone()), 0)


def _lstm_backward(
    grad_y: Any,
    grad_hy: Any,
    grad_cy: Any,
    z_state: Any,
    cell_state_fwd: Any,
    input: Any,
    layers_outputs: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    *settings: Any,
) -> Any:
    leaves = [one.detach().clone().requires_grad_() for one in _lowered((input, *hx, *params))]
    with torch.inference_mode(False), torch.enable_grad(), torch._C._AutoDispatchAboveAutograd():
        outputs = _run_lstm(leaves[0], leaves[1:3], leaves[3:], settings)
        pairs = [
            (out, cpu_alias(grad))
            for out, grad in zip(outputs, (grad_y, grad_hy, grad_cy), strict=True)
            if grad is not None
        ]
        made = torch.autograd.grad(
            [out for out, _ in pairs], leaves, [grad for _, grad in pairs], allow_unused=True
        )
    full = [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, made, strict=True)]
    return (
        all_to_cuda(full[0], 0),
        all_to_cuda(full[1:3], 0),
        all_to_cuda(full[3:], 0),
    )
