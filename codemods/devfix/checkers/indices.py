"""Indices on a device, of tensors that are not there.

`X[i].to(device)` says that X is elsewhere, most often on the CPU; an index that was moved to that device before raises
there, while an index on the CPU is legal anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers.signs import quoted, root_name
from devfix.engine.analysis import Analysis
from devfix.findings import AppendCall, Finding, Fix, Related, Safety
from devfix.text.names import path_of
from devfix.text.placing import stores
from devfix.text.source import Source

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
        made, base = _made(source, node.slice, move) or node, quoted(source, node.value)
        message = (
            f"{quoted(source, node.slice)} indexes {base}, of which only what it selects is moved to the device of the "
            "index: this raises"
        )
        message += f". The fix assumes that {base} is a tensor on another device" if path else ""
        edit = AppendCall(source.span(node.slice), f".to({path}.device)")
        fix = Fix(f"keep it where {base} is", (edit,), Safety.UNSAFE) if path else None
        related = (Related(source.span(move), "the selected rows are moved here"),)
        lines = {source.position(source.span(one).start)[0] for one in (made, node)}
        yield Finding(CODEMOD, source.span(made), message, fix, related), lines


def _made(source: Source, index: ast.expr, move: ast.Call) -> ast.expr | None:
    """What an index is bound to that is put on the device by the same expression."""
    devices = {source.code(one) for one in (*move.args, *(keyword.value for keyword in move.keywords))}
    scope = source.enclosing(move, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree
    for one in stores(source, scope, source.code(index)):
        statement = source.statement(one)
        if isinstance(statement, ast.Assign) and any(
            isinstance(part, ast.expr) and source.code(part) in devices
            for part in source.walk(statement.value)
        ):
            return statement.value
    return None
