"""Modules that are made without the `.to(device)` of all others of their kind beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.bindings import function_around
from devfix.findings import AppendCall
from devfix.flow.frame import path_of
from devfix.flow.methods import MOVES
from devfix.placing import bound_before
from devfix.source import Source
from devfix.unmoved.others import Left, move_of

_WORD = re.compile(r"[A-Z][a-z0-9]+$|[A-Z]+$")
# Classes in whose dicts of modules only some have weights at all.
_OTHERS = re.compile(r"Loader|Dataset|Sampler|Optim|Scheduler|Writer|Tokenizer|Processor|Config")


def beside(source: Source) -> Iterator[Left]:
    """`losses["mel"] = MelLoss()` where the other entries end in `.to(device)`; a kernel among kernels."""
    if ").to(" not in source.text and ").cuda(" not in source.text:
        return
    groups: dict[tuple[ast.AST, str], list[tuple[str, ast.expr]]] = {}
    for statement in source.walk():
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        function: ast.AST = function_around(source, statement) or source.tree
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            key = (function, f"{path_of(target.value)}[]")
            groups.setdefault(key, []).append((path_of(target), value))
        elif isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            key = (function, f"{target.id}[]")
            for at, one in zip(value.keys, value.values, strict=True):
                if isinstance(at, ast.Constant):
                    groups.setdefault(key, []).append((f"{target.id}[{at.value!r}]", one))
        elif isinstance(target, ast.Name) and isinstance(value, ast.Call):
            move = move_of(value)
            kind = _kind(_root(value))
            if kind and (move is None or (move.keywords and not move.args)):
                groups.setdefault((function, kind), []).append((target.id, value))
    for (function, group), entries in groups.items():
        yield from _unlike(source, function, group, entries)


def _kind(call: ast.Call | None) -> str:
    """The last word of the name of a class: `Kernel` of `MaternKernel`."""
    found = _WORD.search(path_of(call.func)) if call is not None else None
    return found.group() if found is not None else ""


def _root(value: ast.expr) -> ast.Call | None:
    """The call of the constructor at the root of a chain, where that is a class."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr[:1].isupper():
            break
        value = value.func.value
    if not isinstance(value, ast.Call):
        return None
    last = path_of(value.func).rpartition(".")[2]
    return value if last[:1].isupper() or last.endswith("_class") else None


def _unlike(
    source: Source, function: ast.AST, group: str, entries: list[tuple[str, ast.expr]]
) -> Iterator[Left]:
    moves = [(path, move) for path, value in entries for move in [move_of(value)] if move is not None]
    left = [(path, value) for path, value in entries if move_of(value) is None and _root(value) is value]
    enough = 2 if group.endswith("[]") else 1
    if len(moves) < enough or len(left) != 1 or len(moves) + 1 != len(entries):
        return
    path, value = left[0]
    assert isinstance(value, ast.Call)
    name = path_of(value.func)
    ends = {_suffix(source, move) for _, move in moves}
    if len(ends) != 1 or _OTHERS.search(name) or not (group.endswith("[]") or source.qualified(value.func)):
        return
    code = source.text if isinstance(function, ast.Module) else source.code(function)
    base = re.escape(path_of(value) or path)
    whole = re.escape(group[:-2]) if group.endswith("[]") else base
    if "device" in source.code(value) or re.search(rf"{base}\.(?:to|cuda)\(|\bin {whole}\b", code):
        return
    suffix = ends.pop()
    if not bound_before(source, ast.parse(f"x{suffix}", mode="eval").body, source.statement(value)):
        return
    why = f"`{path}` is made here without `{suffix}`, unlike `{moves[0][0]}` and others around it"
    yield Left(value, path, why, moves[0][1], suffix, (AppendCall(source.span(value), suffix),))


def _suffix(source: Source, move: ast.Call) -> str:
    assert isinstance(move.func, ast.Attribute) and move.func.attr in MOVES
    return source.text[source.span(move.func.value).end : source.span(move).end].strip()
