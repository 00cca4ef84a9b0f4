"""Modules that a function makes, changes and forgets: nothing runs them, so nothing can fail."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devfix.flow import Flow
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.flow.methods import MOVES

if TYPE_CHECKING:
    from devfix.surgery.arrivals import Surgery

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHARED = re.compile(r"^_?(?:get|unwrap|find|current|fetch|lookup)")


def dropped(flow: Flow, surgery: Surgery) -> bool:
    """Is the module a local of its function, made there, that is only asked for attributes from then on?"""
    function, source = surgery.scope.node, flow.source
    name = surgery.moves[-1].path
    if not isinstance(function, _FUNCTIONS) or not name.isidentifier():
        return False
    arrived = max(source.span(arrival.node).end for arrival in surgery.arrivals)
    made = False
    shared: tuple[ast.Global | ast.Nonlocal, ...] = source.of_kind(ast.Global, function)
    if any(name in one.names for one in (*shared, *source.of_kind(ast.Nonlocal, function))):
        return False
    for node in source.names(function).get(name, ()):
        parent = source.parents[node]
        if isinstance(node.ctx, ast.Store):
            value = parent.value if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
            if not isinstance(value, ast.Call) or not (_moves(value, name) or _fresh(flow, value)):
                return False
            made = True
        elif not isinstance(parent, ast.Attribute):
            return False  # it is handed on, kept or returned
        elif source.enclosing(node, *_FUNCTIONS, ast.Lambda) is not function:
            return False
        elif source.span(node).start > arrived:
            call = source.parents[parent]
            if not isinstance(parent.ctx, ast.Load) or (isinstance(call, ast.Call) and call.func is parent):
                return False
    return made


def _moves(call: ast.Call, name: str) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in MOVES and path_of(func.value) == name


def _fresh(flow: Flow, call: ast.Call) -> bool:
    """Does a call make its module, not hand out one that others have?"""
    if _SHARED.search(path_of(call.func).rpartition(".")[2] or "get"):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    named = [one for one in given if path_of(one)]
    return not any(looks_like_module(path_of(one)) or flow.value(one).kind is Kind.MODULE for one in named)
