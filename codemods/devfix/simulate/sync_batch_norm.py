"""The parts of SyncBatchNorm, which only CUDA has, written with CPU operations (native/cuda/Normalization.cuh)."""

from __future__ import annotations

from typing import Any

import torch


def _wide(tensor: Any) -> Any:
    """Statistics of half precision are float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _over(tensor: Any) -> list[int]:
    """All dimensions but that of the channels."""
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _channels(values: Any, like: Any) -> Any:
    return values.reshape(1, -1, *[1] * (like.dim() - 2))


def batch_norm_stats(input: Any, eps: float) -> Any:
    wide = _wide(input)
    variance, mean = torch.var_mean(wide, _over(input), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    input: Any,
    mean: Any,
    invstd: Any,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    counts: Any,
) -> Any:
    share = counts.to(mean.dtype).reshape(-1, 1)
    total = share.sum()
    whole = (mean * share).sum(0) / total
    variance = ((invstd**-2 - eps + (mean - whole) ** 2) * share).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(whole, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(variance * total / (total - 1), alpha=momentum)
    return whole, (variance + eps).rsqrt()


def batch_norm_elemt(input: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    result = (_wide(input) - _channels(mean, input)) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(weight, input)
    if bias is not None:
        result = result + _channels(bias, input)
    return result.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: Any,
    input: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Any:
    gradient = _wide(grad_out)
    sum_dy = gradient.sum(_over(input))
    sum_dy_xmu = (gradient * (_wide(input) - _channels(mean, input))).sum(_over(input))
    kind = sum_dy.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(kind) if weight_g else None,
        sum_dy.to(kind, copy=True) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: Any,
    input: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    sum_dy: Any,
    sum_dy_xmu: Any,
    count: Any,
) -> Any:
    total = count.sum()
    apart = _wide(input) - _channels(mean, input)
    inner = (
        _wide(grad_out)
        - _channels(sum_dy / total, input)
        - apart * _channels(invstd**2 * sum_dy_xmu / total, input)
    )
    scale = invstd if weight is None else invstd * weight
    return (inner * _channels(scale, input)).to(input.dtype)


KERNELS = (
    batch_norm_stats,
    batch_norm_gather_stats_with_counts,
    batch_norm_elemt,
    batch_norm_backward_reduce,
    batch_norm_backward_elemt,
)
