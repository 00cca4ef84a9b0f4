"""Values of Python's own containers as they are made: `dict`, and the classes of its module `collections`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from devfix.engine.joins import element
from devfix.engine.values import ANYTHING, FUNCTION, MAPPING, SEQUENCE, Value

if TYPE_CHECKING:
    from devfix.engine.frame import Arguments

EMPTY = {"list": Value(SEQUENCE, items=()), "dict": Value(MAPPING, fields={})}


class Record(NamedTuple):
    """A class of named tuples, with the names of its fields."""

    names: tuple[str, ...]

    def made(self, arguments: Arguments) -> Value:
        """A tuple of these values, which can be asked for by name; any sequence, if they are not known one by one."""
        given = dict(zip(self.names, (value for value, _ in arguments[0]), strict=False))
        given |= {name: value for name, (value, _) in arguments[1].items()}
        if len(arguments[0]) > len(self.names) or not given.keys() <= set(self.names):
            return Value(SEQUENCE)
        fields = {name: given.get(name, ANYTHING) for name in self.names}
        return Value(SEQUENCE, items=tuple(fields.values()), fields=fields)


def mapping(arguments: Arguments) -> Value:
    """`dict(first, **keywords)`, where the first argument is a mapping, or a sequence of pairs."""
    first = arguments[0][0][0] if arguments[0] else ANYTHING
    fields = {key: value for key, (value, _) in arguments[1].items()}
    row = element(first) if first.kind == SEQUENCE else None
    rest = row.items[-1] if row is not None and row.items else first.rest
    return Value(MAPPING, fields={**(first.fields or {}), **fields}, rest=rest)


def collection(
    node: ast.Call, name: str, arguments: Arguments, run: Callable[[Value], Value]
) -> Value | None:
    """What `collections.name(...)` makes; `run` calls a function without arguments. None for what is no container."""
    values = [value for value, _ in arguments[0]]
    if name == "OrderedDict":
        return mapping(arguments)
    if name == "deque":
        return values[0] if values and values[0].kind == SEQUENCE else EMPTY["list"]
    if name == "namedtuple" and len(values) > 1:
        texts = [one.const for one in values[1].items or ()] or str(values[1].const).replace(",", " ").split()
        return Value(FUNCTION, ref=Record(tuple(map(str, texts))))
    if name == "defaultdict" and values:
        factory = node.args[0]
        known = EMPTY.get(factory.id) if isinstance(factory, ast.Name) else None
        return Value(
            MAPPING, fields={}, rest=known or (run(values[0]) if values[0].kind == FUNCTION else None)
        )
    return None
