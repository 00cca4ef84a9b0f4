"""What fails before: a fix of what comes after it is half a cure, unless that is fixed as safely."""

from __future__ import annotations

import ast
from typing import NamedTuple

from devfix.checkers.certainty import is_proven, why_silent
from devfix.checkers.reach import is_safe
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.places import DIFFERENT, LITERAL, VAR, Place
from devfix.engine.values import CALLER, LIBRARY_CALL, PASS
from devfix.repair.candidates import at_its_making, written
from devfix.repair.modules import is_safe_move
from devfix.text.placing import guards_of
from devfix.text.source import FUNCTIONS, Source, remembered


def fails_before(mismatch: Mismatch, analysis: Analysis) -> str:
    """What a fix of a mismatch assumes of one before it; empty if there is none, or it has a safe fix."""
    nodes = [statement for file, statement in mismatch.running if file is analysis.file]
    at = mismatch.node if mismatch.file is analysis.file else nodes[-1] if nodes else None
    return (
        reached(at, mismatch.stray.links[0].node, mismatch.anchor_place, analysis) if at is not None else ""
    )


def reached(node: ast.AST, made: ast.AST | None, place: Place, analysis: Analysis) -> str:
    """What has to be assumed for a run to get to a node on an accelerator; empty if it does, as far as is known.

    `made` is what the node itself is about, and `place` where that, or the other value, is: what fails if this is on
    an accelerator fails there, too.
    """
    source = analysis.file.source
    start, guards = source.span(source.statement(node)).start, {*guards_of(source, node)}
    for one in _failing(source, analysis).get(source.enclosing(node, *FUNCTIONS), ()):
        if one.start >= start:
            break
        alike = one.place.kind in (VAR, LITERAL, place.kind) and one.made is not made
        if alike and guards.issuperset(one.guards):
            line, _ = source.position(one.start)
            return f"the mismatch on line {line}, which raises before, is fixed as well"
    return ""


class _Failure(NamedTuple):
    """Where a mismatch fails that has no safe fix: the offset, the conditions around it, what strays, and what of."""

    start: int
    guards: list[ast.If]
    made: ast.AST
    place: Place


@remembered
def _failing(source: Source, analysis: Analysis) -> dict[ast.AST | None, list[_Failure]]:
    """By function, in the order of the text."""
    found: dict[ast.AST | None, list[_Failure]] = {}
    for one in analysis.mismatches:
        certain = {each.kind for each in one.assumed} <= {CALLER, LIBRARY_CALL}
        if one.relation != DIFFERENT or not certain or why_silent(one, analysis) or _is_fixed(one, analysis):
            continue
        nodes: list[ast.AST] = [statement for file, statement in one.running if file is analysis.file]
        for at in [*nodes, *([one.node] if one.file is analysis.file else [])]:
            failure = _Failure(
                source.span(at).start, guards_of(source, at), one.stray.links[0].node, one.anchor_place
            )
            found.setdefault(source.enclosing(at, *FUNCTIONS), []).append(failure)
    for every in found.values():
        every.sort(key=lambda one: one.start)
    return found


def _is_fixed(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is there a safe fix?"""
    device, edits = at_its_making(mismatch, analysis)
    handed = [one.node for one in mismatch.stray.links if one.kind == PASS and one.file is analysis.file]
    handed += (
        [mismatch.stray_node] if mismatch.stray_node is not None and mismatch.file is analysis.file else []
    )
    devices = [device, *(written(mismatch, analysis, node) for node in handed)]
    if any(is_proven(mismatch, analysis, one) for one in devices) or is_safe_move(mismatch, analysis):
        return True
    return bool(edits) and is_safe(mismatch, edits, analysis)
