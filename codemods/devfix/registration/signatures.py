"""Arguments, returns and dtypes of calls and functions, read from the tree."""

from __future__ import annotations

import ast

from devfix.flow.evidence import annotated_kind, annotation_text
from devfix.registration.stores import BLOCKS, Method
from devfix.source import Source, children

_WHOLE_DTYPES = frozenset(
    {"long", "int", "int64", "int32", "int16", "int8", "uint8", "bool", "short", "complex64"}
)


def torch_name(source: Source, node: ast.AST) -> str:
    """The qualified name of a function; kornia re-exports torch's own under other names."""
    name = source.qualified(node)
    if name.startswith("kornia.core."):
        return f"torch.{name.rpartition('.')[2]}"
    return name


def only_dtype(source: Source, node: ast.Call) -> bool:
    """`.to(torch.float32)`, `.to(dtype=...)`, `.to(x.dtype)`: the place stays."""
    if any(k.arg not in ("dtype", "copy", "non_blocking") for k in node.keywords):
        return False
    for argument in node.args:
        name = source.qualified(argument)
        dtype = name.startswith("torch.") and name.rpartition(".")[2].islower()
        if not dtype and not source.code(argument).endswith("dtype"):
            return False
    return bool(node.args or node.keywords)


def whole_dtype(node: ast.Call) -> bool:
    given = [k.value for k in node.keywords if k.arg == "dtype"] + [
        a for a in node.args if isinstance(a, ast.Attribute)
    ]
    return any(isinstance(g, ast.Attribute) and g.attr in _WHOLE_DTYPES for g in given)


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def default_of(function: Method, name: str) -> ast.expr | None:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(plain), reversed(arguments.defaults), strict=False):
        if argument.arg == name:
            return default
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name:
            return value
    return None


def arguments_of(function: Method, call: ast.Call, skip: int) -> dict[str, ast.expr]:
    """What a call gives each parameter, as far as that can be seen."""
    plain = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]][skip:]
    given: dict[str, ast.expr] = {}
    for name, value in zip(plain, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        given[name] = value
    for keyword in call.keywords:
        if keyword.arg:
            given[keyword.arg] = keyword.value
    return given


def tensor_annotation(node: ast.expr | None) -> bool:
    """`Tensor`, `Optional[torch.Tensor]` and their like; a union that may be a parameter or a number is none."""
    while isinstance(node, ast.BinOp):  # Tensor | None
        sides = [side for side in (node.left, node.right) if not _is_none(side)]
        if len(sides) != 1:
            return False
        node = sides[0]
    return annotated_kind(node) == "tensor"


def sequence_annotation(function: Method, name: str) -> bool:
    """`list[int]`, `Sequence[float]`, `tuple[int, ...]`: never a number."""
    node = next((a.annotation for a in parameters(function) if a.arg == name), None)
    if isinstance(node, ast.BinOp) and _is_none(node.right):
        node = node.left
    text = annotation_text(node.value if isinstance(node, ast.Subscript) else node)
    if text.rpartition(".")[2] == "Optional" and isinstance(node, ast.Subscript):
        text = annotation_text(node)
    return text.rpartition(".")[2].lower() in ("list", "tuple", "sequence")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def parameters(function: Method) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def returns_of(source: Source, function: Method) -> tuple[ast.expr, ...]:
    """What a function returns, where it says so; nothing of generators and coroutines."""
    if isinstance(function, ast.AsyncFunctionDef):
        return ()
    if "yield" in source.code(function) and _yields(function):
        return ()
    found: list[ast.expr] = []
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            if node.value is not None:
                found.append(node.value)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for field in BLOCKS:
                todo.extend(getattr(node, field, ()))
    return tuple(found)


def _yields(function: Method) -> bool:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(children(node))
    return False
