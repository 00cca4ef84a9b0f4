"""What torch's functions do to devices, as tables.

Sources: torch's own signatures (`torch/_C/_VariableFunctions.pyi`, `torch.nn` docs). The test
`tests/engine/test_torch_api.py` compares the tables with the installed torch.
"""

from __future__ import annotations

import ast

from devfix.models.loader import models


def _of(*forms: str) -> frozenset[str]:
    """What the model of torch has under these forms."""
    return frozenset(name for name, row in models().rows.items() if row.form in forms)


# Take `device=` and make a tensor on the default device without it. Not `normal`: it may be given tensors.
FACTORIES = _of("make", "data") - {"torch.normal"}
# Of those, the ones that keep the device of a tensor given as data.
KEEP_DATA = frozenset({"torch.as_tensor", "torch.asarray"})
# Constructors by dtype: always on the CPU.
LEGACY = _of("legacy")
LEGACY_CUDA = _of("cuda")
# Tell whether an accelerator is there, once they are called.
AVAILABLE = frozenset(
    f"torch.{one}.is_available" for one in ("accelerator", "backends.mps", "cuda", "mps", "xpu")
)
# Names that only tensors have: using one tells that a value is a tensor. Not `backward`, which engines
# and accelerators have: `booster.backward(loss, optimizer)`.
TENSOR_ONLY = frozenset(
    {
        "unsqueeze", "unsqueeze_", "squeeze", "view", "permute", "contiguous", "detach", "long",
        "numel", "argmax", "softmax", "log_softmax", "sigmoid", "expand", "expand_as", "view_as",
        "masked_fill", "scatter_", "gather", "index_select", "matmul", "bmm", "item", "type_as", "new_zeros",
        "new_ones", "new_tensor", "new_full", "new_empty", "unbind", "transpose", "narrow", "normal_",
        "zero_",
        "fill_", "copy_", "clamp", "clamp_", "topk", "dim", "flatten", "chunk", "size",
    }
)  # fmt: skip
# Methods that only modules have.
MODULE_ONLY = frozenset(
    {
        "train", "eval", "parameters", "named_parameters", "modules",
        "named_modules", "children", "named_children", "buffers", "named_buffers", "add_module",
        "register_module", "register_buffer", "register_parameter", "register_forward_hook",
        "register_forward_pre_hook", "apply", "get_submodule", "get_parameter", "forward",
    }
)  # fmt: skip
# Losses that have a tensor only where `weight` or `pos_weight` is given.
WEIGHTED_LOSSES = frozenset(
    f"torch.nn.{name}Loss" for name in ("CrossEntropy", "NLL", "BCE", "BCEWithLogits", "MultiMargin")
) | {"torch.nn.NLLLoss2d"}
# torch.nn modules without parameters or buffers unless an argument gives them one: where they
# are makes no difference.
BARE_MODULES = frozenset(one for one in _of("bare", "loss") if one.startswith("torch.nn.")) - (
    WEIGHTED_LOSSES | {"torch.nn.MultiLabelSoftMarginLoss"}
)
CONTAINERS = _of("container")
CURRENT_ACCELERATOR, ACCELERATOR_SINCE = "torch.accelerator.current_accelerator", (2, 6)
_NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
MODULE_BASES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
# Bases that do not tell whether a class is a module.
PLAIN_BASES = frozenset(
    {"object", "ABC", "abc.ABC", "Generic", "typing.Generic", "Protocol", "typing.Protocol", "Exception"}
)
# Wraps that want the module on its device already: nothing may be moved past them.
WRAP_NAMES = frozenset({"DDP", "FSDP", "DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"})
# Change where new tensors are made: after them "made on the CPU by default" is no longer known.
DEFAULT_DEVICE_CALLS = ("set_default_device(", "set_default_tensor_type(")


def turns_gradients_off(node: ast.expr) -> bool:
    """Is it `torch.no_grad()` or its like, as a `with` statement or a decorator has it?"""
    node = node.func if isinstance(node, ast.Call) else node
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _NO_GRADIENTS
