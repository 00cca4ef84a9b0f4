"""Tensors that take the way over numpy, and come back to the CPU instead of where they were."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.flow import Flow
from devfix.flow.methods import MOVES
from devfix.placing import around, dotted, stores
from devfix.source import Source, walk

Method = ast.FunctionDef | ast.AsyncFunctionDef
_RUN = ("forward", "__call__")


@dataclass(frozen=True)
class Trip:
    """A tensor made of an array in a function that took its input to the host, and returned as it is."""

    made: ast.expr
    taken: ast.expr  # `x.cpu()`
    device: str


def trips(flow: Flow) -> Iterator[Trip]:
    """What a `forward` returns on the CPU after `x.cpu().numpy()`, wherever `x` was."""
    source = flow.source
    if ".cpu()" not in source.text or "from_numpy(" not in source.text:
        return
    for method in source.definitions:
        if isinstance(method, ast.ClassDef) or method.name not in _RUN:
            continue
        owner = source.parents[method]
        if not isinstance(owner, ast.ClassDef) or "device" not in source.code(owner):
            continue
        calls = [node for node in source.walk(method) if isinstance(node, ast.Call)]
        calls.sort(key=lambda call: (call.lineno, call.col_offset))
        taken = next((call for call in calls if _leaves(source, call, method)), None)
        if taken is None or not isinstance(taken.func, ast.Attribute):
            continue
        for call in calls:
            if source.qualified(call.func) == "torch.from_numpy" and call.lineno > taken.lineno:
                made = _returned(source, call, method)
                if made is not None:
                    base = _base(taken.func.value)
                    yield Trip(made, taken, f"{source.code(base)}.device")


def _leaves(source: Source, call: ast.Call, method: Method) -> bool:
    """Is it `x.cpu()`, on the way to an array, of a parameter that keeps its value?"""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "cpu" or call.args:
        return False
    up: ast.AST = source.parents[call]
    names: list[str] = []
    while isinstance(up, (ast.Attribute, ast.Call)) and len(names) < 8:
        if isinstance(up, ast.Attribute):
            names.append(up.attr)
        up = source.parents[up]
    base = _base(func.value)
    while isinstance(base, (ast.Subscript, ast.Attribute)):
        base = base.value
    given = {one.arg for one in walk(method.args) if isinstance(one, ast.arg)} - {"self"}
    return (
        "numpy" in names
        and isinstance(base, ast.Name)
        and base.id in given
        and not stores(source, method, base.id)
    )


def _base(node: ast.expr) -> ast.expr:
    """`x` of `x.detach().float()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def _returned(source: Source, call: ast.Call, method: Method) -> ast.expr | None:
    """The tensor, with the methods called on it, if it is returned and nothing moves it."""
    made: ast.expr = call
    up = source.parents[made]
    while isinstance(up, ast.Attribute):
        if up.attr in MOVES or up.attr == "type_as":
            return None
        outer = source.parents[up]
        if not isinstance(outer, ast.Call) or outer.func is not up:
            return None
        made, up = outer, source.parents[outer]
    while isinstance(up, (ast.List, ast.Tuple)):
        up = source.parents[up]
    rest = source.text[source.span(made).end : source.span(method).end]
    if ".to(" in rest or ".cuda(" in rest or "device" in rest or "type_as" in rest:
        return None
    if isinstance(up, ast.Return):
        return made
    if not isinstance(up, ast.Assign) or len(up.targets) != 1:
        return None
    name = dotted(up.targets[0])
    returns = [
        node for node in source.walk(method) if isinstance(node, ast.Return) and node.value is not None
    ]
    return made if any(_gives(node.value, name) for node in returns if around(source, node)) else None


def _gives(value: ast.expr | None, name: str) -> bool:
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    return any(part is not None and dotted(part) == name for part in parts)
