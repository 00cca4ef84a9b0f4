"""Classes whose `__init__` moves some of their parts by hand, and forgets one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.findings import AppendCall, Edit, InsertStatement
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.flow.methods import MOVES
from devfix.placing import around, dotted
from devfix.source import Source, walk
from devfix.unmoved.beside import is_layer
from devfix.unmoved.others import LAYERS, Left, move_of

_LOOP = re.compile(r"\bself\.(\w+)")


def half_moved(flow: Flow) -> Iterator[Left]:
    """`self.a.cuda()`, `self.b.cuda()` in an `__init__`, and a `self.c = nn.Linear(4, 2)` that stays behind."""
    source = flow.source
    if not re.search(r"self\.\w+\.(?:cuda|to)\(|\)\.(?:cuda|to)\(|for \w+ in self\.\w+\]", source.text):
        return
    for init in source.definitions:
        owner = source.parents[init]
        if isinstance(init, ast.FunctionDef) and init.name == "__init__" and isinstance(owner, ast.ClassDef):
            yield from _in_class(source, owner, init)


def _in_class(source: Source, owner: ast.ClassDef, init: ast.FunctionDef) -> Iterator[Left]:
    code = source.code(owner)
    if "def forward" not in code or re.search(
        r"\bself\.(?:to|cuda|to_empty)\(|\.module\.(?:to|cuda)\(", code
    ):
        return
    moved: dict[str, ast.Call] = {}
    made: dict[str, ast.Assign] = {}
    for node in walk(init):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            path = dotted(node.targets[0])
            if path.count(".") != 1 or not path.startswith("self.") or not isinstance(node.value, ast.Call):
                continue
            move = move_of(node.value)
            if move is not None:
                if _is_module(source, move):
                    moved[path] = move
            elif _is_weighted(source, node.value):
                made[path] = node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES:
            if node.func.attr != "cpu" and (node.args or node.func.attr == "cuda"):
                for path in _moved_parts(source, node):
                    moved[path] = node
    left = {path: one for path, one in made.items() if path not in moved}
    if len(moved) < 2 or not left or len(left) > 2 or len(left) >= len(moved):
        return
    if any(_stays(source, one, moved, left) for one in walk(init) if isinstance(one, ast.Call)):
        return  # most of it is left to whoever owns the object
    last = max(moved.values(), key=lambda one: one.lineno)
    suffix = source.text[source.span(last.func).start : source.span(last).end]
    assert isinstance(last.func, ast.Attribute)
    suffix = suffix[len(source.code(last.func.value)) :]
    for path, statement in left.items():
        if f"{path}(" not in code or re.search(rf"{re.escape(path)}\.(?:to|cuda|weight\s*=)", code):
            continue
        others = ", ".join(f"`{one}`" for one in list(moved)[-2:])
        why = f"`{path}` is not moved here, as {others} are, and nothing in this class moves it"
        edits = _edits(source, path, statement, last, suffix)
        below = any(isinstance(edit, InsertStatement) for edit in edits)
        at, other = (last, statement.value) if below else (statement.value, last)
        yield Left(at, path, why, other, suffix, edits)


def _stays(source: Source, call: ast.Call, moved: dict[str, ast.Call], left: dict[str, ast.Assign]) -> bool:
    """Is it a layer that is neither moved nor one of those that were counted: an item of a list, say?"""
    if not _is_weighted(source, call):
        return False
    statement = source.statement(call)
    code = source.code(statement)
    return statement not in left.values() and not any(f"{path}" in code for path in moved)


def _edits(source: Source, path: str, made: ast.Assign, last: ast.Call, suffix: str) -> tuple[Edit, ...]:
    if around(source, last)[-1] is not source.statement(last) or made.lineno > last.lineno:
        anchor = source.statement(last)
        if anchor.lineno < made.lineno:
            return ()
        return (InsertStatement(source.span(anchor), f"{path}{suffix}"),)
    return (AppendCall(source.span(made.value), suffix),)


def _moved_parts(source: Source, move: ast.Call) -> Iterator[str]:
    """`self.a` of `self.a.cuda()`, and `self.rnns` of `[x.cuda() for x in self.rnns]`."""
    assert isinstance(move.func, ast.Attribute)
    path = dotted(move.func.value)
    if path.startswith("self.") and path.count(".") == 1:
        if isinstance(source.parents[move], ast.Expr):
            yield path
    elif path:
        up = source.parents[move]
        if isinstance(up, (ast.ListComp, ast.GeneratorExp)) and len(up.generators) == 1:
            over = dotted(up.generators[0].iter)
            if path_of(up.generators[0].target) == path and over.count(".") == 1:
                yield over


def _is_module(source: Source, move: ast.Call) -> bool:
    """Is what is moved as it is made a module: a class by its name, not a factory of tensors?"""
    node = move.func.value if isinstance(move.func, ast.Attribute) else move
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr[:1].isupper():
            return node.func.attr not in ("Tensor", "LongTensor", "FloatTensor", "BoolTensor", "Parameter")
        node = node.func.value
    return (
        isinstance(node, ast.Call) and path_of(node.func)[:1].isupper() and "Tensor" not in path_of(node.func)
    )


def _is_weighted(source: Source, call: ast.Call) -> bool:
    name = source.qualified(call.func)
    told = any(keyword.arg in ("device", None) for keyword in call.keywords)
    return is_layer(name) and name.rpartition(".")[2].startswith(LAYERS) and not told
