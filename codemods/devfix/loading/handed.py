"""Loads whose place is named: another one than the function is asked for, or none unless somebody asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.bindings import FunctionNode, function_around
from devfix.checkers.left_out import settles_none
from devfix.flow.frame import path_of
from devfix.loading.calls import ARGUMENT, LOADERS, is_none_at
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def fixed(source: Source) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """`map_location="cpu"` in a function that hands its own `map_location` to its other calls."""
    if source.text.count(f"{ARGUMENT}={ARGUMENT}") == 0:
        return
    told: dict[FunctionNode, list[tuple[ast.Call, ast.keyword]]] = {}
    for call, keyword in _named(source):
        function = function_around(source, call)
        if function is not None and _takes(function, ARGUMENT):
            told.setdefault(function, []).append((call, keyword))
    for named in told.values():
        if any(path_of(keyword.value) == ARGUMENT for _, keyword in named):
            for call, keyword in named:
                literal = isinstance(keyword.value, ast.Constant) and keyword.value.value is not None
                if literal and not is_none_at(source, keyword.value, ARGUMENT):
                    yield call, keyword


def open_ended(source: Source) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """`model.load_state_dict(torch.load(p, map_location=device))` where `device` is None unless a caller names one."""
    for call, keyword in _named(source):
        name = keyword.value.id if isinstance(keyword.value, ast.Name) else ""
        function = function_around(source, call)
        if not name or function is None or function.name == "__init__":
            continue
        if source.qualified(call.func) not in LOADERS:
            continue
        parent = source.parents[call]
        restores = isinstance(parent, ast.Call) and path_of(parent.func).endswith(".load_state_dict")
        if restores and _is_none(function, name) and not settles_none(source, function, name):
            yield call, keyword


def _named(source: Source) -> Iterator[tuple[ast.Call, ast.keyword]]:
    for call in source.calls:
        for keyword in call.keywords:
            if keyword.arg == ARGUMENT:
                yield call, keyword


def _takes(function: FunctionNode, name: str) -> bool:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(argument.arg == name for argument in arguments)


def _is_none(function: FunctionNode, name: str) -> bool:
    """Is a parameter None where it is not given?"""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args][::-1]
    pairs = [*zip(plain, arguments.defaults[::-1], strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    return any(a.arg == name and isinstance(d, ast.Constant) and d.value is None for a, d in pairs)
