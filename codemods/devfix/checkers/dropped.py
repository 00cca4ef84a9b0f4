"""`move-inputs`: moves whose result is dropped, since `Tensor.to` returns a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.certainty import is_proven
from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_batch_name, is_module_name
from devfix.engine.facts import Drop
from devfix.engine.files import Function
from devfix.engine.values import BATCH, DROP, ELEMENT, TENSOR, UNKNOWN
from devfix.findings import AssignResult, Finding, told
from devfix.models.loader import tensor_attributes
from devfix.repair.candidates import stays_on_host
from devfix.text.names import is_local
from devfix.text.placing import dotted
from devfix.text.source import Source

_MARK = "# %% [cell "  # of a notebook's text
_OF_LAYERS = frozenset({"weight", "bias", "data", "grad"})  # those of quantized layers move in place


def findings(analysis: Analysis) -> Iterator[Finding]:
    """One finding for each dropped move of a tensor."""
    source = analysis.file.source
    surest = sorted(analysis.mismatches, key=lambda one: -len(one.assumed))
    met = {link.node: one for one in surest for link in one.stray.links if link.kind == DROP}
    seen, left = set[ast.AST](), _left(analysis)
    for drop in analysis.drops:
        func = drop.node.func
        if drop.node in seen or drop.file is not analysis.file or not isinstance(func, ast.Attribute):
            continue
        moved, mismatch = func.value, met.get(drop.node)
        target = _target(drop, moved, analysis)
        if not target or (mismatch is None and _is_displayed(source, drop.node)):
            continue
        seen.add(drop.node)
        span, value = source.span(drop.node), drop.value
        safe = mismatch is not None and value.kind == TENSOR and is_proven(mismatch, analysis)
        writable = _is_local(drop, moved, source) and not (
            value.links and stays_on_host(value.links[0].node, analysis)
        )
        stays = f"{quoted(source, moved)} stays {'on the CPU' if value.place.on_host else 'where it is'}"
        message = f"the moved tensor is dropped: {stays}, since `Tensor.to` returns a copy"
        if mismatch is None and drop.function in left:
            writable = False  # what it meets stays where it was as well, as far as one can tell: they fit
        edits = (AssignResult(span, target),) if writable else ()
        assumes = "" if safe else "the copy is wanted from here on"
        yield told(
            "move-inputs", span, message, f"assign the moved tensor to `{target}`", edits, assumes=assumes
        )


def _target(drop: Drop, moved: ast.expr, analysis: Analysis) -> str:
    """What the copy has to be assigned to; an empty string for what may be no tensor, or moves in place."""
    source, value, path = analysis.file.source, drop.value, dotted(moved)
    if isinstance(moved, ast.Attribute) and moved.attr in _OF_LAYERS:
        return ""
    code = source.code(moved)
    if isinstance(moved, ast.Subscript):
        return code if "\n" not in code and _is_entry(drop, moved, source) else ""
    if value.kind == TENSOR and path:
        return path
    if (
        not isinstance(moved, ast.Name)
        or is_module_name(moved.id)
        or not _is_used_as_tensor(drop, moved, analysis)
    ):
        return ""
    bound = [one.node for one in value.links if one.kind == ELEMENT and isinstance(one.node, ast.Name)]
    if value.kind == BATCH:
        return moved.id if bound else ""
    return _of_batch(drop, moved.id, source) or (moved.id if _is_added_to(drop, moved.id, source) else "")


def _left(analysis: Analysis) -> set[Function | None]:
    """The functions that drop what a move of a name gives of which nothing tells whether it is a tensor."""
    told, open_ = set[ast.AST](), dict[ast.AST, Function | None]()
    for drop in analysis.drops:
        moved = drop.node.func.value if isinstance(drop.node.func, ast.Attribute) else None
        if drop.file is not analysis.file or not isinstance(moved, ast.Name) or is_module_name(moved.id):
            continue
        if _target(drop, moved, analysis):
            told.add(drop.node)
        elif drop.value.kind == UNKNOWN and _is_used_as_tensor(drop, moved, analysis):
            open_[drop.node] = drop.function
    return {function for node, function in open_.items() if node not in told}


def _is_entry(drop: Drop, moved: ast.Subscript, source: Source) -> bool:
    """`batch[k].to(device)`: of a batch by its name, or by a condition on the device of the entry."""
    up, code = source.parents.get(source.parents[drop.node]), source.code(moved)
    if isinstance(up, ast.If) and f"{code}.device" in source.code(up.test):
        return True
    called = any(source.code(one.func) == code for one in source.of_kind(ast.Call, _scope(drop)))
    return drop.value.kind in (UNKNOWN, BATCH) and is_batch_name(dotted(moved.value)) and not called


def _is_used_as_tensor(drop: Drop, moved: ast.Name, analysis: Analysis) -> bool:
    """Is a name neither called, nor unpacked, nor asked for what tensors lack, in the function?"""
    parents = analysis.file.source.parents
    for read in analysis.file.source.names(_scope(drop) or analysis.file.source.tree).get(moved.id, ()):
        up = parents.get(read)
        if isinstance(up, ast.Attribute) and up.attr not in tensor_attributes():
            return False
        if (isinstance(up, ast.Call) and up.func is read) or (isinstance(up, ast.keyword) and up.arg is None):
            return False
    return True


def _of_batch(drop: Drop, name: str, source: Source) -> str:
    """Where a name is bound as a part of what is called a batch, what the part is: `x`, or `batch[k]`."""
    target, bound = name, False
    for node in source.names(_scope(drop) or source.tree).get(name, ()):
        if isinstance(node.ctx, ast.Load):
            continue
        up = source.parents.get(node)
        whole = source.parents.get(up) if isinstance(up, ast.Tuple) else None
        over = (
            whole.value
            if isinstance(whole, ast.Assign)
            else whole.iter
            if isinstance(whole, ast.For)
            else None
        )
        if over is None or not isinstance(up, ast.Tuple):
            return ""
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "items":
            over = over.func.value
            target = f"{source.code(over)}[{source.code(up.elts[0])}]"
        if not is_batch_name(dotted(over)):
            return ""
        bound = True
    return target if bound else ""


def _is_added_to(drop: Drop, name: str, source: Source) -> bool:
    """`x += y`, where y is no constant and no list."""
    return drop.function is not None and any(
        isinstance(one.target, ast.Name)
        and one.target.id == name
        and not isinstance(one.value, (ast.Constant, ast.List))
        for one in source.of_kind(ast.AugAssign, drop.function.node)
    )


def _scope(drop: Drop) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    return drop.function.node if drop.function is not None else None


def _is_local(drop: Drop, moved: ast.expr, source: Source) -> bool:
    """Can the name be assigned to, where assigning to one of another scope would make it local, and unbound?"""
    return not isinstance(moved, ast.Name) or is_local(source, _scope(drop) or source.tree, moved.id)


def _is_displayed(source: Source, node: ast.AST) -> bool:
    """Is it all of the last statement of a notebook's cell, whose value is shown?"""
    statement, body = source.statement(node), source.tree.body
    if not source.text.startswith(_MARK) or statement not in body:
        return False
    index, end = body.index(statement), source.span(statement).end
    last = index + 1 == len(body)
    between = source.text[end : None if last else source.span(body[index + 1]).start]
    return (last or f"\n{_MARK}" in between) and not between.lstrip(" \t").startswith(";")
