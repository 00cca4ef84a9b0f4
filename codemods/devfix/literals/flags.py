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
    """What `Tensor = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor` makes: on the current GPU."""
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
        why = f"is meant to join `{path}`, but goes to the current GPU, which may be another one"
        for made in _made(flow, scope, statement, target, device):
            span = source.span(made)
            edits: tuple[Edit, ...] = (AppendCall(span, f".to({device})"),)
            yield Verdict(
                span, source.code(made), device, why, edits, Safety.UNSAFE, node, told=True, cure=Cure.OTHER
            )


def _made(flow: Flow, scope: ast.AST, alias: ast.Assign, target: ast.Name, device: str) -> Iterator[ast.expr]:
    """The calls that make or convert a tensor by an alias and leave it there."""
    source = flow.source
    names: list[ast.AST] = [part for part in ast.walk(ast.parse(device)) if isinstance(part, ast.Name)]
    uses = [node for node in source.walk(scope) if isinstance(node, ast.Name) and node.id == target.id]
    if any(not isinstance(node.ctx, ast.Load) and node is not target for node in uses):
        return
    for node in uses:
        up = source.parents[node]
        if isinstance(up, ast.Call) and (up.func is node or _converts(up, node)):
            if not _moved_on(source.parents.get(up)) and not rebound(source, names, alias, up):
                yield up


def _converts(call: ast.Call, argument: ast.expr) -> bool:
    """`x.type(Tensor)`"""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "type" and call.args == [argument]


def _moved_on(parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Attribute) and parent.attr in ("to", "type_as", "cuda", "cpu")
