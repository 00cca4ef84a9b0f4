"""Networks in a dict of parts: some entries are moved by hand, and one that is run like them is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import Edit, InsertStatement
from devfix.flow import Flow
from devfix.flow.methods import MOVES
from devfix.placing import dotted
from devfix.source import Source

# What is done by hand with a network that nobody else looks after.
_BY_HAND = ("eval", "requires_grad_", "load_state_dict")


@dataclass(frozen=True)
class Entry:
    """An entry that stays behind, the statement that moves another one, and where it is run."""

    move: ast.Expr
    path: str
    other: str
    device: str
    run: ast.Call
    edits: tuple[Edit, ...]


def entries(flow: Flow) -> Iterator[Entry]:
    """`parts["a"].to(device)` next to a `parts["b"]` that is set to `eval()` and run, but not moved."""
    source = flow.source
    if '"].to(' not in source.text and "'].to(" not in source.text:
        return
    moved: dict[str, dict[str, ast.Expr]] = {}
    handled: dict[str, set[str]] = {}
    for statement in source.walk():
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        func = statement.value.func
        entry = _entry(func.value) if isinstance(func, ast.Attribute) else None
        if entry is None or not isinstance(func, ast.Attribute):
            continue
        if func.attr in MOVES:
            moved.setdefault(entry[0], {})[entry[1]] = statement
        elif func.attr in _BY_HAND:
            handled.setdefault(entry[0], set()).add(entry[1])
    for name, those in moved.items():
        texts = {ast.unparse(ast.Tuple(_arguments(one))) for one in those.values()}
        left = handled.get(name, set()) - those.keys()
        if len(those) < 2 or len(texts) != 1 or not left:
            continue
        for key in sorted(left):
            run = _run(source, name, key)
            if run is not None:
                last = max(those.values(), key=lambda one: one.lineno)
                yield _found(source, name, key, last, run)


def _entry(node: ast.expr) -> tuple[str, str] | None:
    """`parts` and `b` of `parts["b"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if isinstance(node.value, ast.Name) and isinstance(node.slice.value, str):
            return node.value.id, node.slice.value
    return None


def _arguments(statement: ast.Expr) -> list[ast.expr]:
    call = statement.value
    return [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []


def _run(source: Source, name: str, key: str) -> ast.Call | None:
    """Where the entry is run: as `parts["b"](x)`, or as an attribute of what holds the parts, `self.parts.b(x)`."""
    for call in source.calls:
        if not call.args:
            continue
        if _entry(call.func) == (name, key) or dotted(call.func) == f"self.{name}.{key}":
            return call
    return None


def _found(source: Source, name: str, key: str, last: ast.Expr, run: ast.Call) -> Entry:
    call = last.value
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    other, path = source.code(call.func.value), f'{name}["{key}"]'
    suffix = source.text[source.span(call.func.value).end : source.span(call).end]
    device = ", ".join(source.code(argument) for argument in _arguments(last)) or call.func.attr
    edits = (InsertStatement(source.span(last), f"{path}{suffix}"),)
    return Entry(last, path, other, device, run, edits)
