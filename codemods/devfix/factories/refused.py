"""Calls that raise as they are: an old constructor that is told a device, memory pinned where there is no CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.factories.edits import of_device
from devfix.findings import Edit, ReplaceExpression, Safety
from devfix.flow import torch_api
from devfix.placing import about_devices
from devfix.source import Source

_CPU = frozenset({"'cpu'", "torch.device('cpu')", "None"})


@dataclass(frozen=True)
class Refused:
    """A call that raises where it stands, and what would run."""

    call: ast.Call
    message: str
    title: str
    edits: tuple[Edit, ...]
    safety: Safety


def refused(source: Source) -> Iterator[Refused]:
    """The calls of a file that torch refuses on an accelerator."""
    if "Tensor(" not in source.text:
        return
    for call in source.calls:
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
        yield Refused(
            call,
            f"`torch.{last}` takes the device of the CPU only: that of an accelerator raises",
            f"make it on `{device}` in another way",
            (ReplaceExpression(source.span(call), modern),),
            Safety.SAFE if device.endswith(".device") else Safety.UNSAFE,  # a name may be None
        )


def _on_cpu(source: Source, call: ast.Call, device: str) -> bool:
    """Is the device that of the CPU, or does a condition about devices decide whether the call runs?"""
    bound = rf"(?<![\w.]){re.escape(device)}[ \t]*=[ \t]*(?:torch\.device\()?[\"']cpu"
    if "cuda" not in source.text and re.search(bound, source.text):
        return True
    up = source.parents.get(call)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(up, (ast.If, ast.IfExp)) and about_devices(up.test):
            return True
        up = source.parents.get(up)
    return False
