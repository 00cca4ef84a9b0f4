"""What the device of a moved module can be compared with: something that is equal where the move worked."""

from __future__ import annotations

import ast

from devfix.flow import Flow
from devfix.flow.events import Event, Scope, What
from devfix.flow.lattice import Kind, Value, Where
from devfix.placing import rebound, steady
from devfix.source import Source


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
    if own_parts_stay(flow, module.name, frozenset()):
        return True
    return module.name.startswith("torch.nn.") and not module.name.endswith(("List", "Dict", "Loss"))


def made_on_device(source: Source, scope: Scope, event: Event) -> Event | None:
    """The move of a module that this function makes and moves in one go, if no event tells."""
    move = _earlier_move(source, event)
    home = source.enclosing(move.node, ast.FunctionDef, ast.AsyncFunctionDef) if move is not None else None
    return move if move is not None and (home or source.tree) is scope.node else None


def _earlier_move(source: Source, event: Event) -> Event | None:
    value, place = event.value, event.value.place
    if event.what is What.MOVE or value.kind is not Kind.MODULE or not place.on_device or value.arms:
        return None
    made = place.node
    if not isinstance(made, ast.Call):
        return None
    statement = source.statement(made)
    return Event(What.MOVE, made, statement, event.scope, value, place=place, order=event.order - 1)


def _classes(flow: Flow) -> set[str]:
    return {scope.owner.name for scope in flow.scopes if scope.owner is not None}


def own_parts_stay(flow: Flow, name: str, seen: frozenset[str]) -> bool:
    """Does a class of this file make parts of its own, beside those it is given?"""
    for scope in flow.scopes:
        if scope.owner is None or scope.owner.name != name or scope.name != "__init__" or name in seen:
            continue
        if any(event.what is What.MOVE for event in scope.events):
            return False
        for event in scope.events:
            if event.what is What.ATTACH and event.child is not None and event.place is not None:
                if event.place.where is Where.DEFAULT and not event.child.bare:
                    return True
                if event.child.name in _classes(flow) and own_parts_stay(
                    flow, event.child.name, seen | {name}
                ):
                    return True
    return False
