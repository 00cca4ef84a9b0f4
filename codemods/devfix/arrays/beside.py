"""What one place of a file copies to the CPU before numpy reads it, and what another one does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devfix.source import Source, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What may stand between a parameter and `.numpy()`; none of it says anything of the device.
_BETWEEN = frozenset(
    {"detach", "squeeze", "cpu", "data", "float", "long", "int", "flatten", "argmax", "contiguous"}
)
_DTYPE = re.compile(r"(?:torch\.)?(?:b?float|double|half|long|u?int)\d*")
_COPIED = re.compile(r"\bcpu\b|numpy|\bnp\.|tolist")


@dataclass(frozen=True)
class Uncopied:
    """The `x` of `x.numpy()`, and what is copied elsewhere: the same name, or what stands beside it."""

    node: ast.expr
    copied: ast.expr
    function: str  # where that is


@dataclass(frozen=True)
class _Read:
    name: str
    node: ast.expr
    function: Function
    copied: bool


def uncopied(source: Source, calls: Sequence[ast.Call]) -> Iterator[Uncopied]:
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
    done = {read.node for read in reads}
    yield from (one for one in _stored(source, calls) if one.node not in done)


def _stored(source: Source, calls: Sequence[ast.Call]) -> Iterator[Uncopied]:
    """`d["a"] = a.numpy()`, where the same function stores `d["b"] = b.cpu().numpy()` in the same dict."""
    kept: dict[tuple[Function, str], list[tuple[ast.expr, bool]]] = {}
    for call in calls:
        node = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" else None
        statement, function = source.statement(call), source.enclosing(call, *_FUNCTIONS)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if node is None or not isinstance(target, ast.Subscript) or not isinstance(function, _FUNCTIONS):
            continue
        found = _root(source, node)
        if found is not None:
            root, copied = found
            if copied or not _copied(source, function, root):
                kept.setdefault((function, source.code(target.value)), []).append((node, copied))
    for (function, _), reads in kept.items():
        copy = next((node for node, copied in reads if copied), None)
        if copy is not None:
            yield from (Uncopied(node, copy, function.name) for node, copied in reads if not copied)


def _root(source: Source, node: ast.expr) -> tuple[str, bool] | None:
    """The name that is read, as it is or as another number, and whether `.cpu()` stands between."""
    copied = False
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Call):
            func = node.func
            moves = isinstance(func, ast.Attribute) and func.attr == "to"
            if moves and not (len(node.args) == 1 and _DTYPE.fullmatch(source.code(node.args[0]))):
                return None
            node = func
        elif node.attr in _BETWEEN or node.attr == "to":
            copied |= node.attr == "cpu"
            node = node.value
        else:
            return None
    return (node.id, copied) if isinstance(node, ast.Name) else None


def _copied(source: Source, function: Function, name: str) -> bool:
    """Does an assignment to the name speak of the host?"""
    return any(
        isinstance(node, ast.Assign)
        and any(
            isinstance(one, ast.Name) and one.id == name for target in node.targets for one in walk(target)
        )
        and _COPIED.search(source.code(node.value))
        for node in walk(function)
    )


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
