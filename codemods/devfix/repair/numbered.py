"""The first device instead of one that is not there: `cuda:1`, or 1, where it is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from devfix.repair.reading import FUNCTIONS, Fixes, Reading, Running
from devfix.repair.without_cuda import bound, name_of, near
from devfix.repair.written import dotted, replaced
from devfix.text.source import Source

_OTHER = re.compile(r"cuda:(?!0+$)\d{1,2}")
_KEYWORDS = frozenset({"device", "device_id", "device_ids", "device_index", "map_location", "output_device"})
_METHODS = frozenset({"cuda", "to"})
_SETTING = ("torch.cuda.set_device", "torch.set_default_device")
_Value = tuple[str, Source, ast.expr, bool]  # the path, and whether a number in it is that of a device


def of_one_device(error: Reading, running: Running) -> Fixes:
    """The first device in the call that has raised, or where what it was given comes from; else where one is set."""
    path, source, call = running
    todo: list[_Value] = [(path, source, value, number) for value, number in _given(source, call)]
    for path, known in near(error):
        for node in known.walk():
            if isinstance(node, ast.Call) and dotted(known, node.func) in _SETTING:
                todo += [(path, known, value, number) for value, number in _given(known, node)]
    names: set[tuple[str, bool]] = set()
    found: list[ast.expr] = []
    while todo:
        path, known, value, number = todo.pop(0)
        for node, text, numbered in _parts(known, value, number):
            name = name_of(node)
            if text and node not in found:
                found.append(node)
                title = f"use the first device instead of {known.code(node)}"
                yield path, node, title, (replaced(known, node, text),)
            elif name and (name, numbered) not in names:
                names.add((name, numbered))
                origins = [
                    *_handed(error, name),
                    *((*one, here) for one in near(error) for here in bound(one[1], {name})),
                ]
                todo = [*((*origin, numbered) for origin in origins), *todo]


def _given(source: Source, call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    """What a call was given; and whether a number there is that of a device."""
    name = dotted(source, call.func)
    last = name.rpartition(".")[2]
    many = last in ("DataParallel", "DistributedDataParallel")
    first = name.startswith("torch.cuda.") or name in (*_SETTING, "torch.device") or last in _METHODS
    for place, value in enumerate(call.args):
        yield (
            value,
            place > 0 if many or (name == "torch.device" and len(call.args) > 1) else first and not place,
        )
    for one in call.keywords:
        yield one.value, one.arg in _KEYWORDS


def _parts(source: Source, value: ast.expr, number: bool) -> Iterator[tuple[ast.expr, str, bool]]:
    """The parts of a value that name a device, each with what would name the first; empty for names of values."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str) and _OTHER.fullmatch(value.value):
            yield value, '"cuda:0"', number
        elif type(value.value) is int and value.value and number:
            yield value, "0", number
    elif isinstance(value, (ast.List, ast.Tuple)):
        numbers = all(isinstance(one, ast.Constant) and type(one.value) is int for one in value.elts)
        if number and numbers and len(value.elts) > 1 and isinstance(value, ast.List):
            yield value, "[0]", number  # each device once
            return
        for one in value.elts:
            yield from _parts(source, one, number)
    elif isinstance(value, ast.Call):
        yield from (
            part
            for one, numbered in _given(source, value)
            for part in _parts(source, one, numbered or number)
        )
    elif isinstance(value, ast.JoinedStr):
        named = any(isinstance(one, ast.Constant) and one.value == "cuda:" for one in value.values)
        for piece in value.values:
            if isinstance(piece, ast.FormattedValue) and named:
                yield from _parts(source, piece.value, True)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        named = isinstance(value.left, ast.Constant) and value.left.value == "cuda:"
        yield from _parts(source, value.right, named or number)
    elif isinstance(value, (ast.IfExp, ast.BoolOp)):
        for one in (value.body, value.orelse) if isinstance(value, ast.IfExp) else value.values:
            yield from _parts(source, one, number)
    elif isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Constant):
        yield from _parts(source, value.value, number)
    elif isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
        yield value, "", number
        if isinstance(value, ast.Subscript) and type(getattr(value.slice, "value", None)) is int:
            yield from _parts(source, value.value, number)  # `devices[1]`


def _handed(error: Reading, name: str) -> Iterator[tuple[str, Source, ast.expr]]:
    """What the functions that an error has passed were called with for a parameter of this name."""
    for inner, outer in pairwise(error.seen.passed):
        source, around, call = (
            error.source(inner.at.path),
            error.source(outer.at.path),
            error.node(outer.at, ast.Call),
        )
        if source is None or around is None or not isinstance(call, ast.Call):
            continue
        for function in source.walk():
            if (
                not isinstance(function, FUNCTIONS)
                or getattr(function, "name", "<lambda>") != inner.at.function
            ):
                continue
            if not function.lineno <= inner.at.line <= (function.end_lineno or 0):
                continue
            places = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            places = places[places[:1] in (["self"], ["cls"]) :]
            if name in places[: len(call.args)]:
                yield outer.at.path, around, call.args[places.index(name)]
            yield from ((outer.at.path, around, one.value) for one in call.keywords if one.arg == name)
