"""Moves whose result is dropped, of what only its uses show to be a tensor.

`x.to(device)` as a statement moves a module, and nothing else that is counted with, sliced or has a shape.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import AssignResult
from devfix.flow import Flow, torch_api
from devfix.flow.events import What
from devfix.flow.evidence import annotated_kind, annotation_text, looks_like_module, looks_like_pipeline
from devfix.inputs.displayed import is_displayed
from devfix.inputs.hints import Hint, device_text, function_of, moved_to
from devfix.placing import dotted
from devfix.source import Source

_SHOWS = torch_api.TENSOR_ONLY | {"shape", "ndim", "dtype", "mean", "sum", "abs", "sqrt", "clone"}
# What tensors have besides; whatever has something else is an object of its own.
_HAS = _SHOWS | torch_api.NOT_TENSOR | {
    "to", "cuda", "cpu", "device", "data", "grad", "T", "float", "half", "double", "int", "bool", "backward", "new",
    "requires_grad", "reshape", "repeat", "max", "min", "exp", "log", "pow", "std", "var", "norm", "t", "mm", "dot",
    "eq", "any", "all", "nonzero", "add", "mul", "div", "sub", "cumsum", "argsort", "sort", "split", "type", "is_cuda",
}  # fmt: skip
# Functions of torch that take modules as well.
_OF_MODULES = ("torch.nn.Module", "torch.nn.Data", "torch.nn.parallel", "torch.save", "torch.compile", "torch.jit",
               "torch.optim", "torch.onnx", "torch.quantization", "torch.fx", "torch.distributed", "torch.ao",
               "torch.export", "torch.func", "torch.profiler", "torch.nn.utils", "torch.nn.Sequential",
               "torch.is_tensor", "torch.utils", "torch.nn.init")  # fmt: skip


def unassigned(flow: Flow) -> Iterator[Hint]:
    """Every dropped result of what flow does not know as a tensor."""
    source = flow.source
    known = {event.node for event in flow.events(What.MOVE) if event.detail == "dropped"}
    for call in source.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("to", "cuda") or call in known:
            continue
        statement = source.parents.get(call)
        if not isinstance(statement, ast.Expr) or not isinstance(func.value, ast.Name):
            continue
        device = device_text(moved_to(call))
        name = func.value.id
        if not device or device.strip('"') == "cpu" or looks_like_module(name) or looks_like_pipeline(name):
            continue
        shown = _shown(source, call, name)
        if shown is None or is_displayed(source, call):
            continue
        yield Hint(
            call,
            f"the moved tensor is dropped: `{name}` stays where it is, since `Tensor.to` returns a copy",
            f"assign the moved tensor to `{name}`",
            (AssignResult(source.span(call), name),),
            shown,
            f"`{name}` is used as a tensor here",
        )


def _shown(source: Source, call: ast.Call, name: str) -> ast.AST | None:
    """Where the function shows that the name is a tensor; None where it may be a module, or is not bound in it."""
    scope = function_of(source, call)
    found: ast.AST | None = None
    bound = False
    if not isinstance(scope, ast.Module):
        for one in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
            if one.arg == name:
                bound = True
                if annotation_text(one.annotation) and annotated_kind(one.annotation) != "tensor":
                    return None
    for node in source.names(scope).get(name, ()):
        up = source.parents.get(node)
        if not isinstance(node.ctx, ast.Load):
            bound = True
            if isinstance(up, ast.AnnAssign) and annotated_kind(up.annotation) != "tensor":
                return None
            value = up.value if isinstance(up, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Call):
                last = dotted(value.func).rpartition(".")[2]
                if (last[:1].isupper() and last != "Variable") or "load" in last or "pretrained" in last:
                    return None
            continue
        if isinstance(up, ast.Attribute):
            if up.attr not in _HAS and not (up.attr.endswith("_") and up.attr[:1] != "_"):
                return None
            if up.attr in _SHOWS:
                found = found or up
        elif isinstance(up, ast.Call):
            if up.func is node:
                return None
            called = source.qualified(up.func)
            if called.startswith("torch.") and node in up.args:
                if called.startswith(_OF_MODULES):
                    return None
                if called.rpartition(".")[2][:1].islower():
                    found = found or up
        elif isinstance(up, ast.BinOp):
            if not isinstance(up.op, ast.Mod) or up.left is node:
                found = found or up
        elif isinstance(up, ast.Subscript) and up.value is node:
            if isinstance(up.slice, (ast.Slice, ast.Tuple)):
                found = found or up
    # An operation on its own is told by what is added to it: `x += y`.
    if found is None:
        found = next(
            (
                node
                for node in source.of_kind(ast.AugAssign, scope)
                if isinstance(node.target, ast.Name)
                and node.target.id == name
                and not isinstance(node.value, (ast.Constant, ast.List))
            ),
            None,
        )
    return found if bound else None
