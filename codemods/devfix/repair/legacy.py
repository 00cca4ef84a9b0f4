"""Old constructors, such as `torch.FloatTensor([1.0])`, written as what takes a device."""

from __future__ import annotations

import ast

from devfix.text.source import Source

DTYPES = {
    "Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16", "LongTensor": "long", "IntTensor": "int32", "ShortTensor": "int16",
    "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip
_SIZES = frozenset({"len", "int", "size", "dim", "numel"})


def on_device(source: Source, call: ast.Call, name: str, device: str) -> str | None:
    """What makes the tensor of an old constructor on a device, where its arguments tell which that is."""
    last, func = name.rpartition(".")[2], call.func
    if not isinstance(func, ast.Attribute) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    torch = source.code(func.value)
    dtype = f"{torch}.{DTYPES[last]}"
    if last == "Tensor" and "set_default_dtype" in source.text:
        dtype = f"{torch}.get_default_dtype()"
    arguments = ", ".join(source.code(one) for one in call.args)
    if is_data(call):
        if last == "Tensor" or not isinstance(call.args[0], ast.Tuple):
            return f"{torch}.tensor({arguments}, dtype={dtype}, device={device})"
    if call.args and all(is_size(one) for one in call.args):
        return f"{torch}.empty({arguments}, dtype={dtype}, device={device})"
    return None


def is_data(call: ast.Call) -> bool:
    """Is what an old constructor is given written as data, not as sizes?"""
    return len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.ListComp, ast.Tuple))


def is_size(node: ast.expr) -> bool:
    """Is an argument of an old constructor surely a number?"""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Call):
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        return name in _SIZES and bool(node.args or not isinstance(func, ast.Attribute))
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return isinstance(node, ast.BinOp) and is_size(node.left) and is_size(node.right)
