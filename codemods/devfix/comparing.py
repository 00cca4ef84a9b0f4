"""What the device of a moved module can be compared with: something that is equal where the move worked."""

from __future__ import annotations

import ast

from devfix.engine.files import Class
from devfix.engine.values import MODULE
from devfix.flow import Flow
from devfix.flow.events import Event
from devfix.flow.lattice import Kind, Value
from devfix.placing import rebound, steady

_DEEPEST = 6  # parts of parts


def device_after(flow: Flow, move: Event, anchor: ast.stmt) -> str:
    """What the device of a parameter is compared with; empty where that cannot be written there."""
    source, node = flow.source, move.node
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    given: list[ast.expr] = [k.value for k in node.keywords if k.arg == "device"] or node.args[:1]
    if not given:
        return "" if node.func.attr == "to" else f'torch.empty(0, device="{node.func.attr}").device'
    argument = given[0]
    if node.func.attr != "to" and not (
        isinstance(argument, ast.Constant) and isinstance(argument.value, int)
    ):
        return ""  # `.cuda(index)`
    if isinstance(argument, ast.Starred) or not steady(source, argument):
        return ""
    if rebound(source, [argument], move.statement, anchor):
        return ""
    text = source.code(argument) if "\n" not in source.code(argument) else ast.unparse(argument)
    value = flow.value(argument)
    if value.kind in (Kind.TENSOR, Kind.BATCH):
        return ""  # `module.to(tensor)`
    if isinstance(argument, ast.Attribute) and argument.attr == "device":
        if flow.value(argument.value).kind is Kind.TENSOR:
            return text
    return text if _is_exact(argument, value) else f"torch.empty(0, device={text}).device"


def _is_exact(argument: ast.expr, value: Value) -> bool:
    """Is a value surely a torch.device that a tensor's device can be equal to?"""
    if value.kind is not Kind.DEVICE or value.form != "object":
        return False
    if value.parameter >= 0 or isinstance(argument, ast.Attribute):
        return False  # callers out of sight may give, or set, another one
    made = value.node
    if not isinstance(made, ast.Call) or made.keywords or not made.args:
        return False
    if len(made.args) == 2:
        return True
    return _names_one(made.args[0])


def _names_one(node: ast.expr) -> bool:
    """Does a string name one device: `"cpu"`, or with an index?"""
    if isinstance(node, ast.IfExp):
        return _names_one(node.body) and _names_one(node.orelse)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value == "cpu" or node.value.partition(":")[2].isdigit()
    return False


def has_parameters(flow: Flow, module: Value) -> bool:
    """Does a module surely have parameters?"""
    if module.bare or not module.sure or not isinstance(module.node, ast.Call):
        return False
    if module.name == "torch.nn.Sequential":
        return any(has_parameters(flow, flow.value(argument)) for argument in module.node.args)
    owner = flow.facts().file.classes.get(module.name)
    if owner is not None:
        return _makes_parameters(flow, owner, 0)
    return _is_layer(module.name)


def _makes_parameters(flow: Flow, owner: Class, depth: int) -> bool:
    """Does a class of this file make parameters of its own, or parts that do?"""
    classes = flow.facts().classes
    for _, part in classes.state(owner).attributes(classes.cell(owner)):
        made = part.links[0].name if part.links else ""
        inner = part.bound.ref if part.bound is not None else None
        if part.role == "parameter" or (part.kind == MODULE and _is_layer(made) and not part.role):
            return True
        if part.kind == MODULE and isinstance(inner, Class) and depth < _DEEPEST:
            if _makes_parameters(flow, inner, depth + 1):
                return True
    return False


def _is_layer(name: str) -> bool:
    """Is it a layer of torch that surely has parameters?"""
    return name.startswith("torch.nn.") and not name.endswith(("List", "Dict", "Loss", "Sequential"))
