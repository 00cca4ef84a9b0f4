"""Which of torch's operations want their tensors in one place, and which arguments are numbers, as tables."""

from __future__ import annotations

import re

from devfix.flow import torch_api

# `sparse_coo_tensor` goes where its data is.
MADE = (torch_api.FACTORIES | torch_api.LEGACY | {"torch.from_numpy", "torch.frombuffer"}) - {
    "torch.sparse_coo_tensor"
}
# Functions and methods that take tensors from anywhere, or give none.
FOREIGN = frozenset(
    {
        "copy_", "set_", "expand_as", "view_as", "reshape_as", "resize_as_", "share_memory_", "split",
        "tensor_split", "fill_", "broadcast_tensors", "broadcast_shapes", "multinomial", "is_tensor", "save",
        "size", "dim", "numel", "register_hook", "item", "tolist", "new_tensor", "result_type", "can_cast",
        "promote_types", "is_same_size", "typename", "zeros_like", "set_data", "pad_sequence", "index",
        "ctc_loss", "multi_head_attention_forward", "manual_seed", "atleast_1d", "atleast_2d",
        "atleast_3d", "is_nonzero",
    }
)  # fmt: skip
# Give a tensor without dimensions when they are told no dimension.
REDUCTIONS = frozenset(
    {
        "sum", "mean", "max", "min", "prod", "norm", "std", "var", "median", "argmax", "argmin", "any", "all",
        "nansum", "nanmean", "logsumexp", "amax", "amin", "dot", "count_nonzero", "trace", "det", "vdot",
    }
)  # fmt: skip
# What is given to these says how many, or which dimensions: a tensor there is read as integers.
INTEGER_KEYWORDS = frozenset(
    {"dim", "dims", "axis", "axes", "dim0", "dim1", "size", "sizes", "shape", "chunks", "kernel_size",
     "stride", "padding", "dilation", "output_size", "scale_factor", "pad", "num_classes"}
)  # fmt: skip
_BY_INTEGERS = frozenset(
    {
        "view", "reshape", "expand", "repeat", "permute", "tile", "size", "flatten", "unflatten", "unsqueeze",
        "unsqueeze_", "squeeze", "squeeze_", "transpose", "transpose_", "swapaxes", "movedim", "flip", "roll",
        "unfold", "chunk", "narrow", "softmax", "log_softmax", "cumsum", "cumprod", "as_strided", "diagonal",
        "broadcast_to", "select", "unbind", "argsort", "sort", "topk", "resize_", "pad", "one_hot",
        "sum", "mean", "prod", "amax", "amin", "all", "any", "argmax", "argmin", "std", "var", "norm", "median",
        "logsumexp", "nansum", "nanmean", "count_nonzero",
    }
)  # fmt: skip


def integers(method: str, at: int, keyword: str) -> bool:
    """Is an argument of a tensor's method read as integers? `at`: its place among those after the tensor."""
    return keyword in INTEGER_KEYWORDS or (not keyword and at >= 0 and method in _BY_INTEGERS)


_DEVICE = re.compile(
    r"(?:^|[._])(?<!use_)(?<!no_)(?<!is_)(?<!on_)(?<!per_)(?<!multi_)(?<!same_)(?:device|device_torch)$",
    re.IGNORECASE,
)


def names_device(path: str) -> bool:
    """Does a name stand for one device? Stricter than flow's: what is written into code must be one."""
    return bool(_DEVICE.search(path))
