"""Constructors of other libraries whose `device=` is left out where the program names its device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.findings import Finding, SetArgument, told
from devfix.flow import Flow
from devfix.models.loader import models
from devfix.repair.in_scope import device_for
from devfix.text.bindings import bound, function_around
from devfix.text.names import path_of
from devfix.text.source import Source

_DONE = {
    "cpu": "stays on the CPU",
    "cuda": "goes to CUDA, and raises where there is none",
    "auto": "chooses a device itself",
}
_CUDA = re.compile(r"(?:torch\.device\()?'cuda(?::0)?'\)?")
_CHOICE = re.compile(r"(?:args|opts?|cfg|config|params|hparams|flags)\.", re.IGNORECASE)
# `"cuda:1"`, `f"cuda:{gpu}"`, `torch.device("cuda", 1)`, `torch.device(args.device)`; one arm may be the CPU.
_NUMBERED = re.compile(rf"'cuda:(?!0')|device\('cuda', |(?:^|device\(|else ){_CHOICE.pattern}", re.IGNORECASE)


def left_out(flow: Flow) -> Iterator[Finding]:
    """Calls of the table without a device, where another device than their default is in scope."""
    source, analysis = flow.source, flow.facts()
    for call, seen in sorted(
        analysis.loaded.takers.items(), key=lambda one: (one[0].lineno, one[0].col_offset)
    ):
        parameter, default = models().takers[source.qualified(call.func)]
        if any(keyword.arg in (parameter, None) for keyword in call.keywords):
            continue
        if any(isinstance(argument, ast.Starred) for argument in call.args) or _by_position(call):
            continue
        device = device_for(analysis, call, *seen)
        if not device or not _differs(source, call, device, default) or _moved(source, call):
            continue
        yield told(
            "default-device",
            source.span(call),
            f"`{source.code(call.func)}` without `{parameter}` {_DONE[default]}, whatever `{device}` says",
            f"pass `{parameter}={device}`",
            (SetArgument(source.span(call), parameter, device),),
            assumes=f"its result belongs on `{device}`",
        )


def _by_position(call: ast.Call) -> bool:
    """Is one of the plain arguments the device? Then it looks like one."""
    return any(
        path_of(one).lower().rpartition(".")[2] in ("device", "dev")
        or (isinstance(one, ast.Constant) and str(one.value).partition(":")[0] in ("cpu", "cuda", "mps"))
        for one in call.args
    )


def _differs(source: Source, call: ast.Call, device: str, default: str) -> bool:
    """May the device be another one than the default? For "auto", only one that is chosen by number or name."""
    values = [ast.unparse(one.value) for one in bound(source, device, call) if one.value is not None]
    if default == "cpu" or _CHOICE.match(device):
        return True
    if default == "cuda":
        return not values or not all(map(_CUDA.fullmatch, values))
    return bool(values) and all(map(_NUMBERED.search, values))


def _moved(source: Source, call: ast.Call) -> bool:
    """Is what it makes moved by the code: in the same expression, or by a name later?"""
    parent = source.parents[call]
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("to", "cuda", "eval", "half", "cpu")
    if not isinstance(parent, ast.Assign):
        return isinstance(parent, (ast.Call, ast.Return, ast.keyword, ast.Tuple))
    paths = [
        path_of(one)
        for target in parent.targets
        for one in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]
    function = function_around(source, call)
    text = source.text if function is None or any("." in path for path in paths) else source.code(function)
    return any(
        path and re.search(rf"(?<![\w.]){re.escape(path)}(?:\.\w+\(\))*\s*\.\s*(?:to|cuda)\(", text)
        for path in paths
    )
