"""`CUDA_VISIBLE_DEVICES`, which CUDA reads once, and what makes it read that."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from devfix.engine.visible import VISIBLE, sets_visible
from devfix.findings import DeleteStatement, Edit, Finding, InsertStatement, Related, told
from devfix.text.bindings import function_around
from devfix.text.placing import around, bound_before, follows, steady
from devfix.text.source import Source

_CHILDREN = re.compile(r"subprocess|Popen|Process\(|\bspawn\(|system\(|\.start\(\)|\bexec[lv]p?e?\(")
# Calls after which the driver no longer looks at the environment.
_STARTS = frozenset(
    f"torch.cuda.{name}"
    for name in (
        "is_available", "set_device", "current_device", "get_device_name", "get_device_properties",
        "synchronize", "init", "get_device_capability", "mem_get_info", "current_stream", "Stream",
    )
)  # fmt: skip


def set_late(source: Source) -> Iterator[Finding]:
    """The environment is changed after CUDA has started."""
    starting: list[ast.Call] | None = None
    for statement in source.walk():
        if not isinstance(statement, (ast.Assign, ast.Expr)) or not _sets(source, statement):
            continue
        starting = _starting(source) if starting is None else starting
        start = next(_started_before(source, statement, starting), None)
        if start is None or _for_others(source, statement):
            continue
        code = source.code(start)
        yield told(
            "one-device",
            source.span(statement),
            f"`{VISIBLE}` is set after `{code[:60]}` has started CUDA, which reads it once",
            "set it before CUDA starts",
            _earlier(source, statement, source.statement(start)),
            related=(Related(source.span(start), "CUDA starts here"),),
            assumes="nothing in between needs the other GPUs",
        )


def _sets(source: Source, statement: ast.Assign | ast.Expr) -> bool:
    value = statement.value
    if isinstance(statement, ast.Assign):
        return sets_visible(source, statement)
    return (
        isinstance(value, ast.Call)
        and source.qualified(value.func) in ("os.environ.setdefault", "os.putenv", "os.environ.__setitem__")
        and isinstance(value.args[0] if value.args else None, ast.Constant)
        and ast.unparse(value.args[0])[1:-1] == VISIBLE
    )


def _for_others(source: Source, statement: ast.stmt) -> bool:
    """Is it meant for processes that are started below, or made of what CUDA said?"""
    if "torch.cuda" in source.code(statement):
        return True
    scope = function_around(source, statement)
    end = source.span(scope).end if scope is not None else len(source.text)
    starts = _children(source.text)
    at = bisect_left(starts, source.span(statement).end)
    return at < len(starts) and starts[at] < end


@lru_cache(maxsize=4)
def _children(text: str) -> list[int]:
    """Where processes are started, in order."""
    return [match.start() for match in _CHILDREN.finditer(text)]


def _started_before(source: Source, statement: ast.stmt, starting: list[ast.Call]) -> Iterator[ast.Call]:
    """Calls that have started CUDA when a statement runs, in order of the text.

    They stand above it in its own function, or in the body of the module above a function that is
    called later: below them, or from elsewhere.
    """
    scope = function_around(source, statement)
    for call in starting:
        if not _is_above(source, call, statement):
            continue
        where = function_around(source, call)
        if any(isinstance(up, (ast.ClassDef, ast.Lambda)) for up in _up(source, call, where)):
            continue
        if where is scope:
            if _on_the_way(source, call, statement) and follows(source, call, statement):
                yield call
        elif where is None and scope is not None and len(around(source, call)) == 1:
            outer = source.span(scope)
            if source.span(call).end <= outer.start and isinstance(source.parents[scope], ast.Module):
                yield call


def _starting(source: Source) -> list[ast.Call]:
    """The calls of a file that start CUDA, in order of the text."""
    found = [call for call in source.calls if _starts(source, call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _starts(source: Source, call: ast.Call) -> bool:
    func = call.func
    if source.qualified(func) in _STARTS:
        return True
    if not isinstance(func, ast.Attribute) or source.qualified(func):
        return False
    to_cuda = func.attr == "to" and "'cuda" in "".join(ast.unparse(one) for one in call.args[:1])
    return to_cuda or func.attr == "cuda"


def _earlier(source: Source, statement: ast.stmt, start: ast.stmt) -> tuple[Edit, ...]:
    """The statement put above what starts CUDA, in the same block."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    arguments = value.args if isinstance(value, ast.Call) and isinstance(statement, ast.Expr) else [value]
    anchor = next((one for one in around(source, start) if one in source.block(statement)), None)
    if anchor is None or not all(
        one is not None and steady(source, one) and bound_before(source, one, anchor) for one in arguments
    ):
        return ()
    span = source.span(statement)
    text = source.text[span.start : span.end]
    if "\n" in text or not _has_os(source, anchor):
        return ()
    return (InsertStatement(source.span(anchor), text, before=True), DeleteStatement(span))


def _has_os(source: Source, anchor: ast.stmt) -> bool:
    """Is `os` imported above a statement of the module's body?"""
    if function_around(source, anchor) is not None:
        return True
    for one in source.tree.body:
        if isinstance(one, ast.Import) and any(alias.name == "os" for alias in one.names):
            return source.span(one).end <= source.span(anchor).start
    return False


def _on_the_way(source: Source, call: ast.Call, statement: ast.stmt) -> bool:
    """Does everything around a call also enclose the statement: is the call always made before it?"""
    outer = set(around(source, statement)) | {source.statement(call)}
    return all(one in outer for one in around(source, call))


def _up(source: Source, node: ast.AST, scope: ast.AST | None) -> Iterator[ast.AST]:
    up = source.parents.get(node)
    while up is not None and up is not scope:
        yield up
        up = source.parents.get(up)


def _is_above(source: Source, node: ast.AST, other: ast.AST) -> bool:
    return source.span(node).end <= source.span(other).start
