"""Indices on a device, of tensors that are not there.

`X[i].to(device)` says that X is elsewhere, most often on the CPU; an index that was moved to that
device before raises there, while an index on the CPU is legal anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import AppendCall, Edit, ReplaceExpression
from devfix.flow import Flow
from devfix.inputs.hints import Function, Hint, device_text, function_of, moved_to
from devfix.text.names import path_of
from devfix.text.placing import dotted, stores
from devfix.text.source import Source, walk

_MOVES = ("to", "cuda")


def indices(flow: Flow) -> Iterator[Hint]:
    """Every index that was moved to where only what it picks is to go."""
    source = flow.source
    if "[" not in source.text or not any(f".{move}(" in source.text for move in _MOVES):
        return
    for call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES:
            picked = _picked(call.func.value)
            device = device_text(moved_to(call))
            if picked is None or not device or device.strip('"') == "cpu":
                continue
            if isinstance(picked.slice, ast.Name):
                yield from _moved(flow, picked, picked.slice, device, call)
    yield from _beside(flow)


def _picked(node: ast.expr) -> ast.Subscript | None:
    """`X[i]` of `X[i].view(-1)`; None where something else moves it on the way."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in (*_MOVES, "cpu", "numpy", "type_as"):
            return None
        node = node.func.value
    return node if isinstance(node, ast.Subscript) else None


def _moved(flow: Flow, picked: ast.Subscript, index: ast.Name, device: str, call: ast.Call) -> Iterator[Hint]:
    source = flow.source
    scope = function_of(source, call)
    made = _bindings(source, scope, index)
    there = [value for value in made if device_text(moved_to(value)) == device]
    owner = path_of(picked.value)
    if not there or _placed(source, scope, picked.value):
        return
    if len(made) > 1:
        # Made in two arms: the other one asks where the tensor is.
        others = {device_text(moved_to(value)) for value in made if value not in there}
        if len(there) != 1 or len(others) != 1 or not (home := others.pop()).endswith(".device"):
            return
    elif owner:
        home = f"{owner}.device"
    else:
        return
    written = moved_to(there[0])
    edits: tuple[Edit, ...]
    node: ast.AST
    if isinstance(written, ast.expr) and (len(made) > 1 or _only_index(source, scope, index.id, owner)):
        node, edits = there[0], (ReplaceExpression(source.span(written), home),)
    else:
        node, edits = picked, (AppendCall(source.span(index), f".to({home})"),)
    base = source.code(picked.value)
    yield Hint(
        node,
        f"`{index.id}` is moved to {_code(source, written)}, but indexes `{base}`, which is not there: this raises. "
        "The fix assumes that only the selected rows are needed there",
        f"keep `{index.id}` where `{base}` is",
        edits,
        call,
        "the selected rows are moved here",
    )


def _code(source: Source, device: ast.expr | str | None) -> str:
    return f"`{source.code(device)}`" if isinstance(device, ast.expr) else "CUDA"


def _bindings(source: Source, scope: ast.Module | Function, index: ast.Name) -> list[ast.expr]:
    """What the name is bound to last where it is read: one value, or those of the arms of an `if`."""
    at = source.span(index).start
    found: list[tuple[int, ast.stmt, ast.expr]] = []
    for store in stores(source, scope, index.id):
        statement = source.statement(store)
        if source.span(statement).end >= at:
            continue
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return []
        found.append((source.span(statement).start, statement, statement.value))
    found.sort(key=lambda one: one[0])
    around = {id(one) for one in source.ancestors(index)}
    while len(found) > 1 and id(source.parents[found[-1][1]]) not in around:
        up = source.parents[found[-1][1]]
        arms = [one for one in found if source.parents[one[1]] is up]
        if isinstance(up, ast.If) and len(arms) == 2 and sum(one[1] in up.orelse for one in arms) == 1:
            return [one[2] for one in arms]
        return []
    if not found or id(source.parents[found[-1][1]]) not in around:
        return []
    return [found[-1][2]]


def _placed(source: Source, scope: ast.Module | Function, node: ast.expr) -> bool:
    """Is what is picked of put on some device in this function?"""
    while isinstance(node, (ast.Call, ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Call) and moved_to(node) is not None:
            return True
        path = dotted(node)
        if path and any(
            isinstance(one, ast.Assign)
            and any(dotted(target) == path for target in one.targets)
            and moved_to(one.value) is not None
            for one in source.walk(scope)
        ):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    if not isinstance(node, ast.Name):
        return True
    here = source.statement(node)
    for store in stores(source, scope, node.id):
        value = getattr(source.statement(store), "value", None)
        if (
            source.statement(store) is not here
            and isinstance(value, ast.expr)
            and any(
                isinstance(part, ast.Call) and device_text(moved_to(part)).strip('"') not in ("", "cpu")
                for part in walk(value)
            )
        ):
            return True
    return False


def _only_index(source: Source, scope: ast.Module | Function, name: str, owner: str) -> bool:
    """Is a name read as an index of that tensor only?"""
    reads = [
        node
        for node in source.walk(scope)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    for read in reads:
        up = source.parents.get(read)
        if isinstance(up, ast.Subscript) and up.slice is read and path_of(up.value) == owner:
            continue
        if isinstance(source.statement(read), ast.Assign) and _rebinds(source.statement(read), name):
            continue
        return False
    return True


def _rebinds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and [dotted(one) for one in statement.targets] == [name]


# --- beside -----------------------------------------------------------------------------------


def _beside(flow: Flow) -> Iterator[Hint]:
    """`cat((X[s.ids.long()], s.tokens.to(where X is)))`: of one object one part is moved, the other not."""
    source = flow.source
    for call in source.calls:
        name = dotted(call.func).rpartition(".")[2]
        if name not in ("cat", "stack", "concat", "concatenate", "where") or not call.args:
            continue
        parts = [
            part
            for one in call.args
            for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])
        ]
        for part in parts:
            picked = _picked(part)
            owner = path_of(picked.value) if picked is not None else ""
            if picked is None or not owner:
                continue
            object_ = _object(picked.slice)
            for other in parts:
                device = moved_to(other) if other is not part else None
                if device is None or not object_ or _object(other) != object_:
                    continue
                if _place_of(source, call, device) == owner and moved_to(picked.slice) is None:
                    where = source.code(device) if isinstance(device, ast.expr) else f"{owner}.device"
                    yield Hint(
                        picked.slice,
                        f"`{source.code(picked.slice)}` indexes `{owner}` without being moved there first, unlike "
                        f"another part of `{object_}`. The fix assumes that both parts are on the same device",
                        f"move it to `{where}`",
                        (AppendCall(source.span(picked.slice), f".to({where})"),),
                        other,
                        "the other part is moved here",
                    )


def _object(node: ast.expr) -> str:
    """`s` of `s.ids.long()`"""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return path_of(node.value) if isinstance(node, ast.Attribute) else ""


def _place_of(source: Source, call: ast.Call, device: ast.expr | str) -> str:
    """`X` of `X.device`, or of a name that is bound to that."""
    if isinstance(device, str):
        return ""
    values: list[ast.expr] = [device]
    if isinstance(device, ast.Name):
        values = [
            value
            for store in stores(source, function_of(source, call), device.id)
            if isinstance(value := getattr(source.statement(store), "value", None), ast.expr)
        ]
    for value in values:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr == "get_device":
                return path_of(value.func.value)
        elif isinstance(value, ast.Attribute) and value.attr == "device":
            return path_of(value.value)
    return ""
