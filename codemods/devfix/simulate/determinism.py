"""What CUDA refuses to do under torch.use_deterministic_algorithms.

The CPU's kernels are all deterministic. The names are those of torch's sources (alertNotDeterministic);
tests/simulate/facts/determinism.txt has what a GPU says.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch


def _always(bound: Mapping[str, Any]) -> bool:
    return True


# Operation -> the name in the message, and when it is one.
_ALERTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    "bincount": ("_bincount_cuda", lambda bound: bound.get("weights") is not None),
    "histc": ("_histc_cuda with floating point input", lambda bound: bound["self"].is_floating_point()),
    "median": ("median CUDA with indices output", lambda bound: "dim" in bound),
    "put_": ("put_", lambda bound: bool(bound.get("accumulate"))),
    "nll_loss2d_forward": ("nll_loss2d_forward_out_cuda_template", _always),
    "upsample_bicubic2d_backward": ("upsample_bicubic2d_backward_out_cuda", _always),
    "grid_sampler_2d_backward": ("grid_sampler_2d_backward_cuda", _always),
    "grid_sampler_3d_backward": ("grid_sampler_3d_backward_cuda", _always),
    "_ctc_loss_backward": ("ctc_loss_backward_gpu", _always),
    "max_pool3d_with_indices_backward": ("max_pool3d_with_indices_backward_cuda", _always),
    "adaptive_max_pool2d_backward": ("adaptive_max_pool2d_backward_cuda", _always),
    "avg_pool3d_backward": ("avg_pool3d_backward_cuda", _always),
    "_embedding_bag_dense_backward": (
        "embedding_bag_backward_cuda_max",
        lambda bound: bound.get("mode") == 2,
    ),
    "reflection_pad1d_backward": ("reflection_pad1d_backward_out_cuda", _always),
    "scatter_reduce": ("scatter_reduce_cuda_prod_", lambda bound: bound.get("reduce") == "prod"),
    "index_reduce": ("index_reduce_cuda", _always),
}
_ALERTS["_embedding_bag_backward"] = _ALERTS["_embedding_bag_dense_backward"]
for _name in ("scatter_reduce", "index_reduce"):
    _ALERTS[f"{_name}_"] = _ALERTS[_name]
ALERTS = frozenset(_ALERTS)


def check(name: str, bound: Mapping[str, Any]) -> None:
    """Raise or warn, as the program has asked, before an operation of `ALERTS`."""
    if not torch.are_deterministic_algorithms_enabled():
        return
    said, applies = _ALERTS[name]
    if not applies(bound):
        return
    text = f"{said} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(f"{text}(True, warn_only=True)'.", stacklevel=2)
        return
    raise RuntimeError(
        f"{text}(True)'. You can turn off determinism just for this operation, or you can use the "
        "'warn_only=True' option, if that's acceptable for your application. You can also file an issue at "
        "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for "
        "this operation."
    )
