"""Parts of one batch, of which some are moved where they are read and one is not.

`logits = model(batch["ids"].to(device))` says where the function works; `logits * batch["mask"]` does not meet it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.findings import AppendCall
from devfix.flow import Flow
from devfix.flow.evidence import looks_like_loss
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Where
from devfix.inputs.hints import Hint, device_text, moved_to
from devfix.placing import dotted
from devfix.source import Source, remembered

COUNTS = re.compile(r"(?:^|_)(?:x_|y_)?(?:len|lens|lengths?|sizes?|counts?)$|_(?:len|lens|lengths?)(?:_|$)")
_LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "kl_div",
     "binary_cross_entropy_with_logits", "huber_loss", "cosine_embedding_loss", "margin_ranking_loss"}
)  # fmt: skip
_HOSTED = frozenset(
    {"to", "cuda", "cpu", "device", "numpy", "tolist", "item", "is_cuda", "type_as", "get_device"}
)
_HELPERS = ("device", "cuda", "prepare", "collate", "move", "_to", "to_", "tensor", "numpy", "send")


@dataclass
class _Part:
    """`batch["mask"]`, or the `y` of `x, y = batch`."""

    text: str
    made: ast.expr | None = None  # where a name is bound to it
    reads: list[ast.expr] = field(default_factory=list)


def batches(flow: Flow) -> Iterator[Hint]:
    """Every part that stays behind and meets what is on the device."""
    source = flow.source
    if ".to(" not in source.text and ".cuda(" not in source.text:
        return
    for scope in flow.scopes:
        if scope.host or scope.owned:
            continue
        code = source.text if isinstance(scope.node, ast.Module) else source.code(scope.node)
        if ".to(" not in code and ".cuda(" not in code:
            continue
        nodes = _own(source, scope.node)
        for group in (*_keyed(source, nodes), *_unpacked(source, nodes)):
            yield from _left(flow, nodes, group)


def _keyed(source: Source, nodes: list[ast.AST]) -> Iterator[list[_Part]]:
    """The entries that are read of one dict or sequence."""
    roots: dict[str, dict[str, _Part]] = {}
    names: dict[str, _Part] = {}
    for node in nodes:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
        ):
            path = path_of(node)
            if not path:
                continue
            part = roots.setdefault(node.value.id, {}).setdefault(path, _Part(path))
            alias = _alias(source, node)
            if alias:
                part.made, names[alias] = node, part
            else:
                part.reads.append(node)
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            names[node.id].reads.append(node)
    for root, parts in roots.items():
        if len(parts) > 1 and not _handled(source, nodes, root):
            yield list(parts.values())


def _alias(source: Source, node: ast.Subscript) -> str:
    """`m` of `m = batch["mask"]`, alone or in a tuple."""
    up = source.parents.get(node)
    if isinstance(up, ast.Assign) and len(up.targets) == 1:
        return dotted(up.targets[0])
    statement = source.parents.get(up) if isinstance(up, ast.Tuple) else None
    if isinstance(up, ast.Tuple) and isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Tuple) and len(target.elts) == len(up.elts):
            return dotted(target.elts[up.elts.index(node)])
    return ""


def _handled(source: Source, nodes: list[ast.AST], root: str) -> bool:
    """Is the whole moved, or given to what may move it, or are parts of it set?"""
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id != root:
            continue
        up = source.parents.get(node)
        if isinstance(up, ast.Subscript) and not isinstance(up.ctx, ast.Load):
            return True
        if isinstance(up, ast.Attribute) and up.attr in (*_HOSTED, "items", "keys", "values", "update"):
            return True
        if isinstance(up, (ast.For, ast.AsyncFor, ast.comprehension)) and up.iter is node:
            return True
        if isinstance(up, ast.Call) and node in up.args:
            last = dotted(up.func).rpartition(".")[2].lower()
            if any(word in last for word in _HELPERS):
                return True
    return False


def _unpacked(source: Source, nodes: list[ast.AST]) -> Iterator[list[_Part]]:
    """The names of `x, y = batch`."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Name):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and all(isinstance(one, ast.Name) for one in target.elts):
            parts = {one.id: _Part(one.id) for one in target.elts if isinstance(one, ast.Name)}
            stored = 0
            for one in nodes:
                if isinstance(one, ast.Name) and one.id in parts:
                    if isinstance(one.ctx, ast.Load):
                        parts[one.id].reads.append(one)
                    elif not _moves_itself(source, one):
                        stored += 1
            if stored == len(parts):  # none is bound to anything else
                yield list(parts.values())


def _moves_itself(source: Source, name: ast.Name) -> bool:
    """`x = x.to(device)` of the first `x` in it."""
    statement = source.parents.get(name)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("to", "cuda")
        and dotted(value.func.value) == name.id
    )


def _left(flow: Flow, nodes: list[ast.AST], group: list[_Part]) -> Iterator[Hint]:
    source = flow.source
    moves = [(part, read, call) for part in group for read in part.reads if (call := _move(source, read))]
    if not moves:
        return
    moved, _, first = moves[0]
    device = device_text(moved_to(first))
    if not device or device.strip('"') == "cpu":
        return
    spread = {
        word.value.id
        for node in nodes
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg is None and isinstance(word.value, ast.Name)
    }
    homes = {_home(source, call) for _, _, call in moves} & spread
    for part in group:
        if COUNTS.search(part.text.rstrip("'\"]")) or any(_hosted(source, read) for read in part.reads):
            continue
        for read in part.reads:
            where = flow.value(read).place.where
            if _home(source, read) in homes:
                if where not in (Where.UNKNOWN, Where.OF, Where.DEFAULT):
                    continue
            elif where not in (Where.UNKNOWN, Where.OF) or not _meets(flow, read):
                continue
            node = part.made if part.made is not None else read
            yield Hint(
                node,
                f"`{moved.text}` is moved to `{device}`, and `{part.text}`, which comes with it, is not",
                f"move `{part.text}` as well",
                (AppendCall(source.span(node), _suffix(source, first)),)
                if _written(nodes, device, node)
                else (),
                first,
                f"`{moved.text}` is moved here",
            )
            return


def _home(source: Source, node: ast.expr) -> str:
    """The dict of which it is an entry: `inputs = {"mask": m}`, `inputs["mask"] = m if wanted else None`."""
    child: ast.AST = node
    up = source.parents.get(child)
    while isinstance(up, ast.IfExp) and child is not up.test:
        child, up = up, source.parents.get(up)
    target: ast.expr | None = None
    statement = source.parents.get(up) if isinstance(up, ast.Dict) else up
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    if isinstance(up, ast.Assign):
        target = target.value if isinstance(target, ast.Subscript) else None
    return target.id if isinstance(target, ast.Name) else ""


def _suffix(source: Source, move: ast.Call) -> str:
    """`.to(device, non_blocking=True)` of a move."""
    func = move.func
    return source.code(move)[len(source.code(func.value)) :] if isinstance(func, ast.Attribute) else ""


def _written(nodes: list[ast.AST], device: str, node: ast.expr) -> bool:
    """Can the device be written at a place: is its name bound above it, if it is bound here?"""
    root = device.partition(".")[0].partition("(")[0]
    return all(
        (one.lineno, one.col_offset) < (node.lineno, node.col_offset)
        for one in nodes
        if isinstance(one, ast.Name) and one.id == root and isinstance(one.ctx, ast.Store)
    )


def _move(source: Source, read: ast.expr) -> ast.Call | None:
    """`x.to(device)` of the `x` in it."""
    up = source.parents.get(read)
    call = source.parents.get(up) if isinstance(up, ast.Attribute) and up.attr in ("to", "cuda") else None
    return call if isinstance(call, ast.Call) and call.func is up else None


def _hosted(source: Source, read: ast.expr) -> bool:
    """Is it moved, read on the host, or asked where it is?"""
    up: ast.AST | None = source.parents.get(read)
    while isinstance(up, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(up, ast.Attribute) and up.attr in _HOSTED:
            return True
        if isinstance(up, ast.Call) and any(word in dotted(up.func).lower() for word in _HELPERS):
            return True
        up = source.parents.get(up)
    return isinstance(up, (ast.For, ast.comprehension)) or isinstance(source.statement(read), ast.For)


def _meets(flow: Flow, read: ast.expr) -> bool:
    """Does it meet what is on the device, in an operation or a loss?"""
    up = flow.source.parents.get(read)
    if isinstance(up, ast.BinOp):
        return any(one is not read and _there(flow, one) for one in (up.left, up.right))
    if isinstance(up, ast.Compare):
        return any(one is not read and _there(flow, one) for one in (up.left, *up.comparators))
    if isinstance(up, ast.Call) and read in up.args[:2] and _compares(dotted(up.func)):
        return any(one is not read and _there(flow, one) for one in up.args[:2])
    return False


@remembered
def _own(source: Source, scope: ast.AST) -> list[ast.AST]:
    """The nodes of a scope, without those of the functions in it; nobody may change the list."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def _compares(path: str) -> bool:
    """Is it the name of a loss, whose first two arguments must be in one place?"""
    last = path.rpartition(".")[2]
    return last in _LOSSES or looks_like_loss(path) or last in ("crit", "criteria", "ce", "mse", "bce")


def _there(flow: Flow, node: ast.expr) -> bool:
    """Is it a tensor on a device, as far as flow knows?"""
    value = flow.value(node)
    return value.kind is Kind.TENSOR and value.place.on_device and value.form != "scalar"
