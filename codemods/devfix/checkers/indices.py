"""Indices on a device, of tensors that are not there.

`X[i].to(device)` says that X is elsewhere, most often on the CPU; an index that was moved to that device before raises
there, while an index on the CPU is legal anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers.signs import root_name
from devfix.engine.analysis import Analysis
from devfix.findings import AppendCall, Edit, Finding, Fix, Related, ReplaceExpression, Safety
from devfix.text.names import Scope, path_of
from devfix.text.placing import stores
from devfix.text.source import Source

CODEMOD = "move-inputs"
_MOVES = frozenset({"to", "cuda"})
_ELSEWHERE = _MOVES | {"cpu", "numpy", "type_as"}
_JOINS = frozenset({"cat", "stack", "concat", "concatenate", "where"})


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    for call in source.calls if CODEMOD in wanted and source.has("[") else ():
        func = call.func
        told = list[Finding]()
        if isinstance(func, ast.Attribute) and func.attr in _MOVES:
            told += _picked_and_moved(source, call, func.value)
        elif isinstance(func, (ast.Attribute, ast.Name)) and source.code(func).rpartition(".")[2] in _JOINS:
            told += _joined(source, call)
        for finding in told:
            yield finding, {source.position(finding.span.start)[0]}


def _device(source: Source, node: ast.AST) -> tuple[str, ast.expr | None]:
    """The device that a value is put on where it is made, and its node: `x.to(D).view(-1)`, `rand(n, device=D)`."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        given = [one.value for one in node.keywords if one.arg == "device"]
        moves = isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda", "cpu")
        if given or (moves and node.args):
            device = (given or node.args)[0]
            text = source.code(device).replace("'", '"')
            return (
                ("", None)
                if "dtype" in text or text.startswith(("torch.float", "torch.long"))
                else (text, device)
            )
        if not isinstance(node.func, ast.Attribute) or moves:
            return f'"{node.func.attr}"' if isinstance(node.func, ast.Attribute) else "", None
        node = node.func.value
    return "", None


def _picked(node: ast.AST) -> ast.Subscript | None:
    """`X[i]` of `X[i].view(-1)`; None where something else moves it on the way."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _ELSEWHERE:
            return None
        node = node.func.value
    return node if isinstance(node, ast.Subscript) else None


def _scope(source: Source, node: ast.AST) -> Scope:
    around = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    return around if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) else source.tree


def _picked_and_moved(source: Source, call: ast.Call, value: ast.expr) -> Iterator[Finding]:
    """`i = i.to(device)`, and then `X[i].to(device)`."""
    picked, device = _picked(value), _device(source, call)[0]
    index = picked.slice if picked is not None else None
    if picked is None or not isinstance(index, ast.Name) or device in ("", '"cpu"'):
        return
    scope, base = _scope(source, call), path_of(picked.value)
    home, written, made = _made_there(source, scope, index, device, f"{base}.device" if base else "")
    if made is None or not home or _is_placed(source, scope, picked.value, source.statement(call)):
        return
    edit: Edit = AppendCall(source.span(index), f".to({home})")
    node: ast.expr = picked
    if written is not None and (home != f"{base}.device" or _is_only_index(source, scope, index.id, base)):
        node, edit = made, ReplaceExpression(source.span(written), home)
    base = source.code(picked.value)
    message = (
        f"`{index.id}` is moved to `{source.code(written) if written is not None else device}`, but indexes `{base}`, "
        "which is not there: this raises. The fix assumes that only the selected rows are needed there"
    )
    fix = Fix(f"keep `{index.id}` where `{base}` is", (edit,), Safety.UNSAFE)
    related = (Related(source.span(call), "the selected rows are moved here"),)
    yield Finding(CODEMOD, source.span(node), message, fix, related)


def _made_there(
    source: Source, scope: Scope, index: ast.Name, device: str, home: str
) -> tuple[str, ast.expr | None, ast.expr | None]:
    """Where an index belongs that is bound on the device, the device as it is written, and what is bound.

    If it is made in two arms, the other one asks where the tensor is.
    """
    before = [source.statement(one) for one in stores(source, scope, index.id)]
    before = [one for one in before if source.span(one).end < source.span(index).start]
    around = set(source.ancestors(index))
    if not before or not all(
        isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) for one in before
    ):
        return "", None, None
    arms = before[-1:] if source.parents[before[-1]] in around else before[-2:]
    ups = {source.parents[one] for one in arms}
    up = ups.pop()
    if ups or (len(arms) == 1) is not (up in around):
        return "", None, None
    if len(arms) == 2 and not (isinstance(up, ast.If) and arms[0] in up.body and arms[1] in up.orelse):
        return "", None, None
    values = [one.value for one in arms if isinstance(one, ast.Assign)]
    there = [one for one in values if _device(source, one)[0] == device]
    homes = [_device(source, one)[0] for one in values if one not in there]
    if len(there) != 1 or not all(one.endswith(".device") for one in homes):
        return "", None, None
    return homes[0] if homes else home, _device(source, there[0])[1], there[0]


def _is_placed(source: Source, scope: Scope, picked: ast.expr, here: ast.stmt) -> bool:
    """Is what is picked of, or what it is a part of, put on some device in this function?"""
    if _device(source, picked)[0]:
        return True
    bound = [source.statement(one) for one in stores(source, scope, root_name(picked))]
    for one in source.of_kind(ast.Assign, scope):
        if one is not here and (one in bound or path_of(picked) in map(path_of, one.targets)):
            if any(
                _device(source, call)[0] not in ("", '"cpu"') for call in source.of_kind(ast.Call, one.value)
            ):
                return True
    return False


def _is_only_index(source: Source, scope: Scope, name: str, base: str) -> bool:
    """Is a name read as an index of that tensor only, or to be bound anew?"""
    for read in source.names(scope).get(name, ()):
        up, statement = source.parents[read], source.statement(read)
        if isinstance(read.ctx, ast.Store):
            continue
        if isinstance(up, ast.Subscript) and up.slice is read and path_of(up.value) == base:
            continue
        if isinstance(statement, ast.Assign) and [path_of(one) for one in statement.targets] == [name]:
            continue
        return False
    return True


def _joined(source: Source, call: ast.Call) -> Iterator[Finding]:
    """`cat((X[s.ids.long()], s.tokens.to(where X is)))`: of one object one part is moved, the other not."""
    parts = [
        part for one in call.args for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])
    ]
    for part in parts:
        picked = _picked(part)
        base = path_of(picked.value) if picked is not None else ""
        if (
            picked is None
            or not base
            or isinstance(picked.slice, ast.Name)
            or _device(source, picked.slice)[0]
        ):
            continue
        whole = root_name(picked.slice)
        for other in parts:
            device = _device(source, other)[1]
            if other is part or device is None or not whole or root_name(other) != whole:
                continue
            text = source.code(device)
            bound = [source.statement(one) for one in stores(source, _scope(source, call), text)]
            homes = {text, *(source.code(value) for one in bound if (value := getattr(one, "value", None)))}
            if homes & {f"{base}.device", f"{base}.get_device()"}:
                message = (
                    f"`{source.code(picked.slice)}` indexes `{base}` without being moved there first, unlike "
                    f"another part of `{whole}`. The fix assumes that both parts are on the same device"
                )
                edit = AppendCall(source.span(picked.slice), f".to({text})")
                fix = Fix(f"move it to `{text}`", (edit,), Safety.UNSAFE)
                related = (Related(source.span(other), "the other part is moved here"),)
                yield Finding(CODEMOD, source.span(picked.slice), message, fix, related)
