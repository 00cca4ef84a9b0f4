"""`reorder-to`: a parameter, or a tensor that is to be learned, that is moved after it was made one.

What `.to(device)` gives on an accelerator is the result of an operation, not a leaf of the graph: no `nn.Parameter`,
so no module registers it, and nothing that an optimizer takes
(https://pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.events import MOVES
from devfix.engine.files import Function
from devfix.findings import AppendCall, Finding, Fix, ReplaceText, Safety, Span
from devfix.models import torch_api

CODEMOD = "reorder-to"


def findings(analysis: Analysis) -> Iterator[Finding]:
    """One finding for each parameter, or tensor to be learned, that is made on the CPU and moved at once."""
    source, file = analysis.file.source, analysis.file
    for name in sorted(MOVES):
        for move in source.calls_by_name.get(name, ()):
            func = move.func
            if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Call):
                continue
            made, stored = func.value, _stored(source.parents.get(move), move)
            is_parameter = file.dotted(made.func) in torch_api.PARAMETERS
            if stored is None or not (is_parameter or _is_learned(made)) or move not in analysis.left_host:
                continue
            # What a module keeps by `.cuda()` is hard-coded-cuda's, which drops the move.
            kept = is_parameter and name != "cuda" and _is_registered(stored, analysis)
            if not kept and not _is_optimized(stored, analysis):
                continue
            kind = "parameter" if is_parameter else "leaf"
            yield Finding(
                CODEMOD,
                source.span(move),
                f"{quoted(source, made)} is moved after it was made a {kind}: the copy on an accelerator is none, so "
                f"`{source.code(stored)}` is not learned there. The fix moves what it is made of",
                _fix(made, move, is_parameter, analysis),
            )


def _stored(up: ast.AST | None, move: ast.Call) -> ast.expr | None:
    """The only name or attribute that keeps the copy."""
    if isinstance(up, ast.Assign) and up.value is move and len(up.targets) == 1:
        target = up.targets[0]
        return target if isinstance(target, (ast.Name, ast.Attribute)) else None
    return None


def _is_learned(made: ast.Call) -> bool:
    """`f(.., requires_grad=True)`"""
    return any(
        one.arg == "requires_grad" and isinstance(one.value, ast.Constant) and one.value.value is True
        for one in made.keywords
    )


def _is_registered(stored: ast.expr, analysis: Analysis) -> bool:
    """Is it an attribute of the module whose method this is?"""
    node = analysis.file.source.enclosing(stored, ast.FunctionDef)
    method = analysis.file.of_node.get(node) if node is not None else None
    if not isinstance(method, Function) or method.owner is None or not isinstance(stored, ast.Attribute):
        return False
    me = stored.value.id if isinstance(stored.value, ast.Name) else ""
    return analysis.classes.is_module(method.owner) and method.positional[:1] == [me]


def _is_optimized(stored: ast.expr, analysis: Analysis) -> bool:
    """Is it given to an optimizer, in a list, or asked for its gradient?"""
    source, path = analysis.file.source, analysis.file.source.code(stored)
    if any(source.code(one.value) == path for one in source.of_kind(ast.Attribute) if one.attr == "grad"):
        return True
    for call in source.of_kind(ast.Call):
        if analysis.file.dotted(call.func).startswith("torch.optim.") and call.args:
            listed = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else []
            if any(source.code(one) == path for one in listed):
                return True
    return False


def _fix(made: ast.Call, move: ast.Call, is_parameter: bool, analysis: Analysis) -> Fix | None:
    source = analysis.file.source
    end = Span(source.span(made).end, source.span(move).end)
    moved = source.text[end.start : end.end]
    if "\n" in moved or "#" in moved or not moved.startswith("."):
        return None
    if not is_parameter:
        text = f".detach(){moved}.requires_grad_()"
        return Fix("make it a leaf after the move", (ReplaceText(end, text),), Safety.UNSAFE)
    data = next((one.value for one in made.keywords if one.arg == "data"), None)
    data = made.args[0] if made.args and not isinstance(made.args[0], ast.Starred) else data
    if data is None:
        return None
    return Fix(
        "move what it is made of", (AppendCall(source.span(data), moved), ReplaceText(end, "")), Safety.UNSAFE
    )
