"""Entries of a batch that one method of a class moves, and another one takes as they are.

`batch["image"].to(outputs["rgb"].device)` in one method says that the entry comes from the CPU, and where it
has to go; the same entry of the same parameter meets the same parameter in the next method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import AppendCall
from devfix.flow import Flow, frameworks
from devfix.flow.frame import path_of
from devfix.inputs.hints import FUNCTIONS, Function, Hint
from devfix.placing import dotted
from devfix.source import Source

_HOSTED = frozenset(
    {"to", "cuda", "cpu", "device", "numpy", "shape", "size", "ndim", "dtype", "tolist", "item"}
)


@dataclass(frozen=True)
class _Moved:
    """`p["k"].to(q["x"].device)`: q, or "self"."""

    node: ast.Call
    method: str
    owner: str
    device: ast.expr


def entries(flow: Flow) -> Iterator[Hint]:
    """Every such entry that is taken as it is."""
    source = flow.source
    if "].to(" not in source.text:
        return
    for owner in source.definitions:
        if not isinstance(owner, ast.ClassDef) or "].to(" not in source.code(owner):
            continue
        names = [source.qualified(base) or dotted(base) for base in owner.bases]
        if any(frameworks.owns_subclasses(one) or one.endswith(frameworks.HOST_BASES) for one in names):
            continue
        methods = [item for item in owner.body if isinstance(item, FUNCTIONS)]
        moves = {path: one for method in methods for path, one in _moves(source, method)}
        for method in methods if moves else ():
            yield from _bare(source, method, moves)


def _parameters(method: Function) -> set[str]:
    return {one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)}


def _moves(source: Source, method: Function) -> Iterator[tuple[str, _Moved]]:
    parameters = _parameters(method)
    for node in source.walk(method):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
            continue
        path, device = _entry(node.func.value), node.args[0]
        if node.func.attr != "to" or not path or path.partition("[")[0] not in parameters:
            continue
        owner = path_of(device).partition(".")[0].partition("[")[0]
        if isinstance(device, ast.Attribute) and device.attr == "device" and owner in parameters:
            yield path, _Moved(node, method.name, owner, device)


def _entry(node: ast.expr) -> str:
    """`batch["image"]`"""
    path = path_of(node) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) else ""
    return path if path.endswith(("']", '"]')) else ""


def _bare(source: Source, method: Function, moves: dict[str, _Moved]) -> Iterator[Hint]:
    parameters = _parameters(method)
    nodes = list(source.walk(method))
    for node in nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        path = _entry(node)
        move = moves.get(path)
        if (
            move is None
            or move.method == method.name
            or not {path.partition("[")[0], move.owner} <= parameters
        ):
            continue
        reads: list[ast.expr] = [node]
        up = source.parents.get(node)
        name = ""
        if isinstance(up, ast.Assign) and up.value is node and isinstance(up.targets[0], ast.Name):
            name = up.targets[0].id
            reads = [
                one
                for one in nodes
                if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
            ]
        same = [one for one in nodes if isinstance(one, ast.Subscript) and _entry(one) == path]
        if any(_hosted(source, one, name) for one in (*reads, *same)):
            return
        for read in reads:
            partner = _partner(source, read, move.owner)
            if partner is None:
                continue
            own = move.owner == "self"
            device = source.code(move.device) if own else f"{source.code(partner)}.device"
            yield Hint(
                node,
                f"`{source.code(node)}` is taken as it is, while `{move.method}` moves it to "
                f"`{source.code(move.device)}` first",
                f"move it to `{device}`",
                (AppendCall(source.span(node), f".to({device})"),),
                move.node,
                f"`{move.method}` moves it here",
            )
            return


def _hosted(source: Source, node: ast.expr, name: str) -> bool:
    up = source.parents.get(node)
    if isinstance(up, ast.Attribute) and up.attr in _HOSTED - {"shape", "size", "ndim", "dtype"}:
        return True
    statement = source.statement(node)
    if name and isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == name:
        return isinstance(up, ast.Call)  # bound again
    return isinstance(up, ast.Call) and "device" in dotted(up.func)


def _partner(source: Source, read: ast.expr, owner: str) -> ast.expr | None:
    """What an entry meets: one of the other parameter, in a call or an operation, or the part of the object it runs."""
    up = source.parents.get(read)
    if isinstance(up, ast.keyword):
        up = source.parents.get(up)
    sides: list[ast.expr] = []
    if isinstance(up, ast.Call) and up.func is not read:
        if owner == "self":
            path = dotted(up.func)
            return (
                up.func if path.startswith("self.") and path.count(".") == 1 and "log" not in path else None
            )
        sides = [*up.args, *(word.value for word in up.keywords)]
    elif isinstance(up, ast.BinOp):
        sides = [up.left, up.right]
    for side in sides:
        if (
            side is not read
            and isinstance(side, ast.Subscript)
            and dotted(side.value) == owner
            and path_of(side)
        ):
            return side
    return None
