"""Tensors that are made before what they meet has a name: they are moved where they meet it.

`weights = torch.Tensor(data)`, `preds = model(batch)`, `loss(preds) * weights`: nothing tells of the device
where `weights` is made.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.factories.meetings import Meeting
from devfix.factories.owners import FUNCTIONS
from devfix.factories.values import Origin
from devfix.findings import AppendCall, Edit, InsertStatement
from devfix.placing import stores
from devfix.source import Source, walk


@dataclass(frozen=True)
class Move:
    """Where a tensor is moved, to which device, and what does it."""

    at: ast.AST
    device: str
    edits: tuple[Edit, ...]


def moved_there(source: Source, origin: Origin, meetings: list[Meeting]) -> Move | None:
    """What moves a tensor to the device of what it meets; None where that is not sure.

    Beside the others that are moved there, or else where they meet.
    """
    first = meetings[0]
    device, name = first.anchor.text, _named(first)
    if (
        name in ("", "self")
        or name in source.imports
        or first.anchor.weak
        or any(m.anchor.text != device or _named(m) != name for m in meetings)
    ):
        return None
    scope = source.enclosing(first.node, *FUNCTIONS)
    root = first.anchor.root
    if scope is None or device != f"{root}.device" or root == name:
        return None
    made, met = source.span(origin.call).end, source.span(first.node).start
    bound = [node for node in stores(source, scope, root) if source.span(node).start < met]
    if not bound or any(source.span(node).start < made for node in bound):
        return None
    if any(name in _names(source.statement(node)) for node in bound):
        return None  # it is made from the new tensor
    after = _with_others(source, first, device)
    if after is not None:
        moved = InsertStatement(source.span(after), f"{name} = {name}.to({device})")
        return Move(after, device, (moved,))
    uses = [m.at for m in meetings if m.at is not None]
    return Move(uses[0], device, tuple(AppendCall(source.span(use), f".to({device})") for use in uses))


def moved_at(source: Source, origin: Origin, meetings: list[Meeting]) -> Move | None:
    """What moves a tensor of `self` where it meets another; None where that cannot be written."""
    device = meetings[0].anchor.text
    uses = [m.at for m in meetings if m.at is not None and m.anchor.text == device]
    if not uses or not device or meetings[0].anchor.weak:
        return None
    read = _read(source, uses[0], meetings[0].anchor.root)
    if read is not None and all(ast.unparse(use) == ast.unparse(uses[0]) for use in uses):
        return Move(read, device, (AppendCall(source.span(read), f".to({device})"),))
    return Move(uses[0], device, tuple(AppendCall(source.span(use), f".to({device})") for use in uses))


def _read(source: Source, use: ast.expr, root: str) -> ast.expr | None:
    """`self.weights` of `weights = self.weights`, where that is what a name is used for first.

    `root` must be known there: a parameter that is not bound again.
    """
    scope = source.enclosing(use, *FUNCTIONS)
    if not isinstance(use, ast.Name) or not isinstance(scope, FUNCTIONS):
        return None
    arguments = scope.args
    if root not in {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}:
        return None
    bound = stores(source, scope, use.id)
    first = source.statement(bound[0]) if bound and not stores(source, scope, root) else None
    value = first.value if isinstance(first, ast.Assign) else None
    plain = isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self"
    return value if plain else None


def _named(meeting: Meeting) -> str:
    """`w` of `w.unsqueeze(1)`: the name of the new tensor in what meets the other one."""
    node = meeting.at
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(statement: ast.stmt) -> set[str]:
    return {node.id for node in walk(statement) if isinstance(node, ast.Name)}


def _with_others(source: Source, meeting: Meeting, device: str) -> ast.stmt | None:
    """The last statement above a meeting that moves another tensor there: `y = y.to(preds.device)`."""
    node: ast.AST = source.statement(meeting.node)
    while isinstance(node, ast.stmt):
        block = source.block(node)
        for above in reversed(block[: block.index(node)]):
            if isinstance(above, ast.Assign) and ast.unparse(above.value).endswith(f".to({device})"):
                return above
        node = source.parents[node]
        while not isinstance(node, (ast.stmt, ast.Module)):
            node = source.parents[node]
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.For, ast.While)):
            break
    return None
