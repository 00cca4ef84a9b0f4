"""CUDA kernels written by hand: allocation and copies, convolution, and what only CUDA has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from devfix.simulate import determinism, dtypes, memory, mps, sync_batch_norm
from devfix.simulate.alias import adopt, all_to_cuda, cpu_alias, to_cuda
from devfix.simulate.device_checks import iterator_error, tensors, wrapper_error
from devfix.simulate.kernels import CPU, Key
from devfix.simulate.machine import (
    check_fork,
    check_ordinal,
    check_process,
    current_device,
    machine,
    stats,
    synchronizes,
)
from devfix.simulate.tensor_types import pinned_for_copy

aten = torch.ops.aten
Tensor = torch.Tensor


# --- memory --------------------------------------------------------------------------------


def _index(device: Any) -> int:
    if device is None or device.index is None:
        return current_device()
    index: int = device.index
    return index


def _refuse_pinned(pin_memory: bool | None) -> None:
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    memory_format: Any = None,
) -> Any:
    check_fork()
    _refuse_pinned(pin_memory)
    if machine.kind == "cuda":
        memory.check_room(size, dtype)
    made = torch.empty(size, dtype=dtype, device=CPU, memory_format=memory_format)  # faster than aten's
    return to_cuda(made, _index(device))


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> Any:
    check_fork()
    _refuse_pinned(pin_memory)
    if machine.kind == "cuda":
        memory.check_room(size, dtype)
    return to_cuda(torch.empty_strided(size, stride, dtype=dtype, device=CPU), _index(device))


def _zero_tensor(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> Any:
    # A ZeroTensor has no storage at all; real zeros behave the same.
    return to_cuda(aten.zeros.default(size, dtype=dtype, device=CPU), _index(device))


def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    stats.launched += 1
    check_process()
    if machine.here(self) != machine.here(src):
        host = src if machine.here(self) else self
        if machine.capture is not None and not host.is_pinned():
            raise RuntimeError(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
            )
        if not non_blocking:
            synchronizes()
        elif host is self:
            pinned_for_copy(self)
    target = cpu_alias(self) if machine.here(self) else self
    source = cpu_alias(src) if machine.here(src) else src
    if machine.here(self):
        check_ordinal(self.get_device())
    aten.copy_.default(target, source, False)
    return self


def _resize(self: Any, size: Any, *, memory_format: Any = None) -> Any:
    if tuple(self.shape) == tuple(size):
        return self
    old = cpu_alias(self) if self.numel() else None
    needed = 1
    for length in size:
        needed *= length
    room = self.untyped_storage().nbytes() // self.element_size() - self.storage_offset()
    if old is not None and self.is_contiguous() and needed <= room:
        strides: list[int] = []
        step = 1
        for length in reversed(list(size)):
            strides.insert(0, step)
            step *= max(length, 1)
        put = aten.set_.source_Storage_storage_offset._op_dk
        put(Key.CPU, self, self.untyped_storage(), self.storage_offset(), list(size), strides)
        return self
    new = aten.empty.memory_format(list(size), dtype=self.dtype, device=CPU)
    if old is not None:
        count = min(new.numel(), old.numel())
        new.view(-1)[:count].copy_(old.reshape(-1)[:count])
    return adopt(self, new)


def _set_empty(self: Any) -> Any:
    return adopt(self, aten.empty.memory_format([0], dtype=self.dtype, device=CPU))


def _record_stream(self: Any, s: Any) -> None:
    return None


def _pin_memory(self: Any, device: Any = None) -> Any:
    """Up to torch 2.4 pinning is a kernel; tensor_types.py keeps the address of what it gives."""
    return aten.clone.default(self)


def _is_pinned(self: Any, device: Any = None) -> bool:
    return bool(self.is_cpu and self.data_ptr() in machine.pinned)


# --- choices between CUDA's own kernels ----------------------------------------------------


def _attention_choice(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    return 0  # SDPBackend.MATH: composite, so every inner operation is checked


def _never(*arguments: Any, **named: Any) -> bool:
    return False


# --- convolution ---------------------------------------------------------------------------


def _convolution_like(name: str) -> Callable[..., Any]:
    operation = getattr(aten, name).default

    def kernel(*arguments: Any, **named: Any) -> Any:
        check_process()
        found = [tensor for argument in arguments for tensor in tensors(argument)]
        index = next(tensor.get_device() for tensor in found if machine.here(tensor))
        if name == "convolution":
            check = mps.check_convolution if machine.kind == "mps" else _check_cudnn
            check(*arguments[:3])
        if any(not machine.here(tensor) or tensor.get_device() != index for tensor in found):
            stats.mixed += 1
            # CPU input and cuda weight: not cuDNN on a GPU either, so torch's own code speaks.
            return operation._op_dk(Key.CompositeExplicitAutograd, *arguments, **named)
        stats.launched += 1
        lowered = [cpu_alias(item) if isinstance(item, Tensor) else item for item in arguments]
        return all_to_cuda(operation(*lowered, **named), index)

    return kernel


def _check_cudnn(input: Any, weight: Any, bias: Any) -> None:
    """A GPU has cuDNN: Convolution.cpp, ConvBackend::Cudnn, check_input_same_type_as_parameters."""
    if not input.is_cuda:
        return
    parameters = [(name, t) for name, t in (("weight", weight), ("bias", bias)) if isinstance(t, Tensor)]
    for name, tensor in parameters:
        if tensor.type() != input.type():
            raise RuntimeError(
                f"Input type ({input.type()}) and {name} type ({tensor.type()}) should be the same"
            )
    # cuda:0 against cuda:1 passes that, and comes to the generated check of cudnn_convolution.
    for name, tensor in parameters:
        if tensor.device != input.device:
            if name == "bias":  # added afterwards, by TensorIterator
                raise iterator_error(input.device, tensor.device)
            raise wrapper_error(name, tensor.device, input.device, "wrapper_CUDA__cudnn_convolution")
    if not (input.is_floating_point() or input.is_complex()):
        kind = input.type().removeprefix("torch.cuda.").removesuffix("Tensor")
        raise RuntimeError(f"getCudnnDataTypeFromScalarType() not supported for {kind}")


# --- softmax with a result of another type -------------------------------------------------


def _softmax(name: str) -> Callable[..., Any]:
    operation = getattr(aten, name).default

    def kernel(self: Any, dim: int, half_to_float: bool) -> Any:
        stats.launched += 1
        tensor = cpu_alias(self)
        try:
            result = operation(tensor.float() if half_to_float else tensor, dim, False)
        except NotImplementedError as error:
            raise dtypes.of_cuda(error) or error from None
        return to_cuda(result, self.get_device())

    return kernel


def _softmax_backward(name: str) -> Callable[..., Any]:
    operation = getattr(aten, name).default

    def kernel(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
        stats.launched += 1
        if grad.device != output.device:
            raise wrapper_error("output", output.device, grad.device, f"wrapper_CUDA_{name}")
        gradient = cpu_alias(grad)
        result = operation(gradient, cpu_alias(output), dim, gradient.dtype).to(input_dtype)
        return to_cuda(result, grad.get_device())

    return kernel


# --- what a GPU build compares in a kernel of its own -----------------------------------------


def _validate_coo(indices: Any, values: Any, *more: Any, **named: Any) -> None:
    """Since torch 2.14, the numbers are looked at by a kernel that is no operator."""
    operation = aten._validate_sparse_coo_tensor_args.default
    if indices.device == values.device:
        indices, values = (cpu_alias(one) if machine.here(one) else one for one in (indices, values))
    operation._op_dk(Key.CompositeImplicitAutograd, indices, values, *more, **named)


# --- operations that only CUDA has ---------------------------------------------------------


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of CUDA's, written with CPU operations."""

    def kernel(*arguments: Any, **named: Any) -> Any:
        def lower(value: Any) -> Any:
            return cpu_alias(value) if isinstance(value, Tensor) else value

        bound = dict(zip(("self",), arguments, strict=False))
        dtypes.check(function.__name__, bound)
        if function.__name__ in determinism.ALERTS:
            determinism.check(function.__name__, bound)
        found = [t for value in [*arguments, *named.values()] for t in tensors(value)]
        index = next(tensor.get_device() for tensor in found if machine.here(tensor))
        common = found[0].device
        for number, tensor in enumerate(found):
            if tensor.device != common:
                argument = f"argument #{number}"
                raise wrapper_error(argument, tensor.device, common, f"wrapper_CUDA__{function.__name__}")
        lowered = {name: lower(value) for name, value in named.items()}
        return all_to_cuda(function(*map(lower, arguments), **lowered), index)

    return kernel


def _thnn_fused_lstm_cell(ig: Any, hg: Any, cx: Any, ib: Any = None, hb: Any = None) -> Any:
    gates = ig + hg
    if ib is not None:
        gates = gates + ib + hb
    i, f, c, o = gates.chunk(4, 1)
    i, f, c, o = i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid()
    cy = f * cx + i * c
    hy = o * cy.tanh()
    return hy, cy, torch.cat([i, f, c, o], 1)


def _thnn_fused_lstm_cell_backward_impl(
    grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool
) -> Any:
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, c, o = workspace.chunk(4, 1)
    gh = grad_hy if grad_hy is not None else torch.zeros_like(cy)
    gc = grad_cy if grad_cy is not None else torch.zeros_like(cy)
    t = cy.tanh()
    go = gh * t
    gc = gc + gh * o * (1 - t * t)
    gi, gf, gg, gcx = gc * c, gc * cx, gc * i, gc * f
    gates = torch.cat([gi * i * (1 - i), gf * f * (1 - f), gg * (1 - c * c), go * o * (1 - o)], 1)
    return gates, gcx, (gates.sum(0) if has_bias else None)


def _thnn_fused_gru_cell(ig: Any, hg: Any, hx: Any, ib: Any = None, hb: Any = None) -> Any:
    if ib is not None:
        ig, hg = ig + ib, hg + hb
    ir, ii, in_ = ig.chunk(3, 1)
    hr, hi, hn = hg.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (ii + hi).sigmoid()
    n = (in_ + r * hn).tanh()
    hy = (hx - n) * z + n
    return hy, torch.cat([r, z, n, hx, hn], 1)


def _thnn_fused_gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
    r, z, n, hx, hn = workspace.chunk(5, 1)
    dz = grad_hy * (hx - n)
    dn = grad_hy * (1 - z)
    dn_pre = dn * (1 - n * n)
    dr_pre = dn_pre * hn * r * (1 - r)
    dz_pre = dz * z * (1 - z)
    gi = torch.cat([dr_pre, dz_pre, dn_pre], 1)
    gh = torch.cat([dr_pre, dz_pre, dn_pre * r], 1)
    return gi, gh, grad_hy * z, (gi.sum(0) if has_bias else None), (gh.sum(0) if has_bias else None)


def _fused_rms_norm_backward(
    grad_out: Any, input: Any, normalized_shape: Any, rstd: Any, weight: Any, output_mask: Any
) -> Any:
    outer = input.dim() - len(normalized_shape)
    inner = tuple(range(outer, input.dim()))
    normal = input * rstd
    weighted = grad_out if weight is None else grad_out * weight
    grad_input = (weighted - normal * (weighted * normal).mean(inner, keepdim=True)) * rstd
    if weight is None:
        return grad_input, None
    grad_weight = grad_out * normal
    return grad_input, (grad_weight.sum(tuple(range(outer))) if outer else grad_weight)


def _fused_dropout(self: Any, p: float, generator: Any = None) -> Any:
    mask = torch.rand(self.shape, device="cpu") < p
    return self * mask / p, mask.to(torch.uint8)


def _masked_scale(self: Any, mask: Any, scale: float) -> Any:
    return self * mask * scale


def histc(self: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    if self.dtype.is_floating_point:
        return aten.histc.default(self, bins, min, max)
    return aten.histc.default(self.double(), bins, min, max).to(self.dtype)  # CUDA's knows whole numbers


def special_kernels() -> dict[str, Callable[..., Any]]:
    """Kernels by name and overload, which come before those of kernels.py."""
    on_cpu = (
        _thnn_fused_lstm_cell,
        _thnn_fused_lstm_cell_backward_impl,
        _thnn_fused_gru_cell,
        _thnn_fused_gru_cell_backward,
        _fused_rms_norm_backward,
        _fused_dropout,
        _masked_scale,
        histc,
        *sync_batch_norm.KERNELS,
    )
    return {
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "_efficientzerotensor": _zero_tensor,
        "copy_": _copy,
        "resize_": _resize,
        "set_": _set_empty,
        "record_stream": _record_stream,
        "_validate_sparse_coo_tensor_args": _validate_coo,
        "_pin_memory": _pin_memory,
        "is_pinned": _is_pinned,
        "_fused_sdp_choice": _attention_choice,
        **{f"_use_{lib}_ctc_loss{end}": _never for lib in ("cudnn", "miopen") for end in ("", ".Tensor")},
        **{name: _convolution_like(name) for name in ("convolution", "convolution_backward")},
        **{name: _softmax(name) for name in ("_softmax", "_log_softmax")},
        **{
            name: _softmax_backward(name) for name in ("_softmax_backward_data", "_log_softmax_backward_data")
        },
        **{function.__name__: _on_cpu(function) for function in on_cpu},
    }
