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


class Relevance:
    """What is found out of functions, and of the names in their files, once each."""

    def __init__(self) -> None:
        self._known: dict[object, bool] = {}

    def of(self, function: Function) -> bool:
        """May a function make or find something that has a device, if it is given nothing that has one?"""
        if function not in self._known:
            self._known[function] = False  # functions that call each other
            self._known[function] = self._of_function(function)
        return self._known[function]

    def _of_function(self, function: Function) -> bool:
        file = function.file
        if function.outer is not None or file.stars or _WORDS.search(file.source.code(function.node)):
            return True
        names = [one for one in function.nodes if isinstance(one, ast.Name)]
        own = {one.id for one in names if isinstance(one.ctx, ast.Store)}
        own |= {one.arg for one in function.nodes if isinstance(one, ast.arg)}
        return any(one.id not in own and self._of_name(file, one) for one in names)

    def _of_name(self, file: File, node: ast.Name) -> bool:
        key = file.path, node.id
        if key not in self._known:
            self._known[key] = False
            self._known[key] = self._stands_for(file, node)
        return self._known[key]

    def _stands_for(self, file: File, node: ast.Name) -> bool:
        found = file.definition(node)
        if isinstance(found, Function):
            return self.of(found)
        if isinstance(found, Class):
            return bool(found.outside) or any(map(self.of, found.methods.values()))
        dotted = file.source.imports.get(node.id, "")
        if dotted:
            other = file.imported_value(dotted)
            return self._of_name(other[0], ast.Name(other[1])) if other is not None else _may_make(dotted)
        value = file.globals.get(node.id)
        if value is None:
            return not hasattr(builtins, node.id)
        names = (one for one in ast.walk(value) if isinstance(one, ast.Name))
        return _WORDS.search(file.source.code(value)) is not None or any(
            self._of_name(file, one) for one in names
        )


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
