"""How a running line writes a stray, and how the device that it belongs on could be written there.

Looked up in the frame's variables and in what objects really hold: nothing of the program is called.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

import torch

from devfix.reports.observed import At, Found, Passed
from devfix.simulate.keeping_going.lines import at, mark
from devfix.simulate.whereabouts import MISSING, stored_attribute

_MOST = 8  # devices
_DEVICE = re.compile(r"cpu|cuda(:\d{1,2})?")
_BUILTINS = (dict, list, tuple)
_ITEMS = ("items", "values")
_WITHIN = ("module", *_ITEMS)


# A function's name, and what it was called with, by position and by name.
Call = tuple[str, Sequence[Any], Mapping[str, Any]]


def passed(
    frame: FrameType,
    strays: Mapping[int, Any],
    device: Any,
    call: Call,
    new: Container[int],
    sources: Mapping[int, Sequence[Any]],
) -> Passed:
    """A frame of the program, with what its running line has of the strays; in the innermost, of `call`.

    `new` are the strays that were made further in: this frame has not handed them on, but perhaps their `sources`.
    """
    line = at(mark(frame))
    assert line is not None
    variables = {**frame.f_globals, **frame.f_locals}
    found = list(_found(line, variables, strays))
    known = {one.operand for one in found}
    for node, value in _given(line, variables, call):
        for number, tensor in strays.items():
            if number not in known and _holds(value, tensor) == "tensor":
                found.append(Found(number, _place(line, node)))
    known = {one.operand for one in found}
    given = _input(line, variables)
    if given is not None:
        found += [
            Found(number, _place(line, given))
            for number, tensor in strays.items()
            if number not in known and number not in new and not isinstance(tensor, torch.nn.Parameter)
        ][:1]
    known = {one.operand for one in found}
    found += _handed_on(
        line, variables, {number: sources[number] for number in sources if number not in known}
    )
    devices = [*_devices(frame, device), *_on_the_line(line, variables, device)]
    return Passed(line, tuple(found), tuple(dict.fromkeys(devices)))


def _input(line: At, variables: Mapping[str, Any]) -> ast.expr | None:
    """What a module is called with, where that is the only thing of which nothing is known: `net(f(x), 3)`."""
    node = next(_running(line), None) if line.column >= 0 else None
    if not isinstance(node, ast.Call) or not isinstance(evaluated(node.func, variables), torch.nn.Module):
        return None
    given = (*node.args, *(one.value for one in node.keywords))
    unknown = [one for one in given if evaluated(one, variables) is MISSING and isinstance(one, ast.Call)]
    return unknown[0] if len(unknown) == 1 else None


def _handed_on(
    line: At, variables: Mapping[str, Any], sources: Mapping[int, Sequence[Any]]
) -> Iterator[Found]:
    """Arguments of the running call that strays were computed from."""
    for running in _running(line) if line.column >= 0 else ():
        if not isinstance(running, ast.Call):
            continue
        for node in (*running.args, *(one.value for one in running.keywords)):
            value = evaluated(node, variables)
            for number, tensors in sources.items():
                if isinstance(value, torch.Tensor) and any(value is one for one in tensors):
                    yield Found(number, _place(line, node), "source")


def _place(line: At, node: Any) -> At:
    return At(line.path, node.lineno, node.end_lineno, node.col_offset, node.end_col_offset, line.function)


def _given(line: At, variables: Mapping[str, Any], call: Call) -> Iterator[tuple[ast.expr, Any]]:
    """What is written for each argument of a call, where the running expression is that call."""
    name, values, named = call
    node = next(_running(line), None) if line.column >= 0 else None
    written: Sequence[ast.expr] = ()
    if isinstance(node, (ast.BinOp, ast.Compare)):
        written = (node.left, node.right if isinstance(node, ast.BinOp) else node.comparators[0])
    elif isinstance(node, ast.AugAssign):
        written = (node.target, node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
        written = node.args
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
        function = isinstance(evaluated(node.func.value, variables), ModuleType)
        written = node.args if function else [node.func.value, *node.args]
    pending = list(zip(written, values, strict=False))
    if isinstance(node, ast.Call) and written:
        pending[:0] = [(one.value, named[one.arg]) for one in node.keywords if one.arg and one.arg in named]
    while pending:
        one, value = pending.pop(0)
        if isinstance(one, ast.Starred):
            return
        if isinstance(one, (ast.List, ast.Tuple)) and isinstance(value, (list, tuple)):
            pending = [*zip(one.elts, value, strict=False), *pending]
        else:
            yield one, value


def _found(line: At, variables: Mapping[str, Any], strays: Mapping[int, Any]) -> Iterator[Found]:
    pending = [(node, True) for node in _running(line)]
    while pending:
        node, whole = pending.pop(0)
        value = evaluated(node, variables) if isinstance(node, ast.expr) else MISSING
        if value is MISSING and isinstance(node, ast.Subscript):
            value = _viewed(evaluated(node.value, variables), strays)
        hit = [(number, _holds(value, tensor)) for number, tensor in strays.items()]
        for number, held in hit:
            if held and (whole or held not in _ITEMS):
                yield Found(number, _place(line, node), held if held in _WITHIN else "")
        if not any(held for _, held in hit):
            # Of `batch["x"]`, the batch is not handed on.
            part = node.value if isinstance(node, (ast.Subscript, ast.Attribute)) else None
            pending += [(child, child is not part) for child in ast.iter_child_nodes(node)]


def _viewed(held: Any, strays: Mapping[int, Any]) -> Any:
    """The stray that is a part of a tensor, as `x[1:]` is of `x`."""
    if isinstance(held, torch.Tensor):
        for one in strays.values():
            if one._base is not None and one._base is (held if held._base is None else held._base):
                return one
    return MISSING


def _running(line: At) -> Iterator[Any]:
    """The expression that was running; without columns, the expressions that stand on the line."""
    for node in _nodes(line.path):
        if line.column >= 0:
            span = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if span == (line.line, line.column, line.end_line, line.end_column):
                yield node
                return
        elif node.lineno == line.line and isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            yield node


@lru_cache(maxsize=64)
def _nodes(path: str) -> tuple[Any, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, (ast.expr, ast.AugAssign)))


def evaluated(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of a name, a stored attribute, or an item of a plain container; else MISSING."""
    if isinstance(node, ast.Name):
        return variables.get(node.id, MISSING)
    if isinstance(node, ast.Attribute):
        return stored_attribute(evaluated(node.value, variables), node.attr)
    if isinstance(node, ast.Subscript):
        holder, key = evaluated(node.value, variables), node.slice
        index = key.value if isinstance(key, ast.Constant) else evaluated(key, variables)
        if type(holder) in _BUILTINS and type(index) in (str, int):
            try:
                return holder[index]
            except LookupError:
                return MISSING
    return MISSING


def _holds(value: Any, tensor: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor" if value is tensor or (tensor._base is not None and tensor._base is value) else ""
    if isinstance(value, torch.nn.Module):
        return "module" if any(one is tensor for one in (*value.parameters(), *value.buffers())) else ""
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    if items and all(isinstance(one, torch.Tensor) for one in items):
        kind = "values" if type(value) is dict else "items"
        return kind if any(_holds(one, tensor) for one in items) else ""
    return ""


def _devices(frame: FrameType, device: Any) -> list[str]:
    """Expressions of the frame that are that device, those first that say so plainly."""
    ranked: list[tuple[int, str]] = []
    for name, value in frame.f_locals.items():
        ranked += _as_device(name, value, device)
        if name == "self":
            own = [*vars(value).items(), *getattr(value, "_modules", {}).items()] if _plain(value) else []
            own += list(getattr(value, "_parameters", {}).items()) if _plain(value) else []
            ranked += [
                (rank + 1, text)
                for attr, one in own
                for rank, text in _as_device(f"self.{attr}", one, device)
            ]
    for name, value in (frame.f_globals | frame.f_locals).items():
        listed = enumerate(value) if type(value) in (list, tuple) and len(value) <= _MOST else ()
        ranked += [
            (5, f"{text}[{number}]")
            for number, one in listed
            for _, text in _as_device(name, one, device, True)
        ]
    if frame.f_locals is not frame.f_globals:  # what a function is given says more than what is around it
        kinds = (torch.device, str)
        others = [(name, value) for name, value in frame.f_globals.items() if isinstance(value, kinds)]
        ranked += [(3, text) for name, value in others for _, text in _as_device(name, value, device)]
    return [text for _, text in sorted(set(ranked))][:_MOST]


def _on_the_line(line: At, variables: Mapping[str, Any], device: Any) -> Iterator[str]:
    """Items of containers that the running line has, and which are on that device."""
    for running in _running(line):
        for node in ast.walk(running):
            if isinstance(node, ast.Subscript):
                value = evaluated(node, variables)
                if isinstance(value, torch.Tensor) and value.device == device:
                    yield f"{ast.unparse(node)}.device"


def _plain(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type)


def _as_device(name: str, value: Any, device: Any, plain: bool = False) -> Sequence[tuple[int, str]]:
    """How a device is written with a name that has this value, and its rank; `plain` is without attributes."""
    if not all(part.isidentifier() for part in name.split(".")) or name.startswith(("_", "self._")):
        return ()
    if isinstance(value, torch.device) or (isinstance(value, str) and _DEVICE.fullmatch(value)):
        named = torch.device(value)
        first = named.index is None and not device.index
        return [(0, name)] if named.type == device.type and (first or named.index == device.index) else ()
    if plain:
        return ()
    if isinstance(value, torch.Tensor):
        return [(2, f"{name}.device")] if value.device == device else ()
    if isinstance(value, torch.nn.Module):
        found = {one.device for one in value.parameters()}
        return [(4, f"next({name}.parameters()).device")] if found == {device} else ()
    return ()


def attribute_path(tensor: Any, frames: Sequence[FrameType]) -> str:
    """What the program calls a module's tensor, seen from as far out as it can be: `model.head.weight`."""
    for frame in reversed(frames):
        variables = [(name, value) for name, value in frame.f_locals.items() if name != "self"]
        own = frame.f_locals.get("self")
        inner = [(f"self.{name}", value) for name, value in vars(own).items()] if _plain(own) else []
        for name, value in (*variables, *inner, ("self", own)):
            if isinstance(value, torch.nn.Module):
                for path, one in (*value.named_parameters(), *value.named_buffers()):
                    if one is tensor:
                        return f"{name}.{path}"
    return ""
