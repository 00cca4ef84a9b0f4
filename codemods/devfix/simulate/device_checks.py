"""What CUDA says when tensors are on different devices, in its own words.

Only called when devices differ. Most checks are torch's own code, run on the simulated tensors
(see kernels.py); here are the ones that exist only in CUDA's sources.
"""

from __future__ import annotations

import functools
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from devfix.simulate.machine import machine

Tensor = torch.Tensor


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of an argument, which is a tensor, a list of them, or something else."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, Tensor):
                yield item


@functools.cache
def has_old_wording() -> bool:
    """Which wording of the generated check is in this libtorch? Read from the binary (adaption.cpp).

    It has hundreds of megabytes: only asked once there is an error.
    """
    names = {"win32": "torch_cpu.dll", "darwin": "libtorch_cpu.dylib"}
    library = Path(torch.__path__[0]) / "lib" / names.get(sys.platform, "libtorch_cpu.so")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b", different from other tensors on ") < 0


def wrapper_error(argument: str, device: Any, common: Any, method: str) -> RuntimeError:
    """The error of the generated check in RegisterCUDA.cpp."""
    if has_old_wording():
        return RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {common} and "
            f"{device}! (when checking argument for argument {argument} in method {method})"
        )
    return RuntimeError(
        f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from "
        f"other tensors on {common} (when checking argument in method {method})"
    )


def iterator_error(common: Any, device: Any) -> RuntimeError:
    """The error of TensorIterator."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{common} and {device}!"
    )


def check_wrapper(order: Iterable[str], bound: Mapping[str, Any], method: str) -> None:
    """The generated check: every tensor is where the first one is."""
    common = None
    for name in order:
        for tensor in tensors(bound.get(name)):
            if common is None:
                common = tensor.device
            elif tensor.device != common:
                raise wrapper_error(name, tensor.device, common, method)


def check_iterator(outputs: list[Any], inputs: list[Any]) -> None:
    """TensorIterator's rule (TensorIterator.cpp, compute_types): one CPU scalar may stand in."""
    common = next((tensor.device for tensor in [*outputs, *inputs] if not tensor.is_cpu), None)
    if common is None:
        return
    for tensor in outputs:
        if tensor.device != common:
            raise iterator_error(common, tensor.device)
    scalars = 0
    for tensor in inputs:
        if tensor.device == common:
            continue
        if not (tensor.is_cpu and tensor.dim() == 0):
            raise iterator_error(common, tensor.device)
        scalars += 1
        if scalars > 1:
            raise RuntimeError("Trying to pass too many CPU scalars to non-CPU kernel!")


def check_placeholders(bound: Mapping[str, Any]) -> None:
    """What most kernels of MPS come to (OperationUtils.mm): only numbers may be on the CPU."""
    for value in bound.values():
        for tensor in tensors(value):
            if not machine.here(tensor) and (tensor.dim() or not tensor.is_cpu):
                raise RuntimeError("Placeholder storage has not been allocated on MPS device!")


def check_generator(generator: Any, wanted: str) -> None:
    """CUDA kernels take CUDA generators, CPU kernels take CPU generators."""
    if generator is None:
        return
    found = machine.kind if generator._cdata in machine.generators else "cpu"
    if found != wanted:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


def _nothing(bound: Mapping[str, Any]) -> None:
    """Any mix of devices is right for this operation."""


def _masked_fill(bound: Mapping[str, Any]) -> None:
    """masked_fill__cuda (Indexing.cu) has words of its own, and the CPU's function others."""
    tensor, mask, value = bound["self"], bound["mask"], bound.get("value")
    if mask.device != tensor.device:
        raise RuntimeError(
            "expected self and mask to be on the same device, but got mask on "
            f"{mask.device} and self on {tensor.device}"
        )
    if (
        isinstance(value, Tensor)
        and value.device != tensor.device
        and not (value.is_cpu and value.dim() == 0)
    ):
        raise RuntimeError("masked_fill_: Expected inputs to be on same device")


def _checks_numbers(
    names: tuple[str, ...], refusal: Callable[[Mapping[str, Any], int], str]
) -> Callable[[Mapping[str, Any]], None]:
    """TensorIterator's rule, and what a kernel says of an argument, by its number, that is a scalar of the CPU."""

    def check(bound: Mapping[str, Any]) -> None:
        check_iterator(
            [*tensors(bound.get("out"))], [one for value in bound.values() for one in tensors(value)]
        )
        for number, name in enumerate(names):
            if bound[name].is_cpu:
                raise RuntimeError(refusal(bound, number))

    return check


def _asserts_device(bound: Mapping[str, Any], number: int) -> str:
    """gpu_kernel (Loops.cuh), which takes no scalars of the CPU."""
    return (
        'iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/native/cuda/Loops.cuh":109, '
        f"please report a bug to PyTorch. argument {number + 1}: expected a CUDA device but found cpu"
    )


def _addcmul(bound: Mapping[str, Any], number: int) -> str:
    """addcmul_cuda_kernel (PointwiseOpsKernel.cu)."""
    swap = (
        " However, CPU Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 terms."
    )
    name = ("self", "tensor1")[number]
    return (
        f"CPU Scalar support for {name} argument is not supported when calling addcmul on CUDA tensors."
        + swap * number
    )


def _one_of_each(bound: Mapping[str, Any], number: int) -> str:
    """mse_loss, as an H200 with torch 2.11 said it."""
    found = f"{bound['self'].device} and {bound['target'].device}"
    return f"Expected all tensors to be on the same device, but found at least two devices, {found}!"


def _binary_cross_entropy(bound: Mapping[str, Any]) -> None:
    """binary_cross_entropy_cuda (Loss.cu): an iterator without scalars, whose output is where the input is."""
    operands = [one for value in bound.values() for one in tensors(value)]
    weight = bound.get("weight")
    if (
        isinstance(weight, Tensor)
        and not weight.is_cpu
        and all(one.is_cpu for one in operands if one is not weight)
    ):
        raise RuntimeError(_asserts_device(bound, -1))
    check_iterator(operands, [])


# Operations whose CUDA kernels check by themselves, by name or by name.overload.
OWN_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "masked_fill_": _masked_fill,
    "copy_": _nothing,
    "_foreach_copy_": _nothing,
    "_local_scalar_dense": _nothing,
    "index.Tensor_out": _nothing,  # the meta function of index.Tensor has already checked
    "record_stream": _nothing,
    "_nested_from_padded": _nothing,  # the sizes of nested tensors are on the CPU
}
# Of CUDA alone: kernels that take no scalar of the CPU, by name. A GPU was asked for all but those in place, which
# share their kernels.
CUDA_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "lerp": _checks_numbers(("self", "end"), _asserts_device),
    "lerp_": _checks_numbers(("self", "end"), _asserts_device),
    "addcmul": _checks_numbers(("self", "tensor1"), _addcmul),
    "addcmul_": _checks_numbers(("self", "tensor1"), _addcmul),
    "smooth_l1_loss": _checks_numbers(("self", "target"), _asserts_device),
    "mse_loss": _checks_numbers(("self", "target"), _one_of_each),
    "binary_cross_entropy": _binary_cross_entropy,
}
