"""Moves whose result is dropped, of what only its uses, or the batch that it is a part of, show to be a tensor.

`x.to(device)` as a statement moves a module, and nothing else that is counted with, sliced or has a shape.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import AssignResult
from devfix.flow import Flow, torch_api
from devfix.flow.events import What
from devfix.flow.evidence import (
    annotated_kind,
    annotation_text,
    looks_like_loader,
    looks_like_module,
    looks_like_pipeline,
)
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
_BATCHES = ("batch", "data", "inputs", "sample", "samples", "example", "examples", "encodings", "features")
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
        if not isinstance(source.parents.get(call), ast.Expr) or is_displayed(source, call):
            continue
        device = device_text(moved_to(call))
        if not device or device.strip('"') == "cpu":
            continue
        target, shown = _told(source, call, func.value)
        if shown is None:
            continue
        code = source.code(func.value)
        yield Hint(
            call,
            f"the moved tensor is dropped: `{code}` stays where it is, since `Tensor.to` returns a copy",
            f"assign the moved tensor to `{target}`",
            (AssignResult(source.span(call), target),),
            shown,
            f"`{code}` is used as a tensor here",
        )


def _told(source: Source, call: ast.Call, moved: ast.expr) -> tuple[str, ast.AST | None]:
    """What the copy has to be assigned to, and the node that says that it is one of a tensor, if any does."""
    if isinstance(moved, ast.Subscript):
        return source.code(moved), _entry(source, call, moved)
    if not isinstance(moved, ast.Name) or looks_like_module(moved.id) or looks_like_pipeline(moved.id):
        return "", None
    shown = _shown(source, call, moved.id)
    return (moved.id, shown) if shown is not None else _of_batch(source, call, moved.id)


def _entry(source: Source, call: ast.Call, moved: ast.Subscript) -> ast.AST | None:
    """What says that `batch[k]` is a tensor: a condition on its device, or that it is an entry of a batch."""
    code, up = source.code(moved), source.parents.get(source.parents[call])
    if "\n" in code:
        return None
    if (
        isinstance(up, ast.If)
        and source.parents[call] in up.body
        and f"{code}.device" in source.code(up.test)
    ):
        return up
    if not _is_batch(dotted(moved.value)):
        return None
    uses = (
        one for one in source.of_kind(ast.Call, function_of(source, call)) if source.code(one.func) == code
    )
    return None if any(uses) else moved.value


def _of_batch(source: Source, call: ast.Call, name: str) -> tuple[str, ast.AST | None]:
    """Where a name is bound as one of the parts of a batch, and by nothing else, and is used as no module is."""
    scope, bound, target = function_of(source, call), list[ast.AST](), name
    for node in source.names(scope).get(name, ()):
        up = source.parents.get(node)
        if not isinstance(node.ctx, ast.Load):
            whole = source.parents.get(up) if isinstance(up, ast.Tuple) else None
            if isinstance(whole, ast.Assign) and _is_batch(dotted(whole.value)):
                bound.append(whole.value)
            elif isinstance(whole, (ast.For, ast.AsyncFor)) and isinstance(up, ast.Tuple) and _in_loop(whole):
                bound.append(whole.iter)
                if _of_items(whole.iter, "items") and isinstance(up.elts[0], ast.Name):
                    target = f"{_of_items(whole.iter, 'items')}[{up.elts[0].id}]"
            else:
                return "", None
        elif _is_of_module(node, up):
            return "", None
    return target, bound[0] if bound else None


def _is_of_module(node: ast.expr, up: ast.AST | None) -> bool:
    """Is a name called, unpacked with `**`, or read for something that tensors lack?"""
    if isinstance(up, ast.Attribute):
        return up.attr not in _HAS
    return (isinstance(up, ast.Call) and up.func is node) or (isinstance(up, ast.keyword) and up.arg is None)


def _in_loop(loop: ast.For | ast.AsyncFor) -> bool:
    """Does a loop go over batches, or over the entries of one?"""
    if path := _of_items(loop.iter, "items", "values"):
        return _is_batch(path)
    inner = loop.iter
    while isinstance(inner, ast.Call) and inner.args:
        inner = inner.args[0]  # enumerate, tqdm
    return looks_like_loader(dotted(inner)) or _is_batch(dotted(inner))


def _of_items(node: ast.expr, *methods: str) -> str:
    """`batch` of `batch.items()`; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        return dotted(node.func.value)
    return ""


def _is_batch(path: str) -> bool:
    """Is a name one that people give what a loader or a tokenizer yields?"""
    return path.rpartition(".")[2].lower().endswith(_BATCHES)


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
