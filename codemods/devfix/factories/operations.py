"""Which of torch's operations want their tensors in one place, as tables.

What CUDA accepts: a CPU tensor without dimensions in pointwise operations, a CPU index into a CUDA
tensor, copies by basic indices in either direction. Everything else raises.
"""

from __future__ import annotations

import re

from devfix.flow import torch_api

# Take no `device=`; the result is moved instead.
FROM_HOST = frozenset({"torch.from_numpy", "torch.frombuffer"})
# `sparse_coo_tensor` goes where its data is.
MADE = (torch_api.FACTORIES | torch_api.LEGACY | FROM_HOST) - {"torch.sparse_coo_tensor"}
LASTS = frozenset(name.rpartition(".")[2] for name in MADE)
LEGACY_DTYPES = {
    "Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16", "LongTensor": "long", "IntTensor": "int32", "ShortTensor": "int16",
    "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip

# Packages that hand on torch's functions under their own names.
ALIASES = frozenset({"kornia.core"})
# Operations of other packages, by their last names.
KNOWN = frozenset(
    {
        "scatter", "scatter_add", "scatter_mean", "scatter_max", "scatter_min", "scatter_sum", "coalesce",
        "scatter_softmax", "segment_csr", "segment_coo", "spmm", "spspmm", "softmax", "index_sort",
    }
)  # fmt: skip
# Send tensors to other processes: over NCCL they must be on the GPU.
COLLECTIVES = frozenset(
    {
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "gather",
        "scatter",
        "reduce_tensor",
        "reduce_scatter",
        "gather_for_metrics",
        "pad_across_processes",
    }
)
# Of accelerate: what its `Accelerator` sends, over NCCL as well.
ACCELERATED = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes"})
# Their first argument is a list, a string or a number where it is no tensor.
_NO_EVIDENCE = frozenset(
    {
        "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "einsum", "meshgrid", "pow",
        "where", "broadcast_tensors", "block_diag", "result_type", "cartesian_prod", "norm", "normal",
        "is_tensor", "prod", "get_default_dtype", "manual_seed", "typename", "set_printoptions", "compile",
        "numel", "chain_matmul", "atleast_1d", "broadcast_shapes", "add", "mul", "isin", "is_floating_point",
        "sparse_coo_tensor",
    }
)  # fmt: skip

# Also a tensor without dimensions must be in the same place.
STRICT = frozenset(
    {
        "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack",
        "quantile", "nanquantile", "meshgrid", "block_diag", "cartesian_prod", "index_select",
        "gather", "take_along_dim", "searchsorted", "isin", "matmul", "mm", "bmm", "mv", "linear", "embedding",
        "cross_entropy", "nll_loss", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "grid_sample", "layer_norm", "batch_norm", "cdist", "bucketize", "embedding_bag",
    }
)  # fmt: skip
# Methods of a tensor that join it with others, without the `_` of those that work in place. What else is
# called on something that was moved may be a metric's `update`: it is no tensor.
JOINING = STRICT | frozenset(
    {
        "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow",
        "float_power", "remainder", "fmod", "rsub", "atan2", "arctan2", "hypot", "logaddexp", "logaddexp2",
        "dot", "vdot", "inner", "outer", "ger", "kron", "cross", "dist", "addmm", "addbmm", "baddbmm",
        "addmv", "addr", "addcmul", "addcdiv", "lerp", "where", "masked_fill", "masked_scatter",
        "masked_select", "index_add", "index_copy", "index_fill", "index_reduce", "scatter", "scatter_add",
        "scatter_reduce", "take", "put", "eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less",
        "less_equal", "greater", "greater_equal", "equal", "allclose", "isclose", "maximum", "minimum",
        "max", "min", "fmax", "fmin", "clamp", "clip", "clamp_min", "clamp_max", "logical_and",
        "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "nextafter",
        "heaviside", "xlogy", "repeat_interleave", "tensordot", "sparse_mask", "cholesky_solve",
        "lu_solve", "triangular_solve", "gcd", "lcm", "ldexp", "backward", "sspaddmm", "smm",
        "log_prob", "cdf", "icdf",  # of a distribution, which is where its parameters are
    }
)  # fmt: skip
# Their first two arguments are tensors.
PAIRS = frozenset(
    {
        "matmul", "mm", "bmm", "mv", "dot", "cdist", "cosine_similarity", "maximum", "minimum", "mse_loss",
        "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "kl_div", "linear", "conv1d", "conv2d", "conv3d", "embedding",
        "logical_and", "logical_or", "equal", "allclose", "searchsorted", "grid_sample",
    }
)  # fmt: skip
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
# Functions that give what they get, or parts of it, or what is where it is.
PASSING = frozenset(
    {"Variable", "split", "split_with_sizes", "tensor_split", "broadcast_to", "atleast_1d", "atleast_2d",
     "atleast_3d", "multinomial"}
)  # fmt: skip
# Of those, the ones that only take a tensor.
_OF_TENSORS = frozenset({"split", "split_with_sizes", "tensor_split", "multinomial"})
# Of einops: the first argument is a tensor, or a list of them.
REARRANGING = frozenset({"einops.rearrange", "einops.repeat", "einops.reduce"})
# Roots below torch whose functions are no operations over tensors.
_OPERATIONS = re.compile(
    r"torch\.(?:(?:nn\.functional|linalg|fft|special|functional|Tensor|_C\._nn)\.)?[a-z]\w*$"
    r"|torch\.autograd\.(?:grad|backward)$"
)
_NO_OPERATIONS = torch_api.NOT_TENSOR_CALLS | {"torch.randint_like", "torch.split_with_sizes"}
# Give a tensor without dimensions when they are told no dimension.
REDUCTIONS = frozenset(
    {
        "sum", "mean", "max", "min", "prod", "norm", "std", "var", "median", "argmax", "argmin", "any", "all",
        "nansum", "nanmean", "logsumexp", "amax", "amin", "dot", "count_nonzero", "trace", "det", "vdot",
    }
)  # fmt: skip
# Give a tensor that has a dimension.
SHAPING = frozenset(
    {"unsqueeze", "view", "reshape", "repeat", "expand", "flatten", "permute", "tile", "repeat_interleave",
     "sample", "rsample"}
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


# Methods that only tensors have; `size` and `dim` are attributes of other things, so they must be called.
TENSOR_METHODS = frozenset(
    {
        "unsqueeze", "unsqueeze_", "permute", "contiguous", "detach", "long", "softmax", "log_softmax",
        "sigmoid", "expand", "expand_as", "view_as", "masked_fill", "masked_fill_", "scatter_", "scatter",
        "scatter_add_", "gather", "index_select", "bmm", "type_as", "new_zeros", "new_ones", "new_tensor",
        "new_full", "new_empty", "unbind", "narrow", "numel", "is_cuda", "float", "is_floating_point",
        "requires_grad", "requires_grad_", "topk", "unfold", "matmul", "size", "dim", "bool", "masked_select",
        "t", "clamp", "device", "get_device", "repeat_interleave", "cuda", "view", "nelement",
    }
)  # fmt: skip
# Of those, the ones that something else may have as well: alone they are too little.
WEAK_METHODS = frozenset(
    {"[]", "shape", "device", "cuda", "float", "view", "requires_grad_", "requires_grad", "bool"}
)
CALLED_ONLY = frozenset({"t", "size", "dim", "expand", "view", "float", "bool", "scatter", "long"})
# Layers with parameters, so that their inputs must be where they are.
WEIGHTED = frozenset(
    f"torch.nn.{name}"
    for name in [
        "Linear", "Bilinear", "Embedding", "EmbeddingBag", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
        "ConvTranspose2d", "ConvTranspose3d", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell",
        "MultiheadAttention", "LayerNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "PReLU",
        "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer",
        "Transformer",
    ]
)  # fmt: skip
# Layers of layers.
CONTAINERS = frozenset({"torch.nn.Sequential"})
# Of those, the ones whose `weight` tells where they are.
WITH_WEIGHT = frozenset(
    f"torch.nn.{name}" for name in ["Linear", "Embedding", "Conv1d", "Conv2d", "LayerNorm"]
)


_DEVICE = re.compile(
    r"(?:^|[._])(?<!use_)(?<!no_)(?<!is_)(?<!on_)(?<!per_)(?<!multi_)(?<!same_)(?:device|device_torch)$",
    re.IGNORECASE,
)


def names_device(path: str) -> bool:
    """Does a name stand for one device? Stricter than flow's: what is written into code must be one."""
    return bool(_DEVICE.search(path))


def torch_name(name: str) -> str:
    """torch's own name for a function that another package hands on."""
    package, _, last = name.rpartition(".")
    if package == "pyro.distributions":
        return f"torch.distributions.{last}"
    return f"torch.{last}" if package in ALIASES else name


def takes_tensor(name: str) -> bool:
    """Is the first argument of a torch function surely a tensor?"""
    last = name.rpartition(".")[2]
    return (last in _OF_TENSORS and name.count(".") == 1) or (
        last not in _NO_EVIDENCE and name not in MADE and (is_operation(name) or last.endswith("_like"))
    )


def is_operation(name: str) -> bool:
    """Does a qualified name stand for an operation over tensors, which must be in one place?"""
    last = name.rpartition(".")[2]
    return (
        bool(_OPERATIONS.match(name))
        and name not in _NO_OPERATIONS
        and last not in FOREIGN
        and not last.startswith(("is_", "set_", "get_"))
    )
