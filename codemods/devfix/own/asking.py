"""What codemods of your own may ask the engine, which devfix's own checkers ask, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.flow import Flow, analyse
from devfix.flow.lattice import Where

if TYPE_CHECKING:
    from devfix.engine.places import Place
    from devfix.engine.values import Value
    from devfix.recipes.recipe import Recipe

_WHERE = {
    "default": Where.DEFAULT,
    "cpu": Where.CPU,
    "literal": Where.ACCELERATOR,
    "var": Where.SYMBOL,
    **dict.fromkeys(("of", "at", "in"), Where.OF),
    "owned": Where.OWNED,
}
_CODE = frozenset({"library", "function", "class"})


@dataclass(frozen=True, eq=False)
class Fact:
    """What the engine knows of an expression, on one way through the program."""

    kind: str
    """What it is: "tensor", "module", "device", "batch" (a container of tensors), "array", "loader", ..."""
    where: Where
    """Where it is; `Where.UNKNOWN` also where that depends on a condition."""
    device: str
    """The accelerator that the program names, such as "cuda:1"; empty if it names none."""
    made: ast.AST | None
    """Where its history begins in this file, such as the call that has made or first moved it, if that is known."""
    assumed: tuple[str, ...]
    """What it takes for granted, such as "name": only its name says what it is. Nothing is assumed of a proven fact."""


@dataclass(frozen=True, eq=False)
class Mismatch:
    """An operation on values that are in two places."""

    operation: str
    """In words, or by its name."""
    node: ast.AST
    """The operation."""
    stray: Fact
    """The value that is to be moved: mostly the one on the CPU."""
    stray_node: ast.AST | None
    """The expression that it is, if it is written out."""
    anchor: Fact
    """The value that it meets."""
    why_silent: str
    """Why devfix does not report it; empty if it does."""


def facts(flow: Flow, node: ast.expr) -> tuple[Fact, ...]:
    """What an expression of the file can be, once for each way that differs; nothing if it is no value of torch."""
    watched = flow.watched()
    at = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
    seen = watched.seen.get(at, ())
    return tuple(_fact(value, place, flow) for _, value, place in seen if value.kind not in _CODE)


def mismatches(flow: Flow) -> Iterator[Mismatch]:
    """The operations of the file that find their values apart, those that devfix does not report included."""
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
    """The programs with a Brain that surely, or by all that is seen, run a recipe; each is analysed when asked for."""
    from devfix.recipes.pairing import paired

    for usage in paired(recipe, recipe.files):
        module = usage.script.module
        flow = analyse(module.source)
        flow.path = module.path
        yield flow


def _fact(value: Value, place: Place, flow: Flow) -> Fact:
    file = flow.watched().file
    made = next((link.node for link in value.links if link.file is file), None)
    device = str(place.key) if place.kind == "literal" else ""
    assumed = tuple(sorted({one.kind for one in value.assumed}))
    return Fact(value.kind, _WHERE.get(place.kind, Where.UNKNOWN), device, made, assumed)
