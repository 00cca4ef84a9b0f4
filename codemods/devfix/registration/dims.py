"""How many dimensions a tensor has, as far as that matters: tensors of none may mix with any device.

A number of dimensions is 0, 1, 2, ..., or SOME (one at least), or ANY (perhaps none).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

SOME = -1
ANY = -2

# Reduce everything where no dimension is named.
_REDUCTIONS = frozenset(
    {
        "sum", "mean", "prod", "max", "min", "std", "var", "median", "norm", "argmax", "argmin",
        "all", "any", "amax", "amin", "logsumexp", "trace", "dot", "det", "logdet", "nansum",
        "nanmean", "vdot", "inner", "count_nonzero", "dist",
    }
)  # fmt: skip
_GROW = frozenset(
    {
        "unsqueeze", "repeat", "expand", "flatten", "view", "reshape", "ravel", "repeat_interleave",
        "stack", "meshgrid", "outer", "diag", "diag_embed", "cartesian_prod", "nonzero", "unfold",
        "atleast_1d", "broadcast_to", "tile", "cat", "concat", "concatenate", "hstack", "vstack",
        "kron", "ger", "view_as_real", "expand_as", "view_as", "reshape_as", "stft", "combinations",
        "one_hot", "tril", "triu", "cumsum", "cumprod", "flip", "roll", "sort", "argsort",
        "permute", "t", "tolist", "index_select",
    }
)  # fmt: skip
_UNCLEAR = frozenset({"squeeze", "einsum", "matmul", "mm", "bmm", "mv", "tensordot", "select", "unbind"})
_SIZED = {"zeros": 0, "ones": 0, "empty": 0, "rand": 0, "randn": 0, "full": 0, "randint": -1}
_ARRAYS = frozenset(
    {
        "array", "asarray", "arange", "linspace", "zeros", "ones", "eye", "full", "stack",
        "concatenate", "random", "logspace", "geomspace", "meshgrid", "load", "loadtxt", "hanning",
        "hamming", "kaiser", "triu", "tril", "cumsum", "cumprod", "append", "repeat", "tile",
    }
)  # fmt: skip
_SEQUENCES = frozenset({"list", "tuple", "sorted", "range", "zip", "map"})
_NUMBERS = frozenset({"float", "int", "bool", "len", "abs", "round", "sum"})


def solid(dim: int) -> bool:
    """Certainly not a tensor of no dimension."""
    return dim == SOME or dim > 0


def broadcast(dims: Iterable[int]) -> int:
    """The dimensions of what several tensors make together."""
    all_of = tuple(dims)
    if not all_of:
        return ANY
    if any(solid(dim) for dim in all_of):
        return max(all_of) if SOME not in all_of and ANY not in all_of else SOME
    return ANY if ANY in all_of else 0


def either(a: int, b: int) -> int:
    """The dimensions of one of two tensors."""
    if a == b:
        return a
    return SOME if solid(a) and solid(b) else ANY


def of_factory(name: str, call: ast.Call) -> int:
    """The dimensions of what a torch factory makes; data of `tensor` and its like are `of_data`'s."""
    if name in ("eye", "tril_indices", "triu_indices"):
        return 2
    if name in _SIZED:
        size = next((k.value for k in call.keywords if k.arg == "size"), None)
        if size is None and name == "randint":
            sizes = [a for a in call.args if isinstance(a, (ast.Tuple, ast.List))]
            size = sizes[0] if sizes else None
        elif (size is None and len(call.args) == 1) or name == "full":
            size = call.args[0] if call.args else None
        elif size is None:
            return SOME if any(isinstance(a, ast.Starred) for a in call.args) else len(call.args) or ANY
        if isinstance(size, (ast.Tuple, ast.List)):
            return SOME if any(isinstance(e, ast.Starred) for e in size.elts) else len(size.elts)
        if isinstance(size, ast.Constant) and isinstance(size.value, int):
            return 1
        return SOME
    if name == "scalar_tensor":
        return 0
    return 1


def of_data(node: ast.expr) -> int:
    """The dimensions of a tensor made from a Python value, by the shape of the expression."""
    if isinstance(node, ast.UnaryOp):
        return of_data(node.operand)
    if isinstance(node, ast.Constant):
        return 0
    if isinstance(node, (ast.List, ast.Tuple)):
        if not node.elts:
            return 1
        first = node.elts[0]
        inner = of_data(first) if not isinstance(first, ast.Starred) else ANY
        return inner + 1 if inner >= 0 else SOME
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return SOME
    if isinstance(node, ast.BinOp):
        left, right = of_data(node.left), of_data(node.right)
        return left if left == right else SOME if solid(left) or solid(right) else ANY
    if isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(base, ast.Name) and base.id == "math":
            return 0
        if base is not None and last in _ARRAYS:
            return SOME
        if base is None and last in _SEQUENCES:
            return SOME
        if base is None and last in _NUMBERS:
            return 0
        if base is not None and last in ("astype", "reshape", "copy", "transpose", "T"):
            return of_data(base)
    return ANY


def after(name: str, dim: int, call: ast.Call, *, method: bool) -> int:
    """The dimensions of what a function or method of torch makes of a tensor."""
    if name in _REDUCTIONS:
        named = any(k.arg in ("dim", "axis", "keepdim") for k in call.keywords)
        if not named and len(call.args) <= (0 if method else 1):
            return 0
        keep = any(
            k.arg == "keepdim" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords
        )
        if keep:
            return dim
        return dim - 1 if dim > 0 and not named else ANY
    if name in ("reshape", "view") and [ast.unparse(one) for one in call.args[not method :]] == ["()"]:
        return 0
    if name in _GROW:
        return SOME
    if name in _UNCLEAR:
        return ANY
    return dim


def after_index(index: ast.expr, dim: int, whole: Iterable[ast.expr] = ()) -> int:
    """The dimensions left by indexing; `whole` are the parts known to be tensors or lists."""
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    kept = set(map(id, whole))
    grown = taken = 0
    for part in parts:
        if isinstance(part, (ast.Slice, ast.List)) or id(part) in kept:
            if isinstance(part, ast.Slice):
                grown += 1
                taken += 1
                continue
            return SOME
        if isinstance(part, ast.Constant) and part.value is None:
            grown += 1
        elif isinstance(part, ast.Constant) and part.value is Ellipsis:
            continue
        else:
            taken += 1
    if dim > 0 and taken <= dim:
        return dim - taken + grown
    return SOME if grown else ANY


def of_argument(text: str, name: str) -> int:
    """Whether a class counts dimensions of an argument or of what keeps it: `x.size(0)`, `self.x[:, 1]`."""
    counted = (
        rf"\b{name}(?:\.(?:shape\[|size\(|ndim\b|dim\(|(?:un)?squeeze\(|transpose\(|permute\(|expand\(|t\(|mT\b)|\[)"
        rf"|\blen\((?:self\.)?{name}\)|@ (?:self\.)?{name}\b|\b{name} @ "
    )
    return SOME if re.search(counted, text) else ANY
