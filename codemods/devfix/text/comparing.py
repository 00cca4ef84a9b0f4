"""What the device of a moved module can be compared with: something that is equal where the move worked."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.events import ATTACHED, MOVED, Event
from devfix.engine.files import Class
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.values import MODULE, Value
from devfix.flow import Flow
from devfix.flow.values import Kind
from devfix.models.loader import models
from devfix.text.bindings import bound as bound_at
from devfix.text.placing import rebound, steady


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
    if flow.value(argument).kind in (Kind.TENSOR, Kind.BATCH):
        return ""  # `module.to(tensor)`
    text = source.code(argument) if "\n" not in source.code(argument) else ast.unparse(argument)
    if isinstance(argument, ast.Attribute) and argument.attr == "device":
        if flow.value(argument.value).kind is Kind.TENSOR:
            return text
    return text if _is_exact(flow, argument) else f"torch.empty(0, device={text}).device"


def _is_exact(flow: Flow, argument: ast.expr) -> bool:
    """Is a name surely bound to a torch.device that a tensor's device can be equal to?"""
    bound = bound_at(flow.source, argument.id, argument) if isinstance(argument, ast.Name) else []
    if len(bound) != 1 or bound[0].parameter:  # callers out of sight may give another one
        return False
    made = bound[0].value
    if not isinstance(made, ast.Call) or flow.source.qualified(made.func) != "torch.device" or made.keywords:
        return False
    return len(made.args) == 2 or (len(made.args) == 1 and _names_one(made.args[0]))


def _names_one(node: ast.expr) -> bool:
    """Does a string name one device: `"cpu"`, or with an index?"""
    if isinstance(node, ast.IfExp):
        return _names_one(node.body) and _names_one(node.orelse)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value == "cpu" or node.value.partition(":")[2].isdigit()
    return False


def has_parameters(analysis: Analysis, module: Value) -> bool:
    """Does a module surely have parameters?"""
    made = analysis.made.get(module.ref, module)
    if module.kind != MODULE or module.assumed or made.assumed or not made.links or made.role in ANYWHERE:
        return False
    owner = made.bound.ref if made.bound is not None else None
    if isinstance(owner, Class):
        init = owner.method("__init__")
        log = analysis.histories.get(init, {}).values() if init is not None else ()
        stays = any(event.what == ATTACHED and event.stays for event in log)
        return stays and all(event.what != MOVED for event in log)
    every = [analysis.made.get(part) for part, whole in analysis.part_of.items() if whole == made.ref]
    kind = models().layer(made.links[0].name)
    if kind == "container":
        return any(has_parameters(analysis, one) for one in every if one is not None)
    return not kind and made.links[0].name.startswith("torch.nn.")
