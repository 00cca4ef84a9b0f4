"""Fixes of a run without CUDA: where the program names CUDA, it takes it only if it is there."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Set

from devfix.engine.events import moved_by
from devfix.findings import Edit, EnsureImport, WrapStatement
from devfix.repair.reading import Fixes, Reading, Running
from devfix.repair.written import replaced, short
from devfix.text.source import Source

_CUDA = frozenset({"cuda"})  # the move
_NAMED = re.compile(r"cuda(?::\d{1,2})?")
_STATEMENTS = ("synchronize", "set_device", "init", "ipc_collect", "reset_peak_memory_stats")


def if_there(error: Reading, running: Running) -> Fixes:
    """CUDA if there is one, in the call that has raised, or else where the device that it was given is named."""
    path, source, call = running
    if error.seen.operation in _STATEMENTS and isinstance(source.parents[call], ast.Expr):
        torch, imports = _torch(source)
        header = f"if {torch}.cuda.is_available():"
        edits = (WrapStatement(source.span(source.statement(call)), header), *imports)
        yield path, call, f"call `{short(source.code(call))}` only if there is CUDA", edits
        return
    if moved_by(call, _CUDA) is not None:
        yield path, call, "move it to CUDA only if there is one", _moved(source, call)
        return
    for file, known, literal in _where_named(error, path, source, call):
        yield file, literal, f"use {ast.unparse(literal)} only if there is CUDA", _chosen(known, literal)


def at_name(source: Source, place: ast.expr, literal: ast.expr) -> tuple[Edit, ...]:
    """The same where an expression names CUDA by `literal`, which is a part of it, or the move that it is."""
    if isinstance(literal, ast.Call) and moved_by(literal, _CUDA) is not None:
        return _moved(source, literal)
    if literal is place and isinstance(
        source.parents[place], (ast.BinOp, ast.Attribute, ast.Subscript, ast.Compare)
    ):
        return ()
    return _chosen(source, literal)


def _where_named(
    error: Reading, path: str, source: Source, call: ast.Call
) -> Iterator[tuple[str, Source, ast.Constant]]:
    """The literals that a call was given, or else those that what it was given may be, in the files near it."""
    given = [*call.args, *(one.value for one in call.keywords)]
    literal = next((one for value in given for one in _literals(value)), None)
    if literal is not None:
        yield path, source, literal
        return
    names = {name for value in given if (name := name_of(value))}
    for begun, known in near(error):
        for value in bound(known, names):
            yield from ((begun, known, one) for one in _literals(value))


def near(error: Reading) -> Iterator[tuple[str, Source]]:
    """The files that an error has passed, and those that they import."""
    passed = list(dict.fromkeys(frame.at.path for frame in error.seen.passed))
    for path in dict.fromkeys(
        [*passed, *(one for importing in passed for one in _imported(error, importing))]
    ):
        source = error.source(path)
        if source is not None:
            yield path, source


def _imported(error: Reading, path: str) -> Iterator[str]:
    """The files beside a file, or above it, from which it imports names."""
    source = error.source(path)
    for full in source.imports.values() if source is not None else ():
        module = full.rpartition(".")[0].lstrip(".").split(".")
        folder = os.path.dirname(path)
        for base in (folder, os.path.dirname(folder)):
            found = f"{os.path.join(base, *module)}.py"
            if os.path.isfile(found):
                yield found


def _moved(source: Source, call: ast.Call) -> tuple[Edit, ...]:
    """`x.to("cuda" if torch.cuda.is_available() else "cpu")` in the place of `x.cuda()`."""
    assert isinstance(call.func, ast.Attribute)
    named = [one for one in call.keywords if one.arg == "device"]
    number = next(iter([*call.args[:1], *(one.value for one in named)]), None)
    torch, imports = _torch(source)
    there = '"cuda"'
    if isinstance(number, ast.Constant) and isinstance(number.value, int):
        there = f'"cuda:{number.value}"'
    elif number is not None:
        there = f'{torch}.device("cuda", {source.code(number)})'
    rest = [source.code(one) for one in (*call.args[1:], *call.keywords) if one not in named]
    given = ", ".join([_choice(torch, there), *rest])
    return replaced(source, call, f"{source.code(call.func.value)}.to({given})"), *imports


def _chosen(source: Source, literal: ast.expr) -> tuple[Edit, ...]:
    torch, imports = _torch(source)
    return replaced(source, literal, _choice(torch, source.code(literal))), *imports


def _choice(torch: str, there: str) -> str:
    quote = there[0] if there[0] in "\"'" else '"'
    return f"{there} if {torch}.cuda.is_available() else {quote}cpu{quote}"


def _torch(source: Source) -> tuple[str, tuple[Edit, ...]]:
    name = source.local_name("torch")
    return (name, ()) if name else ("torch", (EnsureImport("torch"),))


def _literals(value: ast.expr) -> Iterator[ast.Constant]:
    """`"cuda"`, also in `torch.device("cuda")`, unless it is chosen if there is CUDA."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and _NAMED.fullmatch(value.value):
        yield value
    elif isinstance(value, ast.Call) and isinstance(value.func, (ast.Name, ast.Attribute)):
        for one in value.args[:1]:
            yield from _literals(one)


def name_of(value: ast.expr) -> str:
    """`device` of `device`, `self.device`, `args.device` and `config["device"]`."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value)
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


def bound(source: Source, names: Set[str]) -> Iterator[ast.expr]:
    """What something of one of these names is, by default or by an assignment."""
    for node in source.walk():
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(name_of(target) in names for target in targets):
                yield node.value
        elif isinstance(node, ast.arguments):
            last = (node.posonlyargs + node.args)[-len(node.defaults) :] if node.defaults else []
            pairs = [
                *zip(last, node.defaults, strict=True),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            yield from (one for argument, one in pairs if argument.arg in names and one is not None)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in names:
                    yield value
        elif isinstance(node, ast.Call):
            flags = {one.value.lstrip("-") for one in node.args if isinstance(one, ast.Constant)
                     and isinstance(one.value, str)}  # fmt: skip
            for one in node.keywords:
                if one.arg in names or (one.arg == "default" and flags & names):
                    yield one.value
