"""Functions that take a device, load a checkpoint to it, and return the model where it was made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.handing.takers import DEVICE
from devfix.loading.calls import ARGUMENT

# What has a state, and no `to`.
_STATEFUL = re.compile(
    r"optim|adam|sgd|lion\b|sched|scaler|sampler|\bema\b|tokenizer|processor", re.IGNORECASE
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Unmoved:
    """`return model`; `device`: the parameter that says where it is wanted, `load`: what that is used for."""

    value: ast.Name
    device: str
    load: ast.Call


def unmoved(flow: Flow) -> Iterator[Unmoved]:
    """`load_state_dict` copies to where the model is, so the place of a checkpoint moves nothing."""
    source = flow.source
    if ARGUMENT not in source.text or "load_state_dict(" not in source.text:
        return
    for function in source.definitions:
        if not isinstance(function, _FUNCTIONS):
            continue
        arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        for argument in arguments:
            if DEVICE.match(argument.arg):
                found = _in(flow, function, argument.arg)
                if found is not None:
                    yield found


def _in(flow: Flow, function: FunctionNode, device: str) -> Unmoved | None:
    source, returned, loads = flow.source, [], []
    for node in source.walk(function):
        if isinstance(node, ast.Return):
            returned.append(node.value)
        elif isinstance(node, ast.Name) and node.id == device:
            around = source.parents[node]
            call = source.parents.get(around)
            if (
                not isinstance(around, ast.keyword)
                or around.arg != ARGUMENT
                or not isinstance(call, ast.Call)
            ):
                return None  # it is used for something else as well
            loads.append(call)
    value = returned[-1] if len(returned) == 1 else None
    if not isinstance(value, ast.Name) or not loads or function_around(source, value) is not function:
        return None
    made = flow.once(Bindings).within(function, value.id)
    if not made or any(b.parameter or not isinstance(b.value, ast.Call) for b in made):
        return None
    names = [path_of(b.value.func).rpartition(".")[2] for b in made if isinstance(b.value, ast.Call)]
    if not all(name[:1].isupper() for name in names):
        return None  # what a function gives may be anywhere
    if _STATEFUL.search(f"{value.id} {' '.join(names)}"):
        return None
    restored = False
    for node in source.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if path_of(node.func.value) == value.id:
                if node.func.attr in ("to", "cuda", "cpu", "share_memory", "half"):
                    return None
                restored = restored or node.func.attr == "load_state_dict"
    return Unmoved(value, device, loads[0]) if restored else None
