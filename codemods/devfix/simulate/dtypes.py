"""Which data types CUDA's kernels take, where that is not what the CPU's take.

What the CPU computes and CUDA refuses is looked up before the kernel; what both refuse gets CUDA's
words; and what only the CPU refuses, in half precision, is computed in float32 and rounded. The names are those
of torch's sources (the names in AT_DISPATCH), and tests/simulate/facts/dtypes.txt has what a GPU says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)
_NOT_IMPLEMENTED = re.compile(r'^"(\w+)" not implemented for \'(\w+)\'$')
_FFT = re.compile(r"FFT doesn't support tensors of type")

# By operation: the kernel of CUDA's that takes floating and complex numbers only.
_NO_INTEGERS = {
    "mm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "mv": "addmv_impl_cuda",
    "addmv": "addmv_impl_cuda",
    "dot": "dot",
    "vdot": "dot",
    "avg_pool2d": "avg_pool2d_out_cuda_frame",
    "max_pool2d_with_indices": "max_pool2d_with_indices_out_cuda_frame",
    "native_dropout": "fused_dropout",
}
# The kernels that have another name on CUDA.
_NAMES = {
    "addmm_impl_cpu_": "addmm_cuda",
    "softmax_lastdim_kernel_impl": "host_softmax",
    "softmax_kernel_impl": "host_softmax",
    "log_softmax_lastdim_kernel_impl": "host_softmax",
    "bitwise_and_cpu": "bitwise_and_cuda",
    "bitwise_or_cpu": "bitwise_or_cuda",
    "bitwise_xor_cpu": "bitwise_xor_cuda",
    "lshift_cpu": "lshift_cuda",
    "rshift_cpu": "rshift_cuda",
    "bincount_cpu": "bincount_cuda",
    "compute_indices_weights_nearest": "upsample_nearest1d_out_frame",
    "mse_cpu": "mse_cuda",
    "GeluKernelImpl": "GeluCUDAKernelImpl",
    "add_stub": "ufunc_add_CUDA",
    "lerp_kernel_scalar": "lerp_cuda",
    "floor_vml_cpu": "floor_cuda",
    "searchsorted_out_cpu": "searchsorted_out_cuda",
    "lt_cpu": "compare_cuda",
    "le_cpu": "compare_cuda",
    "gt_cpu": "compare_cuda",
    "ge_cpu": "compare_cuda",
    "im2col_out_cpu": "im2col_out_cuda",
    "col2im_out_cpu": "col2im_out_cuda",
    # these have no half precision on CUDA either
    "cdist": "cdist_cuda",
    "pdist": "pdist_cuda",
    "lu_cpu": "lu_factor_cusolver",
    "linalg_svd_cpu": "svd_cuda_gesvdjBatched",
    "cholesky_cpu": "cholesky_cusolver",
    "geqrf_cpu": "geqrf_cuda",
    "linalg_eigh_cpu": "linalg_eigh_cuda",
    "ctc_loss_cpu": "ctc_loss_cuda",
}


def not_implemented(kernel: str, dtype: Any) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{_name(dtype)}'")


def _name(dtype: Any) -> str:
    """The name of a dtype in C++: Long of torch.int64."""
    kind = torch.empty(0, dtype=dtype).type()
    return str(kind).removeprefix("torch.").removesuffix("Tensor")


def check(name: str, bound: Mapping[str, Any]) -> None:
    """Raise what CUDA raises for the data types of an operation's tensors, where the CPU would take them."""
    kernel = _NO_INTEGERS.get(name.removesuffix("_"))
    if kernel is not None:
        first = bound.get("self", bound.get("input"))
        if isinstance(first, torch.Tensor) and first.is_floating_point():
            return
        if len({value.dtype for value in bound.values() if isinstance(value, torch.Tensor)}) > 1:
            return  # another error comes first
        if isinstance(first, torch.Tensor) and not (first.is_floating_point() or first.is_complex()):
            if name != "native_dropout" or bound.get("train"):
                raise not_implemented(kernel, first.dtype)
        return
    special = _SPECIAL.get(name)
    if special is not None:
        special(bound)


def _layer_norm(bound: Mapping[str, Any]) -> None:
    found = bound["input"].dtype
    for parameter in (bound.get("weight"), bound.get("bias")):
        if parameter is not None and parameter.dtype != found:
            raise RuntimeError(f"expected scalar type {_name(found)} but found {_name(parameter.dtype)}")


def _histc(bound: Mapping[str, Any]) -> None:
    if bound["self"].dtype in HALVES:
        raise RuntimeError(f"{_name(bound['self'].dtype)}Tensor is not supported")


def _nll_loss(bound: Mapping[str, Any]) -> None:
    target = bound["target"].dtype
    if target not in (torch.int64, torch.uint8):
        raise not_implemented("nll_loss_forward_reduce_cuda_kernel_2d_index", target)


def _index_select(bound: Mapping[str, Any]) -> None:
    index = bound["index"].dtype
    if index not in (torch.int32, torch.int64):
        raise not_implemented("index_select_out_cuda_impl", index)


_SPECIAL = {
    "native_layer_norm": _layer_norm,
    "histc": _histc,
    "nll_loss_forward": _nll_loss,
    "index_select": _index_select,
}
CHECKED = _NO_INTEGERS.keys() | {f"{name}_" for name in _NO_INTEGERS} | _SPECIAL.keys()


def takes_floats(name: str) -> bool:
    """Is there nothing to check of an operation whose first tensor is of floating point?"""
    return name.removesuffix("_") in _NO_INTEGERS


def is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(value.is_floating_point())


def of_cuda(error: Exception) -> Exception | None:
    """CUDA's own error for what a CPU kernel has raised; None where there is none."""
    text = str(error)
    found = _NOT_IMPLEMENTED.match(text)
    if found is not None and found[1] in _NAMES:
        return type(error)(f"\"{_NAMES[found[1]]}\" not implemented for '{found[2]}'")
    if "expected m1 and m2 to have the same dtype" in text:
        return type(error)(text.replace("m1 and m2", "mat1 and mat2"))
    if "ctc_loss_allocate_outputs" in text:
        return type(error)(text.replace("ctc_loss_allocate_outputs", "ctc_loss_gpu"))
    return None


def only_the_cpu_lacks(error: Exception) -> bool:
    """Is it a CPU kernel without half precision, which CUDA computes?"""
    found = _NOT_IMPLEMENTED.match(str(error))
    if found is not None:
        return found[2] in ("Half", "BFloat16") and found[1] not in _NAMES
    return _FFT.search(str(error)) is not None and "Half" in str(error)


def check_half_fft(tensor: Any, dims: Any) -> None:
    """cuFFT's rule for half precision."""
    sizes = [tensor.shape[dim] for dim in dims]
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
            f"but got a signal size of{sizes}"
        )


def widened(value: Any) -> Any:
    """Half precision as float32, in arguments of any form."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in HALVES else value
    if isinstance(value, list):
        return [widened(item) for item in value]
    return torch.float32 if value in HALVES else value


def narrowed(value: Any, dtype: Any) -> Any:
    """What float32 has given, in the data type that was asked for."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.complex64:
            return value.to(torch.complex32)
        return value.to(dtype) if value.dtype == torch.float32 else value
    if isinstance(value, (list, tuple)):
        return type(value)(narrowed(item, dtype) for item in value)
    return value
