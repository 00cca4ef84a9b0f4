"""Functions that are told a device, load weights for it, and return a model that is still on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.findings import AppendCall
from devfix.flow import Flow
from devfix.flow.evidence import looks_like_device
from devfix.flow.frame import path_of
from devfix.flow.methods import MOVES
from devfix.placing import dotted
from devfix.source import Source, walk
from devfix.unmoved.others import Left, move_of
from devfix.unmoved.uses import Use, reads, use_of

_SPEAKS_OF_DEVICES = re.compile(r"device|cuda|\.to\(")
_NO_MODULE = re.compile(r"[Oo]ptim|Adam|SGD|Scheduler|Scaler|EMA|parameters\(|device")


def built_for_device(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """`def build(path, device): ...; model.load_state_dict(load(path, map_location=device)); return model`."""
    source = flow.source
    if "map_location" not in source.text or ".load_state_dict(" not in source.text:
        return
    for function in source.definitions:
        if isinstance(function, ast.ClassDef) or isinstance(source.parents[function], ast.ClassDef):
            continue
        code = source.code(function)
        if "map_location" not in code or ".load_state_dict(" not in code or "return " not in code:
            continue
        device = next((one for one in _parameters(function) if looks_like_device(one)), "")
        if device and _only_mapped(source, function, device) and not _moved_by_callers(source, function.name):
            yield from _returned(flow, bindings(), function, device)


def _parameters(function: FunctionNode) -> list[str]:
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _only_mapped(source: Source, function: FunctionNode, device: str) -> bool:
    """Is all that is done with the device to load weights for it, and to ask which one it is?"""
    mapped = False
    for node in source.walk(function):
        if not isinstance(node, ast.Name) or node.id != device:
            continue
        up = source.parents[node]
        if not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(up, ast.keyword) and up.arg == "map_location":
            mapped = True
        elif not isinstance(up, ast.Compare):
            return False
    return mapped


def _moved_by_callers(source: Source, name: str) -> bool:
    """Does anybody in this file move what the function returns?"""
    for call in source.calls:
        if dotted(call.func) != name:
            continue
        up = source.parents[call]
        if isinstance(up, ast.Attribute):
            return True
        if isinstance(up, ast.Assign):
            path = re.escape(path_of(up.targets[0]) or "?")
            if re.search(rf"(?<![\w.]){path}\.(?:to|cuda)\(", source.text):
                return True
    return False


def _returned(flow: Flow, bindings: Bindings, function: FunctionNode, device: str) -> Iterator[Left]:
    source = flow.source
    returns = [
        node.value
        for node in walk(function)
        if isinstance(node, ast.Return)
        and node.value is not None
        and function_around(source, node) is function
    ]
    if len(returns) != 1 or not isinstance(returns[0], ast.Name):
        return
    name, made, wrap = returns[0].id, None, None
    for binding in bindings.within(function, name):
        value = binding.value
        if not isinstance(value, ast.Call) or move_of(value) is not None:
            return
        if source.qualified(value.func) in ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"):
            wrap = value
        elif device not in source.code(value) and _makes(source, value):
            made = value
        elif not (isinstance(value.func, ast.Attribute) and dotted(value.func.value) == name):
            return
    if made is None or f"{name}.load_state_dict(" not in source.code(function):
        return
    if _NO_MODULE.search(source.code(made)):
        return
    for read in reads(flow, bindings, name, function):
        up = source.parents[read]
        if up is not wrap and use_of(flow, bindings, read, len(source.text)) is not Use.PLAIN:
            return
        if isinstance(up, ast.Attribute) and up.attr in MOVES:
            return
    at = wrap if wrap is not None else returns[0]
    suffix = f".to({device})"
    why = f"`{name}` stays on the CPU: `load_state_dict` copies what was loaded to `{device}` to where it is"
    yield Left(at, name, why, made, suffix, (AppendCall(source.span(at), suffix),))


def _makes(source: Source, call: ast.Call) -> bool:
    """Does a call make an object on the CPU: by a class, or by a function of this file that says nothing of devices?"""
    if path_of(call.func).rpartition(".")[2][:1].isupper():
        return True
    named = [one for one in source.definitions if one.name == dotted(call.func)]
    return len(named) == 1 and _SPEAKS_OF_DEVICES.search(source.code(named[0])) is None
