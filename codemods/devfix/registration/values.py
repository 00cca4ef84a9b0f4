"""The values that `meeting` follows through the methods of a module."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum, auto

from devfix.flow import torch_api
from devfix.registration import dims
from devfix.registration.stores import Method
from devfix.source import Source

Attribute = tuple[str, str]  # class name, attribute name


class Is(Enum):
    UNKNOWN = auto()
    PLAIN = auto()  # comes from plain attributes and from nothing that is on a device
    GIVEN = auto()  # comes from a parameter of the method that is looked at, of which nothing is known
    DEVICE = auto()  # a tensor, or tensors, where the module is
    MODULE = auto()  # a submodule, or a container of some
    NUMBER = auto()  # host data that is no tensor


@dataclass(frozen=True)
class Val:
    kind: Is
    of: frozenset[Attribute] = frozenset()
    dim: int = dims.ANY
    items: tuple[Val, ...] = ()
    node: ast.AST | None = None  # of a MODULE: the call that made it
    given: frozenset[str] = frozenset()  # of GIVEN: the parameters


UNKNOWN = Val(Is.UNKNOWN)
DEVICE = Val(Is.DEVICE)
NUMBER = Val(Is.NUMBER)
Env = dict[str, Val]


@dataclass(frozen=True)
class Meet:
    """One place where a plain attribute meets what is on the device."""

    node: ast.expr
    method: Method


# Methods of a tensor that want their tensor arguments where it is.
STRICT_METHODS = frozenset(
    {
        "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "matmul", "mm", "bmm", "mv",
        "dot", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_select",
        "index_add", "index_add_", "masked_fill", "masked_fill_", "masked_select", "where", "lt",
        "le", "gt", "ge", "eq", "ne", "pow", "logical_and", "logical_or", "maximum", "minimum",
        "addmm", "baddbmm", "take_along_dim", "outer", "cross", "lerp", "bitwise_and", "subtract",
        "multiply", "divide", "fmod", "remainder", "atan2", "tensordot", "kron", "addcmul",
        "index_copy_", "index_fill_", "__and__",
    }
)  # fmt: skip


# Functions whose tensors need not be in one place, or take shapes.
LOOSE = frozenset(
    {
        "is_tensor", "save", "numel", "pad", "interpolate", "upsample", "permute", "reshape",
        "tile", "result_type", "can_cast", "manual_seed", "roll", "flip", "narrow", "split",
        "chunk", "squeeze", "unsqueeze", "transpose", "fold", "unfold", "dropout", "device",
        "arange", "zeros", "ones", "empty", "full", "randn", "rand", "linspace", "eye", "tensor",
        "as_tensor", "from_numpy", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "no_grad",
        "affine_grid",
    }
)  # fmt: skip


# Functions of torch whose first argument is a tensor.
_TAKES_TENSOR = (STRICT_METHODS - {"where"}) | frozenset(
    {
        "stft", "istft", "sigmoid", "tanh", "relu", "softmax", "log_softmax", "exp", "log", "sqrt", "abs",
        "sin", "cos", "clamp", "clip", "sum", "mean", "max", "min", "flatten", "unsqueeze", "squeeze",
        "transpose", "permute", "reshape", "chunk", "split", "topk", "argmax", "cumsum", "cdist", "norm",
        "zeros_like", "ones_like", "rand_like", "randn_like", "empty_like", "full_like", "conv1d", "conv2d",
        "matmul", "roll", "flip", "square", "log2", "log10", "log1p", "round", "floor", "sign", "argsort",
        "sort", "isnan", "logsumexp", "var", "std", "repeat_interleave", "view_as_complex", "bernoulli",
    }
)  # fmt: skip


# Of those, the ones that make something new.
MAKES = frozenset(
    {
        "tensor", "as_tensor", "from_numpy", "arange", "zeros", "ones", "empty", "full", "randn", "rand",
        "linspace", "eye", "device", "no_grad",
    }
)  # fmt: skip
TENSOR_MEMBERS = torch_api.TENSOR_ONLY | {
    "shape",
    "device",
    "ndim",
    "dtype",
    "float",
    "mean",
    "sum",
    "reshape",
}


# A class from elsewhere that a module keeps an object of: a layer, unless its name says otherwise.
LAYER = re.compile(
    r"(?:^|\.)[A-Z](?!\w*(?:Token|Process|Config|Transform|Extract|Sampl|Metric|Sched|Reader|Args|Dict|Counter))"
    r"[A-Za-z]*[a-z]\w*$"
)


def join(a: Val, b: Val) -> Val:
    if a == b:
        return a
    if a.kind is not b.kind:
        return UNKNOWN
    if a.kind is Is.PLAIN:
        return Val(Is.PLAIN, a.of | b.of, dims.either(a.dim, b.dim))
    if a.kind is Is.GIVEN:
        return Val(Is.GIVEN, given=a.given | b.given)
    if len(a.items) == len(b.items):
        return Val(a.kind, items=tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True)))
    return Val(a.kind)


def join_all(values: list[Val]) -> Val:
    if not values:
        return UNKNOWN
    joined = values[0]
    for value in values[1:]:
        joined = join(joined, value)
    return joined


def listed(node: ast.AST | None) -> ast.AST | None:
    """The call that makes an element of `nn.ModuleList([Block(...) for ...])`."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    held = node.args[0]
    if isinstance(held, ast.Starred):
        held = held.value
    if isinstance(held, (ast.ListComp, ast.GeneratorExp)):
        return held.elt if isinstance(held.elt, ast.Call) else None
    if isinstance(held, (ast.List, ast.Tuple)) and held.elts and isinstance(held.elts[0], ast.Call):
        return held.elts[0]
    return None


def used_as_tensor(source: Source, node: ast.Name, *, number: bool) -> bool:
    """Is an argument read in a way that only tensors allow? `number`: it may be a plain number."""
    parent = source.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in TENSOR_MEMBERS
    if isinstance(parent, ast.BinOp):
        return not number and not isinstance(parent.op, (ast.Mod, ast.FloorDiv))
    if isinstance(parent, ast.Subscript) and parent.value is node:
        parts = parent.slice.elts if isinstance(parent.slice, ast.Tuple) else ()
        return any(isinstance(part, ast.Slice) or _blank(part) for part in parts)
    if isinstance(parent, ast.Call) and node in parent.args:
        name = source.qualified(parent.func)
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.functional."):
            return True
        if name.count(".") == 1 and name.startswith("torch.") and last in _TAKES_TENSOR:
            return parent.args[0] is node or last in STRICT_METHODS | {"min", "max"}
    return False


def _blank(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis)
