"""Queries of the engine for codemods of your own; devfix's own checkers use the same engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.flow import Flow, analyse
from devfix.flow.values import WHERE, Where

if TYPE_CHECKING:
    from devfix.engine.places import Place
    from devfix.engine.values import Value
    from devfix.recipes.recipe import Recipe

_PLAIN = frozenset({"library", "function", "class", "text", "number", "unknown"})


@dataclass(frozen=True, eq=False)
class Fact:
    """What the engine knows about an expression, on one path through the program."""

    kind: str
    """What it is: "tensor", "module", "device", "batch" (a container of tensors), "array", "loader", ..."""
    where: Where
    """Its place; `Where.UNKNOWN` also if the device depends on a condition."""
    device: str
    """The accelerator that the program names, such as "cuda:1"; empty if it names none."""
    made: ast.AST | None
    """Where its history in this file starts, such as the call that made or first moved it, if known."""
    assumed: tuple[str, ...]
    """What the engine assumed, such as "name": only its name says what it is. Empty for a proven fact."""


@dataclass(frozen=True, eq=False)
class Mismatch:
    """An operation on values that are on different devices."""

    operation: str
    """Its name, or a description."""
    node: ast.AST
    """The operation."""
    stray: Fact
    """The value on the wrong device: usually the one on the CPU."""
    stray_node: ast.AST | None
    """Its expression, if it is written out."""
    anchor: Fact
    """The other value."""
    why_silent: str
    """Why devfix does not report it; empty if it does."""


def facts(flow: Flow, node: ast.expr) -> tuple[Fact, ...]:
    """What an expression of the file can be, once for each possibility; empty if it is not a value of torch."""
    seen = flow.watched().values(node)
    return tuple(_fact(value, place, flow) for _, value, place in seen if value.kind not in _PLAIN)


def mismatches(flow: Flow) -> Iterator[Mismatch]:
    """The operations of the file that mix devices, including those that devfix does not report."""
    from devfix.checkers.certainty import why_silent

    watched = flow.watched()
    for one in watched.mismatches:
        if one.file is watched.file:
            yield Mismatch(
                one.operation,
                one.node,
                _fact(one.stray, one.stray_place, flow),
                one.stray_node,
                _fact(one.anchor, one.anchor_place, flow),
                why_silent(one, watched),
            )


def scripts(recipe: Recipe) -> Iterator[Flow]:
    """The programs with a Brain that run a recipe, certainly or probably; each is analysed when it is asked for."""
    from devfix.recipes.pairing import paired

    for usage in paired(recipe, recipe.files):
        file = usage.script.file
        flow = analyse(file.source)
        flow.path = file.path
        yield flow


def _fact(value: Value, place: Place, flow: Flow) -> Fact:
    file = flow.watched().file
    made = next((link.node for link in value.links if link.file is file), None)
    device = str(place.key) if place.kind == "literal" else ""
    assumed = tuple(sorted({one.kind for one in value.assumed}))
    return Fact(value.kind, WHERE.get(place.kind, Where.UNKNOWN), device, made, assumed)
