"""Code that runs only where a caller sets an option, and no caller of the file does."""

from __future__ import annotations

import ast

from devfix.factories.owners import FUNCTIONS, Function
from devfix.flow.frame import path_of
from devfix.source import Source

_BY_OTHERS = ("forward", "__")  # called without being named


def switched_off(source: Source, node: ast.AST) -> bool:
    """Is a node under an `if` that the defaults of its function's parameters, given by nobody, say no to?"""
    function = source.enclosing(node, *FUNCTIONS)
    if not isinstance(function, FUNCTIONS) or function.name.startswith(_BY_OTHERS):
        return False
    defaults: dict[str, object] | None = None
    child, up = node, source.parents.get(node)
    while up is not None and up is not function:
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test:
            defaults = _defaults(source, function) if defaults is None else defaults
            chosen = _chosen(up.test, defaults)
            body = up.body if isinstance(up.body, list) else [up.body]
            if chosen is not None and chosen is not any(child is one for one in body):
                return True
        child, up = up, source.parents.get(up)
    return False


def _defaults(source: Source, function: Function) -> dict[str, object]:
    """The parameters that are left to a constant by all calls of the file, if there are any."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(reversed(plain), reversed(arguments.defaults), strict=False))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    found = {one.arg: default.value for one, default in pairs if isinstance(default, ast.Constant)}
    static = any(path_of(one) == "staticmethod" for one in function.decorator_list)
    method = isinstance(source.parents.get(function), ast.ClassDef) and not static
    for call in source.calls_by_name.get(function.name, ()) if found else ():
        if any(isinstance(one, ast.Starred) for one in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            return {}
        bound = method and isinstance(call.func, ast.Attribute)  # `self.f(x)`
        for one in plain[: len(call.args) + bound]:
            found.pop(one.arg, None)
        for keyword in call.keywords:
            found.pop(keyword.arg or "", None)
    stored = {n.id for n in source.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {name: value for name, value in found.items() if name not in stored}


def _chosen(test: ast.expr, defaults: dict[str, object]) -> bool | None:
    """What a condition says of these values; None where it asks for others."""
    if isinstance(test, ast.Name):
        return bool(defaults[test.id]) if test.id in defaults else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _chosen(test.operand, defaults)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_chosen(one, defaults) for one in test.values]
        deciding = isinstance(test.op, ast.Or)
        return deciding if deciding in parts else None if None in parts else not deciding
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
        right = test.comparators[0]
        if test.left.id in defaults and isinstance(right, ast.Constant) and right.value is None:
            same = defaults[test.left.id] is None
            return same if isinstance(test.ops[0], ast.Is) else not same
    return None
