"""What callers in other files pass to a function, as values of the engine."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.engine.places import AT_DEFAULT, BY_OWNER, NOWHERE, ON_CPU, VAR, Place, literal
from devfix.engine.state import State
from devfix.engine.values import LOADER, MODULE, NAME, PROVEN, Assumption, Value
from devfix.flow import lattice
from devfix.flow.given import joined_arguments
from devfix.flow.lattice import Kind, Where

Node = ast.FunctionDef | ast.AsyncFunctionDef
# What each call in another file passes for the parameters of a function, in order; nothing if not all are known.
Callers = Callable[[Node], list[tuple[lattice.Value, ...]]]
# Place -> the parameter by which something that is there comes in, and what has put it there, in another file.
Origins = dict[Place, tuple[ast.arg, ast.AST]]
_PLACES = {Where.DEFAULT: AT_DEFAULT, Where.CPU: ON_CPU, Where.OWNED: BY_OWNER}


def passed(callers: Callers, node: Node, state: State, origins: Origins) -> dict[str, Value]:
    """The modules and loaders that all callers agree about; `origins` learns what has put them where they are."""
    joined = joined_arguments(callers(node)) or ()
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given = list(zip(arguments, joined, strict=False))
    devices = {
        (value.place.where, value.place.text, value.place.key): Place(VAR, ("parameter", id(node), one.arg))
        for one, value in given
        if value.kind is Kind.DEVICE
    }
    found: dict[str, Value] = {}
    for one, value in given:
        where, name = value.place, one.arg
        place = devices.get((where.where, where.text, where.key)) or _place(where)
        assumed = PROVEN if value.sure else frozenset({Assumption(NAME, name)})
        if value.kind is Kind.MODULE:
            cell = ("passed", id(node), name)
            state.set_place(cell, place)
            found[name] = Value(MODULE, Place("in", cell), ref=cell, assumed=assumed)
            if where.node is not None:
                origins.setdefault(place, (one, where.node))
        elif value.kind is Kind.LOADER:
            owned = "" if place.on_host or place == NOWHERE else "owned"
            found[name] = Value(LOADER, AT_DEFAULT, assumed=assumed, role=owned)
    return found


def _place(place: lattice.Place) -> Place:
    if place.where is Where.SYMBOL:
        return Place(VAR, ("outside", place.key or place.text))
    if place.where is Where.ACCELERATOR:
        return literal(place.text.strip("\"'")) or NOWHERE
    return _PLACES.get(place.where, NOWHERE)
