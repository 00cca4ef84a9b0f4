"""Which functions of other files are worth a run: those that may have to do with tensors, modules or devices.

A function is judged by what its text and the names in it stand for, over files. One that names nothing of a library
that devfix knows, and no device, cannot make anything that has a device out of numbers and texts.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from functools import cache

from devfix.engine.files import Class, File, Function
from devfix.engine.places import OF
from devfix.engine.values import MAPPING, NONE, NUMBER, SEQUENCE, TEXT, UNKNOWN, Value, elements
from devfix.models.loader import models

# What may give a device, or ask for one, whatever it is used on.
_WORDS = re.compile(r"device|cuda|cpu|gpu|tensor|\.to\(", re.IGNORECASE)


_Reached = Function | tuple[File, str]  # a function, or a name in the body of a file


class Relevance:
    """What is found out of functions, once each."""

    def __init__(self) -> None:
        self._known: dict[Function, bool] = {}

    def of(self, function: Function) -> bool:
        """May a function make or find something that has a device, if it is given nothing that has one?"""
        if function not in self._known:
            reached: dict[_Reached, None] = {function: None}
            todo = list(reached)
            while todo:
                behind = _behind(todo.pop())
                if behind is None:
                    self._known[function] = True
                    return True
                todo += [one for one in behind if one not in reached]
                reached.update(dict.fromkeys(behind))
            self._known.update((one, False) for one in reached if isinstance(one, Function))
        return self._known[function]


def _behind(one: _Reached) -> list[_Reached] | None:
    """The functions, and the names in files, that something uses; None if it may make what has a device itself."""
    if isinstance(one, Function):
        if _behind not in one.remembered:
            one.remembered[_behind] = _named_in(one)
        names: list[str] | None = one.remembered[_behind]
        return [(one.file, name) for name in names] if names is not None else None
    file, name = one
    found = file.definition(ast.Name(name, ast.Load()))
    if isinstance(found, Function):
        return [found]
    if isinstance(found, Class):
        made = any(_may_make(base) and not hasattr(builtins, base) for base in found.outside)
        return None if made else [method for of in found.lineage for method in of.methods.values()]
    if dotted := file.source.imports.get(name, ""):
        other = file.imported_value(dotted)
        return [other] if other is not None else None if _may_make(dotted) else []
    value = file.globals.get(name)
    if value is None:
        return [] if hasattr(builtins, name) else None
    if _WORDS.search(file.source.code(value)):
        return None
    return [(file, node.id) for node in ast.walk(value) if isinstance(node, ast.Name)]


def _named_in(function: Function) -> list[str] | None:
    """The names in a function that are not its own; None if its text speaks of devices or tensors."""
    file = function.file
    if function.outer is not None or file.stars or _WORDS.search(file.source.code(function.node)):
        return None
    names = [node for node in function.nodes if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in function.nodes if isinstance(node, ast.arg)}
    return [*dict.fromkeys(node.id for node in names if node.id not in own)]


def _may_make(dotted: str) -> bool:
    """May a library make something that has a device: one that devfix has rows of, or a class out of sight?"""
    root = dotted.partition(".")[0]
    if root in sys.stdlib_module_names:
        return False
    return root in _packages() or dotted.rpartition(".")[2][:1].isupper()


@cache
def _packages() -> frozenset[str]:
    """The packages of which devfix knows what their functions give."""
    return frozenset(name.partition(".")[0] for name in models().rows if "." in name)


def is_plain(value: Value) -> bool:
    """Is a value one that has no device, or one of which nothing at all is known?"""
    if value.kind in (SEQUENCE, MAPPING):
        return all(map(is_plain, elements(value)))
    if value.kind == UNKNOWN:
        return not (value.links or value.role or value.assumed or value.bound or value.place.kind == OF)
    return value.kind in (NUMBER, TEXT, NONE)


def is_stub(function: Function) -> bool:
    """Is it left to subclasses: only a docstring, `pass`, `...` or an error?"""
    body = function.node.body
    if not isinstance(body[-1], (ast.Pass, ast.Raise, ast.Expr)):
        return False
    return all(isinstance(one, (ast.Pass, ast.Raise)) or _is_constant(one) for one in body) and (
        any("abstract" in one for one in function.decorators) or not isinstance(body[-1], ast.Pass)
    )


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
