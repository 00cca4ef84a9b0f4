"""Parameters that one place of a file copies to the CPU before numpy reads them, and another one does not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from devfix.source import Source, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What may stand between a parameter and `.numpy()`; none of it says anything of the device.
_BETWEEN = frozenset(
    {"detach", "squeeze", "cpu", "data", "float", "long", "int", "flatten", "argmax", "contiguous"}
)


@dataclass(frozen=True)
class Uncopied:
    """The `x` of `x.numpy()`, a parameter, and what is copied elsewhere: the same name, or what stands beside it."""

    node: ast.expr
    copied: ast.expr
    function: str  # where that is


@dataclass(frozen=True)
class _Read:
    name: str
    node: ast.expr
    function: Function
    copied: bool


def uncopied(source: Source, calls: Iterable[ast.Call]) -> Iterator[Uncopied]:
    """Reads without `.cpu()` of parameters, where the file shows that such parameters may be on a device."""
    reads = [read for call in calls if (read := _read(source, call)) is not None]
    copied = [read for read in reads if read.copied]
    for read in reads if copied else ():
        if read.copied or any(one.function is read.function and one.name == read.name for one in copied):
            continue
        owner = source.parents.get(read.function)
        for one in copied:
            same = one.function is not read.function and source.parents.get(one.function) is owner
            if one.function is read.function or (same and one.name == read.name):
                yield Uncopied(read.node, one.node, one.function.name)
                break


def _read(source: Source, call: ast.Call) -> _Read | None:
    """`x.detach().cpu().numpy()` of a parameter that is not bound again."""
    node = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" else None
    whole, copied = node, False
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            if node.attr not in _BETWEEN:
                return None
            copied |= node.attr == "cpu"
            node = node.value
        else:
            node = node.func
    if not isinstance(node, ast.Name) or whole is None or call.args:
        return None
    function = source.enclosing(call, *_FUNCTIONS)
    if not isinstance(function, _FUNCTIONS):
        return None
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if not any(one.arg == node.id for one in every if one.arg not in ("self", "cls")):
        return None
    for other in walk(function):
        if isinstance(other, ast.Name) and other.id == node.id and not isinstance(other.ctx, ast.Load):
            return None
    return _Read(node.id, whole, function, copied)
