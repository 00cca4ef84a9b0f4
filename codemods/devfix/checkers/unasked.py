"""Findings from `torch.cuda.is_available` that is tested, not called: a function is always true."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.places import literal
from devfix.findings import AppendCall, Finding, told
from devfix.models.torch_api import AVAILABLE
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "hard-coded-cuda"
_TESTS = (ast.If, ast.IfExp, ast.While, ast.Assert)
_LATER = (*FUNCTIONS, ast.Lambda, ast.IfExp, ast.BoolOp, ast.comprehension)  # perhaps, or never


def found(analysis: Analysis) -> Iterator[Finding]:
    """`"cuda" if torch.cuda.is_available else "cpu"` is always "cuda"."""
    source = analysis.file.source
    if not source.has("is_available"):
        return
    for node in (*source.of_kind(ast.Attribute), *source.of_kind(ast.Name)):
        if source.qualified(node) in AVAILABLE and _is_tested(node, source):
            span, code, up = source.span(node), source.code(node), source.parents[node]
            message = f"`{code}` is a function, which is always true: it is not called"
            raises = isinstance(up, ast.IfExp) and _is_moved_to(up, analysis)
            more = "" if raises else "the program should run where there is none, too"
            yield told(CODEMOD, span, message, f"call `{code}`", (AppendCall(span, "()"),), assumes=more)


def _is_tested(node: ast.expr, source: Source) -> bool:
    """Is it asked whether it is true; or kept, as the end of `a and b`, by a name that nothing calls?"""
    up = source.parents[node]
    if isinstance(up, ast.UnaryOp):
        return isinstance(up.op, ast.Not)
    if not isinstance(up, ast.BoolOp):
        return isinstance(up, _TESTS) and up.test is node
    if up.values[-1] is not node or _is_tested(up, source):
        return True
    kept = source.parents[up]
    if not isinstance(kept, ast.Assign) or not isinstance(up.op, ast.And):
        return False
    return not any(f"{source.code(one)}(" in source.text for one in kept.targets)


def _is_moved_to(choice: ast.IfExp, analysis: Analysis) -> bool:
    """Is it an accelerator or the CPU, and does the same block move something there, which raises without one?"""
    source, statement = analysis.file.source, analysis.file.source.statement(choice)
    there, otherwise = choice.body, choice.orelse
    if not (isinstance(there, ast.Constant) and isinstance(otherwise, ast.Constant)):
        return False
    names = (one for one in ast.walk(statement) if isinstance(one, ast.Name))
    place, bound = literal(str(there.value)), [one.id for one in names if isinstance(one.ctx, ast.Store)]
    if place is None or place.on_host or otherwise.value != "cpu" or len(bound) != 1:
        return False
    scope = source.scope(statement)
    uses = source.names(scope).get(bound[0], ())
    if sum(isinstance(one.ctx, ast.Store) for one in uses) != 1:
        return False
    moves = {at for every in analysis.targets.values() for at, *_ in every}
    block, around = source.block(statement), source.enclosing(statement, *_LATER)
    return any(
        one in moves
        and source.statement(one) in block
        and isinstance(source.statement(one), (ast.Assign, ast.Expr, ast.Return))
        and source.enclosing(one, *_LATER) is around
        for one in uses
    )
