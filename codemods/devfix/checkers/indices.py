"""Indices on a device, of tensors that are not there.

`X[i].to(device)` says that X is elsewhere, most often on the CPU; an index that was moved to that device before raises
there, while an index on the CPU is legal anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers.signs import quoted, root_name
from devfix.engine.analysis import Analysis
from devfix.findings import AppendCall, Edit, Finding, Related, ReplaceExpression, told
from devfix.text.names import path_of, stores
from devfix.text.placing import bound_before
from devfix.text.source import COMPREHENSIONS, Source

CODEMOD = "move-inputs"


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    for node, move in analysis.selected.items() if CODEMOD in wanted else ():
        if node not in source.parents:
            continue  # of another file
        home = node.value
        while isinstance(home, ast.Call) and isinstance(home.func, ast.Attribute):
            home = home.func.value
        path = "" if root_name(home) in source.imports else path_of(home)
        device, base = _device(source, node.slice, move), quoted(source, node.value)
        made = source.statement(node if device is None else device)
        message = (
            f"{quoted(source, node.slice)} indexes {base}, of which only what it selects is moved to the device of the "
            "index: this raises"
        )
        edit: Edit = AppendCall(source.span(node.slice), f".to({path}.device)")
        alone = device is not None and _is_alone(source, node.slice, made)
        if device is not None and alone and bound_before(source, home, made):
            edit = ReplaceExpression(source.span(device), f"{path}.device")
        title, assumes = f"keep it where {base} is", f"{base} is a tensor on another device"
        related = (Related(source.span(move), "the selected rows are moved here"),)
        lines = {source.position(source.span(one).start)[0] for one in (device or node, node)}
        span, edits = source.span(device or node), (edit,) if path else ()
        yield told(CODEMOD, span, message, title, edits, related, assumes), lines


def _device(source: Source, index: ast.expr, move: ast.Call) -> ast.expr | None:
    """The expression that puts an index on the device of a move, where it is bound."""
    devices = {source.code(one) for one in (*move.args, *(keyword.value for keyword in move.keywords))}
    scope = source.scope(move)
    for one in stores(source, scope, source.code(index)):
        statement = source.statement(one)
        before = isinstance(statement, ast.Assign) and source.span(one).start < source.span(index).start
        for part in source.walk(getattr(statement, "value", one)) if before else ():
            if isinstance(part, ast.expr) and source.code(part) in devices:
                return part
    return None


def _is_alone(source: Source, index: ast.expr, made: ast.stmt) -> bool:
    """Is an index bound here, and then only used there, not in a comprehension with names of its own?"""
    if source.enclosing(index, *COMPREHENSIONS) is not None:
        return False
    scope = source.scope(index)
    named = (one for one in source.names(scope)[source.code(index)] if isinstance(one.ctx, ast.Load))
    return [one for one in named if source.statement(one) is not made] == [index]
