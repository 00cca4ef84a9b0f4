"""What a program puts into `CUDA_VISIBLE_DEVICES`: a list of GPUs, and no device, whatever it is called."""

from __future__ import annotations

import ast

from devfix.text.names import path_of
from devfix.text.source import FUNCTIONS, Source, remembered

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ENVIRONMENT = "os.environ"


@remembered
def gpu_lists(source: Source) -> frozenset[tuple[ast.AST | None, str]]:
    """The attributes and items, and with the function around them the names, whose values say which GPUs are visible.

    None that gets another value, or that is used as a device as well.
    """
    if not source.has(VISIBLE):
        return frozenset()
    found: set[tuple[ast.AST | None, str]] = set()
    for one in source.of_kind(ast.Assign):
        if sets_visible(source, one):
            found |= {(_home(source, one, path), path) for path in _told(one.value)}
    return frozenset(found - _used_otherwise(source)) if found else frozenset()


def sets_visible(source: Source, statement: ast.Assign) -> bool:
    """Does a statement set the variable, for its own process?"""
    target = statement.targets[0]
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == VISIBLE
        and source.qualified(target.value) == _ENVIRONMENT
    )


def is_gpu_list(source: Source, node: ast.expr) -> bool:
    """Is an attribute or an item one of those?"""
    path = path_of(node)
    return (_home(source, node, path), path) in gpu_lists(source)


def _home(source: Source, node: ast.AST, path: str) -> ast.AST | None:
    return source.enclosing(node, *FUNCTIONS) if path.isidentifier() else None


def _told(value: ast.expr) -> list[str]:
    """`args.device` of `args.device`, `str(args.device)`, `",".join(args.device)` and `f"{args.device}"`."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        made = isinstance(value.func, ast.Name) and value.func.id == "str"
        joined = isinstance(value.func, ast.Attribute) and value.func.attr in ("join", "format")
        return _told(value.args[0]) if made or joined else []
    if isinstance(value, ast.JoinedStr) and len(value.values) == 1:
        return _told(value.values[0])
    if isinstance(value, ast.FormattedValue):
        return _told(value.value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        return _told(value.right)
    path = path_of(value)
    return [path] if path else []


def _used_otherwise(source: Source) -> set[tuple[ast.AST | None, str]]:
    """What is bound anew in the file, or given to `.to(..)`, `torch.device` or `device=` as it is."""
    devices: list[ast.expr] = []
    for call in source.calls:
        moves = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
        if moves or source.qualified(call.func) == "torch.device":
            devices += call.args[:1]
        devices += [one.value for one in call.keywords if one.arg in ("device", "map_location")]
    places: tuple[ast.Attribute | ast.Subscript, ...] = (
        *source.of_kind(ast.Attribute),
        *source.of_kind(ast.Subscript),
    )
    stored = (one for one in places if isinstance(one.ctx, ast.Store))
    return {(_home(source, one, path), path) for one in (*devices, *stored) if (path := path_of(one))}
