"""`"cuda" if torch.cuda.is_available() else "cpu"` in a method of a module, which is wherever its user has put it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.bindings import FunctionNode, function_around
from devfix.findings import ReplaceExpression, Safety
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.literals.modules import has_layers
from devfix.literals.partners import Partners
from devfix.literals.scope import OWN_DEVICE
from devfix.literals.sites import names_cuda
from devfix.literals.verdict import Verdict
from devfix.placing import dotted, stores
from devfix.source import Source

# Methods that make or move a module: there a device may be chosen.
_MAKES = ("init", "new__", "to_", "cuda", "load", "from_", "build", "create", "save", "setup", "export")


def chosen(flow: Flow) -> Iterator[Verdict]:
    """The choices of a device by what there is, where there is a module or a tensor to ask."""
    source = flow.source
    for node in source.walk():
        if not isinstance(node, ast.IfExp) or not names_cuda(source, node.body):
            continue
        test = node.test
        if not isinstance(test, ast.Call) or source.qualified(test.func) != "torch.cuda.is_available":
            continue
        function = function_around(source, node)
        owner = source.parents.get(function) if function is not None else None
        if function is None or not isinstance(owner, ast.ClassDef) or not _is_module(owner):
            continue
        if function.name.lstrip("_").startswith(_MAKES) or not all(map(_harmless, function.decorator_list)):
            continue
        outer = source.parents[node]
        whole = (
            outer if isinstance(outer, ast.Call) and source.qualified(outer.func) == "torch.device" else node
        )
        if not _places(source, function, whole):
            continue
        device, what = _known(flow, function, owner, source.statement(node))
        if device:
            span = source.span(whole)
            why = f"goes to CUDA where there is CUDA, but {what} on the device where it was put"
            edits = (ReplaceExpression(span, device),)
            yield Verdict(span, source.code(whole), device, why, edits, Safety.UNSAFE)


def _is_module(owner: ast.ClassDef) -> bool:
    names = [dotted(base).rpartition(".")[2] for base in owner.bases]
    return any(name.endswith(("Module", *OWN_DEVICE)) for name in names)


def _harmless(decorator: ast.expr) -> bool:
    """`@torch.no_grad()` and the like, not `@classmethod`."""
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return name.rpartition(".")[2] in ("no_grad", "inference_mode", "eval_decorator", "torch_no_grad")


def _places(source: Source, function: FunctionNode, node: ast.expr) -> bool:
    """Does a device go to what is made or moved in this function, and not to the module itself?"""
    up = source.parents[node]
    if isinstance(up, ast.Assign) and len(up.targets) == 1 and isinstance(up.targets[0], ast.Name):
        name = up.targets[0].id
        uses = [
            n
            for n in source.walk(function)
            if isinstance(n, ast.Name) and n.id == name and n is not up.targets[0]
        ]
        return bool(uses) and all(isinstance(n.ctx, ast.Load) and _takes(source, n) for n in uses)
    return _takes(source, node)


def _takes(source: Source, node: ast.expr) -> bool:
    up = source.parents[node]
    if isinstance(up, ast.keyword):
        return up.arg == "device"
    moved = (
        isinstance(up, ast.Call)
        and node in up.args
        and isinstance(up.func, ast.Attribute)
        and up.func.attr == "to"
    )
    if not moved:
        return False
    assert isinstance(up, ast.Call) and isinstance(up.func, ast.Attribute)
    return not path_of(up.func.value).startswith("self")


def _known(flow: Flow, function: FunctionNode, owner: ast.ClassDef, at: ast.stmt) -> tuple[str, str]:
    """The device of a tensor that the method is given, else of the module."""
    partners = Partners(flow, function, set())
    ordered = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    tensors = [name for name in ordered if partners.given_tensor(name, at)]
    # One that is still what the caller gave tells it best.
    tensors.sort(key=lambda name: bool(stores(flow.source, function, name)))
    if tensors:
        return f"{tensors[0]}.device", f"`{tensors[0]}` is"
    if any(dotted(base).rpartition(".")[2].endswith(OWN_DEVICE) for base in owner.bases):
        return "self.device", "the module is"
    return ("next(self.parameters()).device", "the module is") if has_layers(flow, owner) else ("", "")
