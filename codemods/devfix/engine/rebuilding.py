"""Attributes that other methods than the constructor store: known only as far as all of them agree."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devfix.engine.files import Class, Function
from devfix.engine.joins import join
from devfix.engine.places import NOWHERE
from devfix.engine.state import State
from devfix.engine.stores import only_building
from devfix.engine.values import BATCH, DEVICE, MODULE, NONE, NUMBER, OBJECT, SEQUENCE, TENSOR, UNKNOWN, Value

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

MAX_BUILDERS = 6  # methods that are run to see what they store


def rebuild(analysis: Analysis, owner: Class, me: Value, state: State) -> None:
    """Attributes that other methods store: known only as far as all of them agree.

    Networks that methods make for the constructor alone, as far as is known, are not made again.
    """
    stores = {name: methods - {"__init__"} for name, methods in owner.stores.items()}
    builders = {name: methods for name, methods in stores.items() if methods}
    cell = me.ref
    first = {name: state.attribute(cell, name) for name in builders}
    networks = any(one is not None and one.kind == MODULE for one in first.values())
    building = only_building(owner) if networks else set()
    order: list[str] = []
    for methods in builders.values():
        order += [name for name in sorted(methods) if name not in order]
    ends: list[tuple[str, State]] = []
    for name in order if len(order) <= MAX_BUILDERS else ():
        method = owner.method(name)
        if method is not None and not method.static:
            end = analysis.run_method(method, me, state.copy(), quiet=True)
            ends.append((name, end))
    for name in builders:
        before = first[name]
        values = [before] if before is not None else []
        for method_name, end in ends:
            if before is not None and before.kind == MODULE and method_name in building:
                continue
            found = end.attribute(cell, name)
            if method_name == "forward" and before is not None and _has_tensors(before):
                if (
                    found is not None
                    and found.kind in (TENSOR, BATCH, before.kind)
                    and _recurs(owner.method("forward"), name)
                ):
                    continue  # it is there in the second run; the first one meets what was there before
            if found is None or any(found is one for one in values):
                continue
            if before is None or not _is_one_more(found, end, before, state):
                values.append(found)
        made = _agreed([one for one in values if one is not None]) if len(order) <= MAX_BUILDERS else None
        if made is not None and made.kind != UNKNOWN:
            made = made.but(place=NOWHERE) if made.kind == NUMBER else made  # at first it is another one
            state.set_attribute(cell, name, made)
            for _, end in ends:
                if made.ref is not None and made.kind == MODULE and made.ref in end.places:
                    known = end.places[made.ref]
                    state.places.setdefault(made.ref, NOWHERE if known.on_host else known)
                    for attribute, value in end.attributes(made.ref):
                        if (made.ref, attribute) not in state.heap:
                            state.heap[made.ref, attribute] = value
        else:
            state.heap.pop((cell, name), None)


def _agreed(values: list[Value]) -> Value | None:
    known = [one for one in values if one.kind != NONE]
    if not known:
        return values[0] if values else None
    made = known[0]
    for one in known[1:]:
        if one.kind != made.kind or (one.kind in (MODULE, OBJECT) and one.ref != made.ref):
            return None
        if one.kind in (TENSOR, DEVICE) and one.place != made.place:
            return None
        made = join(made, one)
    return made


def _is_one_more(made: Value, after: State, first: Value, state: State) -> bool:
    """Is it a module of the class of the first one, which was put where that is?"""
    if made.kind != MODULE or first.kind != MODULE or made.bound is None or first.bound is None:
        return False
    return made.bound.ref is first.bound.ref and after.place_of(made.ref) == state.place_of(first.ref)


def _has_tensors(value: Value) -> bool:
    """Is it a tensor, or a sequence of tensors, such as the states of an LSTM?"""
    items = value.items if value.kind == SEQUENCE else None
    return value.kind == TENSOR or (bool(items) and all(one.kind == TENSOR for one in items or ()))


def _recurs(method: Function | None, name: str) -> bool:
    """Does a method store in an attribute what it makes of it?"""
    for node in method.nodes if method is not None else ():
        if isinstance(node, ast.Assign) and _has_attribute(node.value, name):
            if any(_has_attribute(target, name) for target in node.targets):
                return True
    return False


def _has_attribute(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == name for one in ast.walk(node))
