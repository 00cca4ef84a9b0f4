"""Calls that raise as they are, and what a guard about devices has made again: on the CPU.

An old constructor that is told a device, memory pinned where there may be no CUDA, and
`if self.mask.device != x.device: self.mask = fill(torch.zeros(n, n))`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices, is_device_name, is_module_name
from devfix.engine.files import Class
from devfix.findings import (
    AppendCall,
    Edit,
    Finding,
    InsertStatement,
    ReplaceExpression,
    SetArgument,
    told,
)
from devfix.models.loader import models
from devfix.repair import legacy
from devfix.text.placing import about_devices as asks_for_devices
from devfix.text.placing import dotted
from devfix.text.source import FUNCTIONS, Source, walk

CODEMOD = "place-factory"
_CPU = frozenset({"'cpu'", "torch.device('cpu')", "None"})
_ASKED = re.compile(r"\.device\)?\s*(?:!=|==)")
# What takes the device of another tensor, or moves.
_FOLLOWS = re.compile(r"device|cuda|\.to\(|_like\(|\.new_|type_as\(|\.npu\(|\.xpu\(|out=")


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    if CODEMOD not in wanted:
        return
    told: list[tuple[ast.AST, Finding]] = []
    if "Tensor(" in source.text or "pin_memory=True" in source.text:
        told += [
            (call, one)
            for call in source.calls
            for one in (*_legacy(analysis, call), *_pinned(analysis, call))
        ]
    if _ASKED.search(source.text):
        told += _rebuilt(analysis)
    told += _probes(analysis)
    for node, finding in told:
        yield finding, {source.position(source.span(node).start)[0]}


def _finding(source: Source, node: ast.AST, message: str, title: str, edit: Edit, unless: str) -> Finding:
    return told(CODEMOD, source.span(node), message, title, (edit,), assumes=unless)


def _legacy(analysis: Analysis, call: ast.Call) -> Iterator[Finding]:
    """`torch.LongTensor([1, 2], device=device)`, and of a class that derives from `torch.Tensor`."""
    source = analysis.file.source
    told = next((one.value for one in call.keywords if one.arg == "device"), None)
    if (
        told is None
        or ast.unparse(told) in _CPU
        or any(one.arg not in ("device", "size") for one in call.keywords)
    ):
        return
    name, device = analysis.file.dotted(call.func), source.code(told)
    row = models().function(name)
    if not (row is not None and row.form == "legacy") and not _is_tensor_class(analysis, call.func):
        return
    if _is_on_cpu(source, call, device):
        return
    given = [
        one
        for one in (*call.args, *call.keywords)
        if not (isinstance(one, ast.keyword) and one.value is told)
    ]
    modern = (
        legacy.on_device(source, call, name, device) if row is not None and len(call.keywords) == 1 else None
    )
    if modern is None:
        arguments = ", ".join(source.code(one) for one in given)
        modern = f"{source.code(call.func)}({arguments}).to({device})"
    yield _finding(
        source,
        call,
        f"`{source.code(call.func) if row is None else name}` accepts only a CPU `device`: "
        "an accelerator raises RuntimeError",
        f"make it on `{device}` in another way",
        ReplaceExpression(source.span(call), modern),
        "" if device.endswith(".device") else f"`{device}` is not None",
    )


def _is_tensor_class(analysis: Analysis, func: ast.expr) -> bool:
    """Is it a class of tensors, with the constructor of `torch.Tensor`?"""
    made = analysis.file.definition(func)
    if not isinstance(made, Class) or {"__new__", "__init__"} & made.methods.keys():
        return False
    return "torch.Tensor" in made.outside


def _pinned(analysis: Analysis, call: ast.Call) -> Iterator[Finding]:
    """`torch.tensor(x, pin_memory=True)` in a function that goes to whatever device it is told."""
    source = analysis.file.source
    pin = next((one.value for one in call.keywords if one.arg == "pin_memory"), None)
    scope = source.enclosing(call, *FUNCTIONS)
    if (
        not isinstance(pin, ast.Constant)
        or pin.value is not True
        or scope is None
        or _is_on_cpu(source, call, "")
    ):
        return
    name = analysis.file.dotted(call.func)
    row = models().function(name)
    if row is None or row.form not in ("make", "data"):
        return
    if any(_goes(one) for one in source.of_kind(ast.Call, scope)):
        torch = source.code(call.func).rpartition(".")[0] or "torch"
        edit = SetArgument(source.span(call), "pin_memory", f"{torch}.cuda.is_available()")
        message = f"`{name}(pin_memory=True)` raises where there is no CUDA"
        yield _finding(source, call, message, "pin memory where there is CUDA", edit, "only CUDA needs it")


def _goes(call: ast.Call) -> bool:
    """`x.to(device)`, with a device that is not written there."""
    told = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "device")]
    to = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    return to and any(is_device_name(dotted(one).rpartition(".")[2]) for one in told)


def _is_on_cpu(source: Source, call: ast.Call, device: str) -> bool:
    """Is the device that of the CPU, or does a condition about devices decide whether the call runs?"""
    bound = rf"^[ \t]*{re.escape(device)}[ \t]*=[ \t]*(?:torch\.device\()?[\"']cpu[\"']\)?[ \t]*(?:#|$)"
    if device and "cuda" not in source.text and re.search(bound, source.text, re.MULTILINE):
        return True
    return any(
        isinstance(up, (ast.If, ast.IfExp)) and asks_for_devices(up.test) for up in source.ancestors(call)
    )


def _rebuilt(analysis: Analysis) -> Iterator[tuple[ast.AST, Finding]]:
    """What is made on the CPU under the condition that it is not where another tensor is."""
    source = analysis.file.source
    for node in source.of_kind(ast.If):
        wanted = dict(_wanted(source, node.test))
        block = source.block(node) if wanted else []
        below = [source.code(one) for one in block[block.index(node) + 1 :]] if wanted else []
        for statement in node.body if wanted else ():
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            path = dotted(statement.targets[0])
            device = wanted.get(path)
            if device is None or any(_FOLLOWS.search(source.code(one)) for one in node.body):
                continue
            if any(f"{path}{move}" in one for one in below for move in (".to(", ".cuda(", ".type_as(")):
                continue
            if not _takes_sizes_only(source, statement.value, device.partition(".")[0]):
                continue  # it may go where that is
            made = next(
                (one for one in source.of_kind(ast.Call, statement.value) if _is_made(analysis, one)), None
            )
            if made is not None:
                message = (
                    f"{quoted(source, made)} is on the CPU, though made because `{path}` is not on `{device}`"
                )
                edit = AppendCall(source.span(statement.value), f".to({device})")
                title, unless = f"move it to `{device}`", "nothing moves it there later"
                yield made, _finding(source, made, message, title, edit, unless)


def _probes(analysis: Analysis) -> Iterator[tuple[ast.AST, Finding]]:
    """A module built around another one runs itself, in its constructor, on what it makes on the CPU."""
    source = analysis.file.source
    for owner in analysis.file.all_classes:
        init = owner.methods.get("__init__") if analysis.class_kind(owner) == "module" else None
        given = [one.arg for one in init.parameters if is_module_name(one.arg)] if init is not None else []
        if init is None or len(given) != 1 or about_devices(source.code(init.node)):
            continue
        device = f"next({given[0]}.parameters()).device"
        for call in source.of_kind(ast.Call, init.node):
            made = [one for one in call.args if isinstance(one, ast.Call) and _is_made(analysis, one)]
            if source.code(call.func) not in ("self", "self.forward"):
                continue
            for one in made if all(len(one.args) > 1 and not one.keywords for one in made) else ():
                edits = (
                    SetArgument(source.span(one), "device", device),
                    InsertStatement(source.span(source.statement(call)), f"self.to({device})", before=True),
                )
                message = f"{quoted(source, one)} is on the CPU, but `{given[0]}`, which is run on it, may be elsewhere"
                title, assumes = f"make it on `{device}`", f"`{given[0]}` has parameters"
                yield one, told(CODEMOD, source.span(one), message, title, edits, assumes=assumes)


def _wanted(source: Source, test: ast.expr) -> Iterator[tuple[str, str]]:
    """Paths, and the devices that a condition finds them not to be on."""
    for node in source.of_kind(ast.Compare, test):
        up = source.parents.get(node)
        turned = isinstance(up, ast.UnaryOp) and isinstance(up.op, ast.Not)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq if turned else ast.NotEq):
            continue
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Attribute) and left.attr == "device" and dotted(right).endswith("device"):
            yield dotted(left.value), source.code(right)
            if isinstance(right, ast.Attribute):
                yield dotted(right.value), source.code(left)


def _takes_sizes_only(source: Source, value: ast.expr, root: str) -> bool:
    """Is nothing read of a tensor of that name but its size?"""
    return root == "self" or all(
        isinstance(up := source.parents.get(node), ast.Attribute)
        and up.attr in ("shape", "size", "ndim", "dtype")
        for node in (value, *walk(value))
        if isinstance(node, ast.Name) and node.id == root
    )


def _is_made(analysis: Analysis, call: ast.Call) -> bool:
    return models().makes(analysis.file.dotted(call.func))
