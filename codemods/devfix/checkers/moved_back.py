"""Modules that go to the CPU for a moment, to be saved mostly, and are run on a device afterwards."""

from __future__ import annotations

import ast

from devfix.checkers.forgotten import condition_of
from devfix.engine.analysis import Analysis
from devfix.engine.events import MOVED, Event
from devfix.engine.facts import Mismatch
from devfix.engine.files import Function
from devfix.engine.places import CPU
from devfix.engine.values import DEVICE
from devfix.findings import Edit, InsertStatement
from devfix.text.placing import guards_of


def moved_back(mismatch: Mismatch, analysis: Analysis) -> Event | None:
    """The move to the CPU that leaves the module of a mismatch there, if it was on the device of the other before."""
    moves = _moves(mismatch, analysis)
    back = next((one for one in moves if one.place.kind == CPU), None)
    return back if any(one.place == mismatch.anchor_place for one in moves) else None


def restored(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """The device that the module was on before, and the edit that moves it there again."""
    back, source = moved_back(mismatch, analysis), analysis.file.source
    if back is None or not back.path:
        return "", ()
    moves = [
        one
        for one in _moves(mismatch, analysis)
        if one.function in (None, back.function) and one.device and one.place == mismatch.anchor_place
    ]
    device = moves[0].device if moves else _attribute(back.function, mismatch, analysis)
    # Where it only was there on a condition, as where there is CUDA, it goes there on the same one.
    guards = guards_of(source, moves[0].node, back.statement) if moves else []
    if not device or len(guards) > 1:
        return "", ()
    text = f"{back.path}.to({device})"
    if guards:
        text = f"if {condition_of(guards[0], moves[0].statement)}:\n    {text}"
    return device, (InsertStatement(source.span(back.statement), text),)


def _attribute(method: Function | None, mismatch: Mismatch, analysis: Analysis) -> str:
    """The attribute of the object that is the device, if it has one."""
    owner = method.owner if method is not None else None
    if method is None or owner is None or not method.positional:
        return ""
    state, me = analysis.classes.state(owner), analysis.classes.itself(owner)
    held = [
        name
        for name, value in state.attributes(me.ref)
        if value.kind == DEVICE and state.resolve(value.place) == mismatch.anchor_place
    ]
    return f"{method.positional[0]}.{held[0]}" if held else ""


def _moves(mismatch: Mismatch, analysis: Analysis) -> list[Event]:
    source, made = analysis.file.source, _made_at(mismatch.stray.ref)
    found = {
        event.node: event
        for log in analysis.histories.values()
        for event in log.values()
        if event.what == MOVED and not event.via and made in map(_made_at, event.cells)
    }
    here = [one for one in found.values() if isinstance(one.node, ast.Call) and one.node in source.parents]
    return sorted(here, key=lambda one: source.span(one.node).start)


def _made_at(cell: object) -> object:
    """Where a module is made, whichever call of the function around made it."""
    return cell[::2] if isinstance(cell, tuple) else cell
