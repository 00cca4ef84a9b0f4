"""What fails before: a fix of what comes after it is half a cure, unless that is fixed as safely."""

from __future__ import annotations

import ast

from devfix.checkers.certainty import is_proven, why_silent
from devfix.checkers.reach import is_safe
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.places import DIFFERENT, LITERAL, VAR, Place
from devfix.engine.values import CALLER, LIBRARY_CALL, PASS
from devfix.repair.candidates import at_its_making, written
from devfix.repair.modules import is_safe_move
from devfix.text.placing import guards_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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
    start = source.span(source.statement(node)).start
    scope, guards = source.enclosing(node, *_FUNCTIONS), {*guards_of(source, node)}
    for one in analysis.mismatches:
        if one.relation != DIFFERENT or one.stray.links[0].node is made:
            continue
        if one.anchor_place.kind not in (VAR, LITERAL, place.kind):
            continue
        if not {each.kind for each in one.assumed} <= {CALLER, LIBRARY_CALL}:
            continue
        nodes: list[ast.AST] = [statement for file, statement in one.running if file is analysis.file]
        nodes += [one.node] if one.file is analysis.file else []
        above = [
            at
            for at in nodes
            if source.enclosing(at, *_FUNCTIONS) is scope
            and source.span(at).start < start
            and guards.issuperset(guards_of(source, at))
        ]
        if above and not why_silent(one, analysis) and not _is_fixed(one, analysis):
            line, _ = source.position(source.span(above[0]).start)
            return f"the mismatch on line {line}, which raises before, is fixed as well"
    return ""


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
