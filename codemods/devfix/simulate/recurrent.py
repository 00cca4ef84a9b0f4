"""LSTM, GRU and RNN: one kernel of cuDNN's on a GPU, and so one of the CPU's here, with cuDNN's limits.

Where the tensors are not all on one device, and wherever cuDNN's kernel is not the one that CUDA takes or its
random numbers are wanted, torch's own code for single operations runs, and checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from devfix.simulate.alias import all_to_cuda, cpu_alias
from devfix.simulate.machine import check_process, machine, stats
from devfix.simulate.vtable import keep

Tensor = torch.Tensor
_NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_TRAIN, _LAYERS, _DROPOUT = 3, 1, 2  # of has_biases, num_layers, dropout, train, ...
_TWICE = (
    "the derivative for '_cudnn_rnn_backward' is not implemented. Double backwards is not supported for CuDNN RNNs due "
    "to limitations in the CuDNN API. To run double backwards, please disable the CuDNN backend temporarily while "
    "running the forward pass of your RNN. For example: \nwith torch.backends.cudnn.flags(enabled=False):\n"
    "    output = model(inputs)"
)


def install() -> None:
    for key in ("CUDA", "AutogradCUDA"):
        library = torch.library.Library("aten", "IMPL", key)
        keep(library)
        for name in _NAMES:
            for overload in ("input", "data"):
                library.impl(f"{name}.{overload}", _layer(getattr(getattr(torch.ops.aten, name), overload)))


def _layer(operation: Any) -> Callable[..., Any]:
    packed = operation._overloadname == "data"
    listed = operation.overloadpacket.__name__ == "lstm"  # it has two states
    singly = torch._C.DispatchKey.CompositeImplicitAutograd

    def layer(input: Any, *arguments: Any) -> Any:
        sizes, rest = arguments[:packed], arguments[packed:]
        hx, params, settings = rest[0], rest[1], rest[2:]
        tensors = [input, *(hx if listed else (hx,)), *params]
        if not _is_of_cudnn(tensors, settings):
            return operation._op_dk(singly, input, *arguments)
        stats.launched += 1
        check_process()
        states = len(tensors) - len(params)

        def run(lowered: Sequence[Any]) -> Any:
            state = lowered[1:states] if listed else lowered[1]
            return operation(lowered[0], *sizes, state, lowered[states:], *settings)

        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return _Layer.apply(run, settings[_TRAIN], *tensors)
        with torch._C.DisableTorchFunction():
            return all_to_cuda(run([cpu_alias(tensor.detach()) for tensor in tensors]), input.get_device())

    return layer


def _is_of_cudnn(tensors: Sequence[Any], settings: Sequence[Any]) -> bool:
    """Would CUDA take cuDNN's kernel, and can the CPU's stand for it?"""
    first = tensors[0]
    return (
        torch._C._get_cudnn_enabled()
        and first.dtype in (torch.float32, torch.float64)
        and not (settings[_DROPOUT] and settings[_TRAIN] and settings[_LAYERS] > 1)
        and machine.capture is None
        and not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"))
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
        and all(
            type(one) in (Tensor, torch.nn.Parameter)
            and one.is_cuda
            and one.dtype == first.dtype
            and one.get_device() == first.get_device()
            for one in tensors
        )
    )


class _Layer(torch.autograd.Function):  # type: ignore[misc]  # torch is Any to mypy
    @staticmethod
    def forward(ctx: Any, run: Callable[[Sequence[Any]], Any], train: bool, *tensors: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            leaves = [
                cpu_alias(tensor.detach()).requires_grad_(needed)
                for tensor, needed in zip(tensors, ctx.needs_input_grad[2:], strict=True)
            ]
            outputs = run(leaves)
        ctx.made = leaves, outputs, train
        return all_to_cuda(tuple(output.detach() for output in outputs), tensors[0].get_device())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        tensors = ctx.saved_tensors
        leaves, outputs, train = ctx.made
        if not train:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        return None, None, *_Gradients.apply(leaves, outputs, len(gradients), *gradients, *tensors)


class _Gradients(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, leaves: Sequence[Any], outputs: Sequence[Any], count: int, *tensors: Any) -> Any:
        stats.launched += 1
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        pairs = [
            (out, cpu_alias(grad.detach()))
            for out, grad in zip(outputs, tensors[:count], strict=True)
            if grad is not None
        ]
        with torch._C.DisableTorchFunction(), torch.enable_grad():
            made = torch.autograd.grad(
                [out for out, _ in pairs],
                wanted,
                [grad for _, grad in pairs],
                retain_graph=True,
                allow_unused=True,
            )
        found = iter(made)
        index = tensors[count].get_device()
        return all_to_cuda(tuple(next(found) if leaf.requires_grad else None for leaf in leaves), index)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(_TWICE)
