"""Networks that a function makes for each call, and runs on the tensors that it is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.findings import AppendCall
from devfix.flow import Flow
from devfix.flow.evidence import annotated_kind
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Where
from devfix.flow.methods import MOVES
from devfix.placing import dotted
from devfix.source import Source
from devfix.unmoved.others import Left
from devfix.unmoved.uses import Use, reads, use_of
from devfix.unmoved.weights import weighted

# Functions that prepare data, or are run once by hand: the CPU is right there.
_HOST = re.compile(
    r"load|read|preproc|prepare|collate|transform|main|test|setup|convert|export|save|plot|demo|example|dataset|"
    r"augment|__|build|make|create|mel|extract|init",
    re.IGNORECASE,
)
_LIBRARIES = ("torchaudio.transforms.", "lpips.", "torchmetrics.", "pytorch_msssim.")
_MADE = re.compile(r"\b(?:Resample|MelSpectrogram|Spectrogram|LPIPS|MFCC|MelScale|nn\.Module)\b")
_NO_TENSOR = frozenset({"numpy", "size", "dim", "tolist", "item", "cpu", "shape", "device", "dtype"})


def made_in_function(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """`net = Net()`; `net(x)` with a tensor that a function of a library is given: the net goes where `x` is."""
    source = flow.source
    if not _MADE.search(source.text):
        return
    classes = {one.name: one for one in source.definitions if isinstance(one, ast.ClassDef)}
    hosts = {scope.node for scope in flow.scopes if scope.host or scope.owned}
    for call in source.calls:
        known = flow.value(call)  # unknown in a function that says nothing of devices: it is not interpreted
        placed = known.kind is not Kind.MODULE or known.place.where is not Where.DEFAULT
        if known.bare or (placed and known.kind is not Kind.UNKNOWN) or "device" in source.code(call):
            continue
        function = function_around(source, call)
        if function is None or function in hosts or _HOST.search(function.name):
            continue
        name = source.qualified(call.func) or path_of(call.func)
        if not (_network(source, classes, name) or name.startswith(_LIBRARIES)) or not weighted(flow, call):
            continue
        tensors = _tensors(source, function)
        if not tensors or not (name in classes or _minds(source, function)):
            continue
        run, tensor = _run(flow, bindings(), call, function, tensors)
        if run is None or not tensor:
            continue
        suffix = f".to({tensor}.device)"
        last = name.rpartition(".")[2]
        why = f"`{last}` is made on the CPU in each call, but is run on `{tensor}`, which may be on another device"
        yield Left(call, last, why, run, suffix, (AppendCall(source.span(call), suffix),))


def _network(source: Source, classes: dict[str, ast.ClassDef], name: str) -> bool:
    """Is it a class of the file that says nothing of devices?"""
    owner = classes.get(name)
    if owner is None or not owner.bases:
        return False
    return re.search(r"device|\.to\(|\.cuda\(", source.code(owner)) is None


def _minds(source: Source, function: FunctionNode) -> bool:
    """Is it a loss or a metric, or does it ask where its tensors are: not one of those that prepare data?"""
    code = source.code(function)
    return re.search(r"loss|metric|score|similarity", function.name) is not None or ".device" in code


def _tensors(source: Source, function: FunctionNode) -> list[str]:
    """The parameters that are tensors, by their annotation, the docstring or torch's functions."""
    code = source.code(function)
    found = []
    for one in (*function.args.posonlyargs, *function.args.args):
        told = annotated_kind(one.annotation) == "tensor" or re.search(
            rf"(?m)^[ \t]*{one.arg}\s*(?::|\()\s*(?::\s*)?(?:torch\.)?Tensor\b|\btorch\.[a-z]\w+\({one.arg}\b",
            code,
        )
        if told and one.arg != "self":
            found.append(one.arg)
    return found


def _run(
    flow: Flow, bindings: Bindings, made: ast.Call, function: FunctionNode, tensors: list[str]
) -> tuple[ast.Call | None, str]:
    """The call that runs the network, and the parameter that it is run on; no call if it may be moved."""
    source = flow.source
    up = source.parents[made]
    if isinstance(up, ast.Call) and up.func is made:
        return up, _root(bindings, up, function, tensors)
    if not isinstance(up, ast.Assign) or len(up.targets) != 1 or not isinstance(up.targets[0], ast.Name):
        return None, ""
    name = up.targets[0].id
    if len(bindings.within(function, name)) != 1 or f"{name}.weight" in source.code(function):
        return None, ""
    found: ast.Call | None = None
    tensor = ""
    for read in sorted(reads(flow, bindings, name, function), key=lambda one: (one.lineno, one.col_offset)):
        if use_of(flow, bindings, read, len(source.text)) is not Use.PLAIN:
            return None, ""
        call = source.parents[read]
        if not isinstance(call, ast.Call) or found is not None:
            continue
        if call.func is read or _runs_it(source, call, read):
            tensor = _root(bindings, call, function, tensors)
            found = call if tensor else None
    return found, tensor


def _runs_it(source: Source, call: ast.Call, read: ast.expr) -> bool:
    """Is the network handed to a function of the file that calls it?"""
    name = dotted(call.func)
    callee = next((d for d in source.definitions if d.name == name and not isinstance(d, ast.ClassDef)), None)
    if callee is None or isinstance(callee, ast.ClassDef) or read not in call.args:
        return False
    given = [one.arg for one in (*callee.args.posonlyargs, *callee.args.args)]
    at = call.args.index(read)
    return at < len(given) and re.search(rf"(?<![\w.]){given[at]}\(", source.code(callee)) is not None


def _root(bindings: Bindings, call: ast.Call, function: FunctionNode, tensors: list[str]) -> str:
    """The tensor parameter that an argument is, or a part of."""
    for argument in call.args:
        node, steps = argument, 0
        while steps < 8:
            steps += 1
            if isinstance(node, ast.Name):
                if node.id in tensors:
                    return node.id
                values = [one.value for one in bindings.within(function, node.id)]
                value = values[0] if values else None
                if value is None or isinstance(value, ast.Name):
                    break
                node = value
            elif isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in MOVES or node.func.attr in _NO_TENSOR:
                    break
                node = node.func.value
            else:
                break
    return ""
