"""Layers that a method makes anew, fills with the old layer's weights, and puts in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.findings import AppendCall, Edit, InsertStatement, Safety
from devfix.flow import Flow, torch_api
from devfix.placing import dotted
from devfix.source import Source, walk
from devfix.surgery.late import Late

_LAYERS = ("Linear", "Conv", "Embedding", "BatchNorm", "LayerNorm", "EmbeddingBag")
_DEVICE = re.compile(r"device|\.cuda\(|\.cpu\(|_like\(|torch\.no_init|deepcopy")
_WEIGHT = re.compile(r"(?<![\w.])((?:\w+\.)*\w+)\.(?:weight|bias)\b")


def regrown(flow: Flow) -> Iterator[Late]:
    """`new = nn.Linear(..)`; `new.weight.data[:n] = self.head.weight.data`; `self.head = new` in a method."""
    source = flow.source
    if ".weight" not in source.text:
        return
    for function in source.definitions:
        if not isinstance(function, ast.FunctionDef) or not isinstance(
            source.parents[function], ast.ClassDef
        ):
            continue
        code = source.code(function)
        if function.name.startswith("__") or ".weight" not in code or _DEVICE.search(code):
            continue
        if not _only_at_first(source, function):
            yield from _in_method(source, function)


def _only_at_first(source: Source, method: ast.FunctionDef) -> bool:
    """Is the method called as its class is made, before anybody could have moved it?"""
    owner = source.parents[method]
    assert isinstance(owner, ast.ClassDef)
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == "__init__"
        and f"self.{method.name}(" in source.code(node)
        for node in owner.body
    )


def _in_method(source: Source, method: ast.FunctionDef) -> Iterator[Late]:
    given = {one.arg for one in (*method.args.posonlyargs, *method.args.args)}
    assigned: dict[str, list[ast.Assign]] = {}
    for node in walk(method):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            assigned.setdefault(dotted(node.targets[0]), []).append(node)
    for name, stores in assigned.items():
        made = stores[0].value
        if "." in name or not name or len(stores) != 1 or not _is_layer(source, made):
            continue
        old = _filled_from(source, method, assigned, name)
        if not old or old.partition(".")[0] not in given:
            continue
        where = f"{old}.weight.device"
        place = next((one for one in assigned.get(old, ()) if dotted(one.value) == name), None)
        returned = any(
            isinstance(n, ast.Return) and n.value is not None and dotted(n.value) == name
            for n in walk(method)
        )
        if place is None and not (returned and old in given and "self" in given):
            continue
        edits: tuple[Edit, ...]
        if place is not None:
            edits = (InsertStatement(source.span(place), f"{name}.to({where})", before=True),)
        else:
            edits = (AppendCall(source.span(made), f".to({where})"),)
        yield Late(
            source.span(place if place is not None else made),
            f"`{name}` takes over the weights of `{old}`, but not its device: in a model that was moved it stays on "
            "the CPU",
            f"move it to where `{old}` is",
            edits,
            Safety.UNSAFE,
            (),
        )


def _is_layer(source: Source, made: ast.expr) -> bool:
    if not isinstance(made, ast.Call):
        return False
    name = source.qualified(made.func)
    layer = name.rpartition(".")[2].startswith(_LAYERS)
    return (
        name.startswith("torch.nn.") and name.count(".") == 2 and layer and name not in torch_api.BARE_MODULES
    )


def _filled_from(
    source: Source, method: ast.FunctionDef, assigned: dict[str, list[ast.Assign]], name: str
) -> str:
    """The layer whose weights are written into the new one, also by way of another name; empty if there is none."""
    for node in walk(method):
        value: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
            while isinstance(target, ast.Subscript):
                target = target.value
            if dotted(target) in (f"{name}.weight.data", f"{name}.weight") and target is not node.targets[0]:
                value = node.value
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "copy_"
        ):
            if dotted(node.func.value) in (f"{name}.weight.data", f"{name}.weight") and node.args:
                value = node.args[0]
        if value is None:
            continue
        if isinstance(value, ast.Name) and len(assigned.get(value.id, ())) == 1:
            value = assigned[value.id][0].value
        for found in _WEIGHT.findall(source.code(value)):
            if found != name:
                return str(found)
    return ""
