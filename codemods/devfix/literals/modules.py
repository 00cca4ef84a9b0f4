"""Modules that a call runs on its other arguments: `model.encode(x)`, `torch.onnx.export(model, x)`."""

from __future__ import annotations

import ast

from devfix.bindings import FunctionNode
from devfix.flow import Flow, torch_api
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.flow.methods import MOVES

# Run the module that they are given first.
TRACERS = frozenset(
    {"torch.onnx.export", "torch.jit.trace", "torch.onnx.utils.export", "torch.export.export"}
)
# Methods of a module that keep what they are given, or look at its size, and run nothing.
_KEEPS = ("set_", "add_", "register_", "load_", "update", "append", "insert", "extend", "remove")


def ran_by(node: ast.Call, how: str) -> ast.expr | None:
    """The module that a call runs, which was seen to be used so: `model(x)`, `model.encode(x)`."""
    if how == "called":
        return node.func
    if isinstance(node.func, ast.Attribute) and node.func.attr == how and not how.startswith(_KEEPS):
        return node.func.value
    return None


def handed(flow: Flow, node: ast.Call) -> ast.expr | None:
    """The module among the arguments of a call that is run on the others, as far as the file shows."""
    if flow.source.qualified(node.func) in TRACERS:
        return node.args[0] if node.args and _is_module(flow, node.args[0]) else None
    if isinstance(node.func, ast.Attribute):
        method, base = node.func.attr, node.func.value
        quiet = method.startswith(_KEEPS) or method in MOVES or method in torch_api.MODULE_ONLY - {"forward"}
        known = not quiet and path_of(base) and flow.value(base).kind is Kind.MODULE
        return base if known and (path_of(base) != "self" or _is_layer(flow, node, method)) else None
    if not isinstance(node.func, ast.Name):
        return None
    found = [one for one in flow.source.definitions if one.name == node.func.id]
    if len(found) != 1 or isinstance(found[0], ast.ClassDef):
        return None
    return _run_inside(flow, node, found[0])


def _is_layer(flow: Flow, node: ast.Call, name: str) -> bool:
    """Is `self.name` a part of a module that has parameters, and none of its own methods?"""
    owner = flow.source.enclosing(node, ast.ClassDef)
    return (
        isinstance(owner, ast.ClassDef)
        and not any(isinstance(one, ast.FunctionDef) and one.name == name for one in owner.body)
        and has_layers(flow, owner)
    )


def has_layers(flow: Flow, owner: ast.ClassDef) -> bool:
    """Does a class make modules with parameters for itself?"""
    return any(
        isinstance(node, ast.Assign)
        and path_of(node.targets[0]).startswith("self.")
        and flow.value(node.value).kind is Kind.MODULE
        and not flow.value(node.value).bare
        for node in flow.source.walk(owner)
    )


def _is_module(flow: Flow, node: ast.expr) -> bool:
    kind = flow.value(node).kind
    return kind is Kind.MODULE or (kind is Kind.ANY and looks_like_module(path_of(node)))


def _run_inside(flow: Flow, node: ast.Call, callee: FunctionNode) -> ast.expr | None:
    """The argument whose parameter the function calls as a module."""
    names = [argument.arg for argument in (*callee.args.posonlyargs, *callee.args.args)]
    pairs = [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords if k.arg)]
    for name, given in pairs:
        if not path_of(given) or not _is_module(flow, given):
            continue
        for inner in flow.source.walk(callee):
            if isinstance(inner, ast.Call) and path_of(inner.func) in (name, f"{name}.generate"):
                return given
    return None
