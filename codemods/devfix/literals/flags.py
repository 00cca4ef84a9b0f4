"""CUDA by a flag or by an alias, next to a tensor that is wherever its caller has put it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.bindings import function_around
from devfix.findings import AppendCall, Edit, Safety
from devfix.flow import Flow, torch_api
from devfix.literals.guards import is_on_cuda
from devfix.literals.verdict import Cure, Verdict
from devfix.placing import rebound


def aliases(flow: Flow) -> Iterator[Verdict]:
    """`Tensor = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor`: the current GPU, whichever `x` is on."""
    source = flow.source
    for node in source.walk():
        if not isinstance(node, ast.IfExp) or source.qualified(node.body) not in torch_api.LEGACY_CUDA:
            continue
        device, path = is_on_cuda(source, node.test)
        statement = source.parents[node]
        if not device or source.qualified(node.orelse) not in torch_api.LEGACY:
            continue
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, scope = statement.targets[0], function_around(source, node)
        if not isinstance(target, ast.Name) or scope is None:
            continue
        edits = _followed(flow, scope, statement, target.id, device)
        if edits is None:
            continue
        why = f"is meant to join `{path}`, but makes tensors on the current GPU, which may be another one"
        yield Verdict(
            source.span(node), source.code(node), device, why, edits, Safety.UNSAFE, told=True, cure=Cure.OTHER,
            title=f"move what it makes to `{device}`",
        )  # fmt: skip


def _followed(
    flow: Flow, scope: ast.AST, alias: ast.Assign, name: str, device: str
) -> tuple[Edit, ...] | None:
    """The edits that move what an alias makes; empty where one cannot be written, None where it makes nothing."""
    source = flow.source
    root = ast.parse(device, mode="eval").body
    names: list[ast.AST] = [part for part in ast.walk(root) if isinstance(part, ast.Name)]
    made: list[Edit] = []
    whole = True
    for node in source.walk(scope):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        if not isinstance(node.ctx, ast.Load):
            whole = whole and source.parents[node] is alias
            continue
        up = source.parents[node]
        called = isinstance(up, ast.Call) and (up.func is node or _converts(up, node))
        if not called:
            whole = False
            continue
        assert isinstance(up, ast.Call)
        if _moved_on(source.parents.get(up)):
            continue
        whole = whole and not rebound(source, names, alias, up)
        made.append(AppendCall(source.span(up), f".to({device})"))
    if not made and whole:
        return None
    return tuple(made) if whole else ()


def _converts(call: ast.Call, argument: ast.expr) -> bool:
    """`x.type(Tensor)`"""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "type" and call.args == [argument]


def _moved_on(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Attribute) and parent.attr in ("to", "type_as", "cuda", "cpu")
