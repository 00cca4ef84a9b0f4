"""Of what an input is made: is all of that on the CPU, or is a part of it moved, or unknown?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.flow import Flow
from devfix.flow.events import Event, Meeting
from devfix.flow.lattice import CARRIERS, Kind, Where
from devfix.placing import dotted, stores

_NUMBERS = frozenset({"float", "int", "len", "max", "min", "sum", "abs", "round"})
_MATH = ("math.", "numpy.")


def made(flow: Flow, scope: ast.AST, node: ast.expr) -> list[ast.expr]:
    """What makes it: itself, or what its name is bound to in this function."""
    if not isinstance(node, ast.Name):
        return [node]
    statements = [flow.source.statement(one) for one in stores(flow.source, scope, node.id)]
    return [
        one.value
        for one in statements
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    ]


def all_here(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """Is nothing that an input is made of unknown: no operand, and no tensor of the dataset of a loader?"""
    scope = event.scope.node
    for one in made(flow, scope, meeting.node):
        if isinstance(one, ast.BinOp) and not all(_here(flow, scope, part) for part in _operands(one)):
            return False
    return all(_on_cpu(flow, part) for part in _of_dataset(flow, event, meeting))


def made_of_moved(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """Does the text show that it is on the device after all?

    A tensor there and an element of one on the CPU, `noisy = x + randn_like(x) * sigmas[t]`, give one there,
    since an element is a number; and batches of a `TensorDataset` are where its tensors are.
    """
    scope = event.scope.node
    for one in made(flow, scope, meeting.node):
        if isinstance(one, ast.BinOp):
            parts = list(_operands(one))
            here = [part for part in parts if _on_cpu(flow, part)]
            if here and all(map(_is_element, here)) and any(_moved(flow, scope, part) for part in parts):
                return True
    tensors = _of_dataset(flow, event, meeting)
    return bool(tensors) and all(not _on_cpu(flow, part) and _moved(flow, scope, part) for part in tensors)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from _operands(node.left)
        yield from _operands(node.right)
    elif isinstance(node, ast.UnaryOp):
        yield from _operands(node.operand)
    else:
        yield node


def _on_cpu(flow: Flow, node: ast.expr) -> bool:
    value = flow.value(node)
    return value.kind in CARRIERS and value.place.where in (Where.DEFAULT, Where.CPU)


def _here(flow: Flow, scope: ast.AST, node: ast.expr) -> bool:
    """Is an operand a number, or on the CPU?"""
    if isinstance(node, ast.Constant) or _on_cpu(flow, node) or flow.value(node).kind is Kind.ARRAY:
        return True
    if isinstance(node, ast.Call):
        name = flow.source.qualified(node.func) or dotted(node.func)
        return name in _NUMBERS or name.startswith(_MATH)
    if isinstance(node, ast.Name):
        bound = made(flow, scope, node)
        return bool(bound) and all(isinstance(one, ast.Constant) for one in bound)
    return False


def _is_element(node: ast.expr) -> bool:
    """`sigmas[t]`: of a series of numbers it is one."""
    return isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple))


def _moved(flow: Flow, scope: ast.AST, node: ast.expr) -> bool:
    """Is it on a device, told one where it is made, or made of what is: `x = self.normalize(x)`?"""
    if flow.value(node).place.on_device:
        return True
    if isinstance(node, ast.Call) and not _told(node):
        inner = [*node.args, node.func.value] if isinstance(node.func, ast.Attribute) else node.args
        return any(_moved(flow, scope, one) for one in inner if isinstance(one, ast.Name))
    return any(isinstance(one, ast.Call) and _told(one) for one in made(flow, scope, node))


def _told(call: ast.Call) -> bool:
    """`load(name, device=device)`, `x.to(device).view(-1)`"""
    node: ast.expr = call
    while isinstance(node, ast.Call):
        func = node.func
        device = next((word.value for word in node.keywords if word.arg == "device"), None)
        if device is None and isinstance(func, ast.Attribute) and func.attr in ("to", "cuda"):
            device = node.args[0] if node.args else func
        if device is not None and "cpu" not in ast.unparse(device) and "dtype" not in ast.unparse(device):
            return True
        if not isinstance(func, ast.Attribute):
            return False
        node = func.value
    return False


def _of_dataset(flow: Flow, event: Event, meeting: Meeting) -> list[ast.expr]:
    """The tensors of the `TensorDataset` of the loader that a batch is of."""
    loader, scope = meeting.value.node, event.scope.node
    if not isinstance(loader, ast.Call) or "batch from" not in meeting.value.source:
        return []
    given = [word.value for word in loader.keywords if word.arg == "dataset"] or loader.args[:1]
    found: list[ast.expr] = []
    for one in (part for node in given for part in made(flow, scope, node)):
        if isinstance(one, ast.Call) and flow.source.qualified(one.func) == "torch.utils.data.TensorDataset":
            found += [part for part in one.args if not isinstance(part, ast.Starred)]
    return found
