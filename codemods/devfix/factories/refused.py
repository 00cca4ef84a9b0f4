"""Calls that raise as they are: an old constructor that is told a device, memory pinned where there is no CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.factories.edits import of_device
from devfix.factories.operations import names_device
from devfix.factories.owners import FUNCTIONS
from devfix.factories.said import Said
from devfix.findings import ReplaceExpression, Safety, SetArgument
from devfix.flow import torch_api
from devfix.flow.frame import path_of
from devfix.placing import about_devices
from devfix.source import Source

_CPU = frozenset({"'cpu'", "torch.device('cpu')", "None"})


def refused(source: Source) -> Iterator[Said]:
    """The calls of a file that torch refuses on an accelerator."""
    if "Tensor(" not in source.text and "pin_memory=True" not in source.text:
        return
    for call in source.calls:
        if (pinned := _pinned(source, call)) is not None:
            yield pinned
        told = next((k.value for k in call.keywords if k.arg == "device"), None)
        if told is None or ast.unparse(told) in _CPU:
            continue
        name = source.qualified(call.func)
        if name not in torch_api.LEGACY or any(k.arg != "device" for k in call.keywords):
            continue
        device = source.code(told)
        if _on_cpu(source, call, device):
            continue
        modern = of_device(source, call, name, device)
        if modern is None:
            given = ", ".join(source.code(argument) for argument in call.args)
            modern = f"{source.code(call.func)}({given}).to({device})"
        last = name.rpartition(".")[2]
        yield Said(
            call,
            f"`torch.{last}` accepts only a CPU `device`: an accelerator raises RuntimeError",
            f"make it on `{device}` in another way",
            (ReplaceExpression(source.span(call), modern),),
            Safety.SAFE if device.endswith(".device") else Safety.UNSAFE,  # a name may be None
        )


def _pinned(source: Source, call: ast.Call) -> Said | None:
    """`torch.tensor(x, pin_memory=True)` in a function that goes to whatever device it is told."""
    pin = next((k.value for k in call.keywords if k.arg == "pin_memory"), None)
    if not isinstance(pin, ast.Constant) or pin.value is not True:
        return None
    name, scope = source.qualified(call.func), source.enclosing(call, *FUNCTIONS)
    if name not in torch_api.FACTORIES or not isinstance(scope, FUNCTIONS) or _on_cpu(source, call, ""):
        return None
    if not any(_goes(source, one) for one in source.walk(scope)):
        return None
    torch = source.code(call.func).rpartition(".")[0] or "torch"
    return Said(
        call,
        f"`{name}(pin_memory=True)` raises where there is no CUDA",
        "pin memory where there is CUDA",
        (SetArgument(source.span(call), "pin_memory", f"{torch}.cuda.is_available()"),),
        Safety.UNSAFE,
    )


def _goes(source: Source, node: ast.AST) -> bool:
    """`x.to(device)`, with a device that is not written there."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "to":
        return False
    told = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "device")]
    return any(names_device(path_of(one)) for one in told)


def _on_cpu(source: Source, call: ast.Call, device: str) -> bool:
    """Is the device that of the CPU, or does a condition about devices decide whether the call runs?"""
    bound = rf"(?<![\w.]){re.escape(device)}[ \t]*=[ \t]*(?:torch\.device\()?[\"']cpu"
    if device and "cuda" not in source.text and re.search(bound, source.text):
        return True
    up = source.parents.get(call)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(up, (ast.If, ast.IfExp)) and about_devices(up.test):
            return True
        up = source.parents.get(up)
    return False
