"""What a constructor expression makes, as far as buffers are concerned."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property

from devfix.names import Names
from devfix.registration import dims
from devfix.registration.classes import ModuleClass
from devfix.registration.stores import Method
from devfix.source import Source


class Kind(Enum):
    TENSOR = auto()  # made on the CPU, moved by nothing
    PLACED = auto()  # a tensor that was told where to be
    PARAMETER = auto()
    MODULE = auto()
    NONE = auto()
    OTHER = auto()  # certainly no tensor
    UNKNOWN = auto()


@dataclass(frozen=True)
class Made:
    """One value of a constructor. `whole`: no floating point, so casts of the module leave it alone."""

    kind: Kind
    dim: int = dims.ANY
    whole: bool = False
    items: tuple[Made, ...] = ()
    shared: bool = False  # came in as an argument of the constructor
    guess: bool = False  # made by a function out of sight, whose name alone speaks for a tensor
    node: ast.AST | None = None


NOT_KNOWN = Made(Kind.UNKNOWN)
NO_TENSOR = Made(Kind.OTHER)
NOTHING = Made(Kind.NONE)


def join(values: list[Made]) -> Made:
    """One of several values; None gives way, since a buffer may be None."""
    some = [value for value in values if value.kind is not Kind.NONE]
    if not some:
        return NOTHING if values else NOT_KNOWN
    joined = some[0]
    for value in some[1:]:
        if value.kind is not joined.kind:
            kinds = {value.kind, joined.kind}
            if kinds <= {Kind.TENSOR, Kind.PLACED}:
                return Made(Kind.PLACED)
            return NOT_KNOWN
        items: tuple[Made, ...] = ()
        if len(value.items) == len(joined.items):
            items = tuple(join([a, b]) for a, b in zip(joined.items, value.items, strict=True))
        joined = replace(
            joined,
            dim=dims.either(joined.dim, value.dim),
            whole=joined.whole and value.whole,
            items=items,
            shared=joined.shared or value.shared,
            guess=joined.guess or value.guess,
        )
    return joined


class LazyNames:
    """The names of a scope, looked up when the first is asked for."""

    def __init__(self, source: Source, scope: Method | ast.Module) -> None:
        self.source = source
        self.scope = scope

    @cached_property
    def names(self) -> Names:
        return Names(self.source, self.scope)


@dataclass(eq=False)
class Frame:
    """A function being looked at: its names, and the arguments that a call in sight gave it."""

    owner: ModuleClass | None
    scope: Method | ast.Module
    lazy: LazyNames
    arguments: dict[str, tuple[ast.expr, Frame]] = field(default_factory=dict)
    called: bool = False  # by a call in sight, so that missing arguments have their defaults

    @property
    def names(self) -> Names:
        return self.lazy.names
