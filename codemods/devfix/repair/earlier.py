"""A move that comes too late, put before what needs it: with its condition, and on every way it had."""

from __future__ import annotations

import ast

from devfix.engine.events import Event
from devfix.findings import DeleteStatement, Edit, InsertStatement
from devfix.repair.ways import above, changed, looked_at, may_stand
from devfix.text.names import path_of
from devfix.text.placing import guards_of, steady
from devfix.text.source import Source

Earlier = tuple[tuple[Edit, ...], bool]


def earlier(source: Source, move: Event, target: ast.stmt, path: str = "", *, fails: bool = False) -> Earlier:
    """The edits that put a move before a statement, and whether nothing else will notice.

    The old move goes only where the new one runs on every way to it: beside it in its block, or before
    the whole statement of that block that holds `target`. Where it cannot go there it stays, and a second
    one is put before `target`. No edits where neither is possible. `fails` says that `target` raises
    without the move, so that what stands between it and the old one never ran.
    """
    statement, node, path = move.statement, move.node, path or move.path
    if not _plain(move) or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return (), False
    given: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
    call = ast.unparse(ast.Call(ast.Name(""), node.args, node.keywords))
    text = f"{path}.{node.func.attr}{call}"
    whole: ast.stmt = statement
    guards = guards_of(source, statement, target)
    if guards:
        if len(guards) > 1 or guards[0].orelse or len(guards[0].body) > 1:
            return (), False
        whole = guards[0]
        given.append(guards[0].test)
        text = f"if {ast.unparse(guards[0].test)}:\n    {text}"
    outer = above(source, target, whole)
    if outer is None or not all(steady(source, part) for part in given):
        return (), False
    parts = [*given, ast.parse(path, mode="eval").body]
    end = source.span(whole).start
    if outer is not target and path == move.path:
        start = source.span(outer).start
        noticed = looked_at(source, path, start, end, (target,))
        if not noticed and may_stand(source, parts, outer) and not changed(source, parts, start, end, {path}):
            new = InsertStatement(source.span(outer), text, before=True)
            return (new, DeleteStatement(source.span(whole))), True
    start = source.span(target).end
    if not may_stand(source, parts, target) or changed(source, parts, start, end, {path}):
        return (), False
    new = InsertStatement(source.span(target), text, before=True)
    noticed = not fails and looked_at(source, path, start, end)
    if outer is not target:
        return (new,), not noticed
    return (new, DeleteStatement(source.span(whole))), not noticed


def _plain(move: Event) -> bool:
    """`model.to(device)` or `model = model.to(device)`, and nothing else."""
    statement = move.statement
    if isinstance(statement, ast.Assign) and statement.value is move.node and len(statement.targets) == 1:
        return path_of(statement.targets[0]) == move.path
    return isinstance(statement, ast.Expr) and statement.value is move.node
