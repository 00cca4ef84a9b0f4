"""What a comparison decides on, and so what changes once it can hold."""

from __future__ import annotations

import ast

from devfix.text.source import Source


def moves(source: Source, node: ast.expr) -> str:
    """Where everything moves that a comparison decides on: "cpu", "device", or "" if it decides on more.

    A move to a device at hand does nothing where the value is there already.
    """
    statement = _decided(source, node)
    if not isinstance(statement, ast.If) or statement.orelse:
        return ""
    targets = {target for one in statement.body for target in _targets(one)}
    return targets.pop() if len(targets) == 1 else ""


def asserted(source: Source, node: ast.expr) -> bool:
    """Is it all that an assertion checks?"""
    parent = source.parents.get(node)
    if isinstance(parent, ast.Assert):
        return parent.test is node
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "assertTrue"
    )


def _decided(source: Source, node: ast.expr) -> ast.AST | None:
    """The `if` whose whole condition it is, or a part of joined by `and`."""
    child: ast.AST = node
    parent = source.parents.get(node)
    while isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
        child, parent = parent, source.parents.get(parent)
    return parent if isinstance(parent, ast.If) and parent.test is child else None


def _targets(statement: ast.stmt) -> set[str]:
    """ "cpu" and "device", as the moves of a statement go; "" for anything that is no move."""
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        value = value.elt
    if isinstance(value, ast.Tuple):
        return {_target(one) for one in value.elts}
    return {_target(value) if value is not None else ""}


def _target(value: ast.expr) -> str:
    """Not `x.cuda()` or `x.to("cuda")`, which raise where there is none."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return ""
    if value.func.attr == "cpu":
        return "cpu"
    given = [*value.args, *(k.value for k in value.keywords if k.arg == "device")]
    if value.func.attr != "to" or len(given) != 1 or len(value.keywords) > 1:
        return ""
    target = given[0]
    if isinstance(target, ast.Constant):
        return "cpu" if target.value == "cpu" else ""
    plain = isinstance(target, (ast.Name, ast.Attribute)) and "dtype" not in ast.unparse(target)
    return "device" if plain and not ast.unparse(target).startswith("torch.") else ""
