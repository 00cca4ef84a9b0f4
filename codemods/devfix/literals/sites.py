"""Where a file names CUDA itself, and how such a place is written with another device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import Edit, ReplaceExpression
from devfix.flow import torch_api
from devfix.source import Source

_LITERAL = re.compile(r"cuda(?::0)?$")
# Made alike wherever they are made; random numbers and spaced ones differ between CPU and GPU.
_PLACEABLE = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "empty", "full", "eye", "tensor", "arange")
)
_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_SIZES = frozenset({"size", "shape", "len", "dim", "numel"})
_SIZE_NAME = re.compile(r"(?:^|_)(?:size|len|length|dim|num|count|height|width)$|^(?:n|num|max)_\w+$")


@dataclass(frozen=True, eq=False)
class Site:
    """One expression that puts something on CUDA by name.

    - `node` makes the value that is there; `receiver` is what is moved, None for what is made there.
    - `literal` is the part that names the device: a string, `torch.device("cuda")`, or the call itself.
    - `form`: "cuda" (`x.cuda()`), "to" (`x.to("cuda")`), "device" (`device="cuda"` of a factory),
      "legacy" (`torch.cuda.FloatTensor(..)`), "options" (`{"device": "cuda"}` of a call).
    """

    node: ast.expr
    literal: ast.expr
    form: str
    receiver: ast.expr | None = None


def sites_of(source: Source, root: ast.AST) -> Iterator[Site]:
    """The sites below a node; those that another codemod owns (autocast, map_location) are left out."""
    for node in source.walk(root):
        if isinstance(node, ast.Call):
            found = _site(source, node)
            if found is not None:
                yield found


def _site(source: Source, node: ast.Call) -> Site | None:
    func = node.func
    if isinstance(func, ast.Attribute):
        if func.attr == "cuda" and not source.qualified(func):
            plain = all(k.arg in ("non_blocking", "device") for k in node.keywords)
            told = [*node.args, *(k.value for k in node.keywords if k.arg == "device")]
            if plain and len(told) <= 1 and all(names_cuda(source, one) for one in told):
                return Site(node, node, "cuda", func.value)
            return None
        if func.attr == "to":
            told = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "device")]
            found = next((one for one in told if names_cuda(source, one, text=True)), None)
            return Site(node, found, "to", func.value) if found is not None else None
    name = source.qualified(func)
    if name in torch_api.LEGACY_CUDA:
        return Site(node, node, "legacy")
    made = name in torch_api.FACTORIES or (name.startswith("torch.") and name.endswith("_like"))
    if made or (isinstance(func, ast.Attribute) and func.attr.startswith("new_") and not name):
        for keyword in node.keywords:
            if keyword.arg == "device" and names_cuda(source, keyword.value):
                return Site(node, keyword.value, "device")
    for keyword in node.keywords:
        if keyword.arg == "run_opts" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "device" and names_cuda(source, value):
                    return Site(node, value, "options")
    return None


def names_cuda(source: Source, node: ast.expr, text: bool = False) -> bool:
    """`"cuda"`, `"cuda:0"`, `torch.device("cuda")`; with `text=False` the index 0 too."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return bool(_LITERAL.match(node.value))
        return not text and node.value == 0 and not isinstance(node.value, bool)
    if isinstance(node, ast.Call) and source.qualified(node.func) == "torch.device":
        return len(node.args) == 1 and not node.keywords and names_cuda(source, node.args[0], text=True)
    return False


# --- rewriting -------------------------------------------------------------------------------


def edits_for(source: Source, site: Site, device: str) -> tuple[tuple[Edit, ...], bool]:
    """The edits that give a site another device, and whether they surely make the same value.

    No edits where it cannot be told what the site makes.
    """
    if site.form == "legacy":
        text, sure = _legacy(source, site.node, device)
    elif site.form == "cuda" and site.receiver is not None:
        text, sure = moved(source, site, device), True
    else:
        return (ReplaceExpression(source.span(site.literal), device),), True
    if not text or not _reads(text):
        return (), False
    return (ReplaceExpression(source.span(site.node), text),), sure


def moved(source: Source, site: Site, device: str) -> str:
    """The text of `x.cuda()` with another device: `x.to(device)`, or `device=` of its factory."""
    call, receiver = site.node, site.receiver
    assert isinstance(call, ast.Call) and receiver is not None
    if site.form != "cuda":
        start, end = source.span(call).start, source.span(call).end
        literal = source.span(site.literal)
        return source.text[start : literal.start] + device + source.text[literal.end : end]
    extra = "".join(f", {source.code(k)}" for k in call.keywords if k.arg == "non_blocking")
    text = source.code(receiver)
    if not extra and isinstance(receiver, ast.Call) and source.qualified(receiver.func) in _PLACEABLE:
        told = {keyword.arg for keyword in receiver.keywords}
        if "\n" not in text and not told & {"device", "requires_grad", "out", "pin_memory", None}:
            joint = "" if not receiver.args and not receiver.keywords else ", "
            return f"{text[:-1].rstrip().rstrip(',')}{joint}device={device})"
    # Parentheses around a receiver belong to the call's text, not to the receiver's.
    start = source.span(call).start
    end = source.span(receiver).end
    around = source.text[start : _closing(source, end, source.span(call).end)]
    return f"{around}.to({device}{extra})"


def _closing(source: Source, end: int, limit: int) -> int:
    """The offset of the `.` of `.cuda`, white space and comments before it excluded."""
    dot = source.text.find(".", end, limit)
    return end + len(source.text[end:dot].rstrip())


def _legacy(source: Source, node: ast.expr, device: str) -> tuple[str, bool]:
    """`torch.cuda.LongTensor(..)` as `torch.tensor(data, ..)` or `torch.empty(sizes, ..)`."""
    assert isinstance(node, ast.Call)
    name, joint, last = source.code(node.func).rpartition(".cuda.")
    if not joint or last not in _DTYPES or node.keywords:
        return "", False
    rest = f"dtype={name}.{_DTYPES[last]}, device={device})"
    if not node.args:
        return f"{name}.empty(0, {rest}", True
    args = ", ".join(source.code(argument) for argument in node.args)
    first = node.args[0]
    if len(node.args) == 1 and isinstance(first, (ast.List, ast.Tuple, ast.ListComp)):
        return f"{name}.tensor({args}, {rest}", False
    # Of two numbers or more, all are sizes.
    if len(node.args) > 1 or all(_is_size(argument) for argument in node.args):
        return f"{name}.empty({args}, {rest}", not any(isinstance(a, ast.Name) for a in node.args)
    return "", False


def _is_size(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.BinOp):
        return _is_size(node.left) and _is_size(node.right)
    if isinstance(node, ast.Subscript):
        return _is_size(node.value)
    if isinstance(node, ast.Call):
        node = node.func
        return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) in _SIZES
    if isinstance(node, ast.Starred):
        return _is_size(node.value)
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return last in _SIZES or bool(_SIZE_NAME.search(last))


def _reads(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
