"""Modules that are moved too late: after something that needed them in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.surgeries import CODEMOD, line_of
from devfix.engine.analysis import Analysis
from devfix.engine.events import ATTACHED, MOVED, USED, WRAPPED, Event
from devfix.engine.evidence_of_modules import is_about_placement, keeps_what_it_loads
from devfix.engine.facts import Mismatch
from devfix.engine.places import VAR
from devfix.engine.values import MODULE
from devfix.findings import Edit, Finding, InsertStatement, MoveStatement, Related, told
from devfix.repair.earlier import earlier
from devfix.repair.ways import jumps, looked_at
from devfix.text.names import path_of, stores
from devfix.text.placing import (
    about_devices,
    around,
    bound_before,
    dotted,
    follows,
    settled,
    settled_binding,
    steady,
)
from devfix.text.source import FUNCTIONS, Source, walk

_DDP = ("DistributedDataParallel", "DDP")
_RUNS = ("called", "forward", "generate")


def findings(analysis: Analysis) -> Iterator[Finding]:
    """Moves after a use, after a DDP wrap, or in one branch only."""
    source = analysis.file.source
    for function, log in analysis.histories.items():
        owner = function.owner if function is not None else None
        if owner is not None and analysis.class_kind(owner) == "owned":
            continue
        events = list(log.values())
        moves = [
            one for one in events if one.what == MOVED and not (one.via or one.place.on_host) and one.path
        ]
        for move in moves:
            before = [one for one in events[: move.order] if not one.via]
            found = _after_wrap(source, before, move)
            if found is None and move.place.on_device:
                found = _after_use(analysis, before, move) or _in_one_branch(source, events, move, moves)
            if found is not None:
                yield found
    yield from _reloaded(analysis)


def _is_moved(events: list[Event], event: Event) -> bool:
    """Is the module on a device before: moved above, with what it is part of, or in one go with its making?"""
    known = event.what == MOVED or event.place.on_host or event.place.kind in ("unknown", "at")
    return not known or any(
        one.what == MOVED and one.order < event.order and not {*one.cells[:1]}.isdisjoint(event.cells)
        for one in events
    )


# --- after a use -----------------------------------------------------------------------------


def _after_use(analysis: Analysis, before: list[Event], move: Event) -> Finding | None:
    """The module is run on something that is on the device already, and only then moved."""
    source = analysis.file.source
    if any(one.what == MOVED and one.cells[0] in move.cells for one in before):
        return None
    for mismatch in analysis.mismatches:
        node = _run_before(analysis, mismatch, move)
        if node is None or not follows(source, node, move.node):
            continue
        statement = source.statement(node)
        edits, sure = earlier(
            source, move, statement, fails=node is mismatch.node and _surely_run(source, node)
        )
        start = source.span(statement).start
        if any(
            one.what == ATTACHED and move.cells[0] in one.cells and source.span(one.statement).start >= start
            for one in before
        ):
            edits = edits[:1]  # what arrives later needs the late move, too
        line, later = line_of(source, mismatch.node), line_of(source, move.node)
        return told(
            CODEMOD,
            source.span(node),
            f"`{mismatch.operation}` is run on line {line} and raises on an accelerator, since `{move.path}` is moved "
            f"only on line {later}",
            f"move `{move.path}` before it is run",
            edits,
            (Related(source.span(move.node), f"`{move.path}` is moved here"),),
            "" if sure and not mismatch.assumed else f"nothing in between needs `{move.path}` on the CPU",
        )
    return None


def _run_before(analysis: Analysis, mismatch: Mismatch, move: Event) -> ast.AST | None:
    """What runs a module on the CPU, in the function that moves it, or what calls that."""
    cell, source = mismatch.stray.ref, analysis.file.source
    if mismatch.stray.kind != MODULE or mismatch.file is not analysis.file:
        return None
    for _ in range(8):
        if cell in move.cells[:1]:
            break
        cell = analysis.part_of.get(cell)
    else:
        return None
    if mismatch.function is move.function:
        return mismatch.node
    home = source.enclosing(move.node, *FUNCTIONS)
    for file, statement in mismatch.running[1:]:
        if file is analysis.file and source.enclosing(statement, *FUNCTIONS) is home:
            return next((one for one in walk(statement) if isinstance(one, ast.Call)), None)
    return None


def _surely_run(source: Source, node: ast.AST) -> bool:
    """Does a plain statement run an expression in any case, not only `if` something holds?"""
    while not isinstance(node, ast.stmt):
        node = source.parents[node]
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.GeneratorExp)):
            return False
    return not hasattr(node, "body")


# --- after a wrap ----------------------------------------------------------------------------


def _after_wrap(source: Source, before: list[Event], move: Event) -> Finding | None:
    """DistributedDataParallel wants parameters that are where they will stay."""
    for event in before:
        statement = event.statement
        target = path_of(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if event.what != WRAPPED or event.name not in _DDP or _is_moved(before, event):
            continue
        if move.path not in (target, event.path) or not follows(source, statement, move.node):
            continue
        asks = isinstance(event.node, ast.Call) and any(k.arg == "device_ids" for k in event.node.keywords)
        edits, sure = earlier(source, move, statement, event.path, fails=asks)
        return told(
            CODEMOD,
            source.span(move.node),
            f"`{event.path}` is wrapped in {event.name} on line {line_of(source, statement)}, before it is moved"
            f"{': this raises' if asks else ''}",
            f"move `{event.path}` before it is wrapped",
            edits,
            (Related(source.span(event.node), "it is wrapped here"),),
            "" if sure else f"nothing in between needs `{event.path}` on the CPU",
        )
    return None


# --- after what is loaded ----------------------------------------------------------------------


def _reloaded(analysis: Analysis) -> Iterator[Finding]:
    """What was moved takes tensors from a checkpoint as they are, and so leaves its device."""
    source = analysis.file.source
    every = (one for log in analysis.histories.values() for one in log.values() if one.what == MOVED)
    moves = {one.path: one for one in every if one.device and not (one.via or one.place.on_host)}
    for node in source.calls:
        path = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        move = moves.get(path)
        maker = move.module.links[0].name if move is not None and move.module.links else ""
        if (
            move is None
            or not dotted(node.func).endswith(".load_state_dict")
            or not keeps_what_it_loads(maker)
        ):
            continue
        statement = source.statement(node)
        later = source.block(statement)[source.index(statement) + 1 :]
        moved = {f"{path}.to", f"{path}.cuda"}
        if any(
            isinstance(part, ast.Attribute) and dotted(part) in moved for one in later for part in walk(one)
        ):
            continue
        if follows(source, statement, move.node):
            continue
        device, line = move.device, line_of(source, node)
        expression = ast.parse(device, mode="eval").body
        known = steady(source, expression) and bound_before(source, expression, statement)
        yield told(
            CODEMOD,
            source.span(node),
            f"`{path}` was moved to `{device}` on line {line_of(source, move.node)}, but takes over the weights "
            f"that `load_state_dict` gets on line {line}",
            f"move `{path}` again",
            (InsertStatement(source.span(statement), f"{path}.to({device})"),) if known else (),
            (Related(source.span(move.node), f"`{path}` is moved here"),),
            "these are on the CPU",
        )


# --- in one branch -----------------------------------------------------------------------------


def _in_one_branch(source: Source, events: list[Event], move: Event, moves: list[Event]) -> Finding | None:
    """A move to a device variable that depends on something else, of a module that is used either way."""
    statement = move.statement
    chain = around(source, statement)
    if move.place.kind != VAR or len(chain) < 2 or not isinstance(statement, ast.Expr):
        return None
    guard = chain[1]
    if not isinstance(guard, ast.If) or guard.orelse or statement not in guard.body or "." in move.path:
        return None
    test = ast.unparse(guard.test)
    if about_devices(guard.test) or is_about_placement(test) or move.path in test:
        return None
    home = move.function.node if move.function is not None else source.tree
    made = [node for node in stores(source, home, move.path) if follows(source, node, guard)]
    if not made or not settled_binding(source, made[-1:], guard) or not move.stays or _is_moved(events, move):
        return None
    assigned = source.statement(made[-1])
    if not isinstance(assigned, ast.Assign) or not isinstance(assigned.value, ast.Call):
        return None
    after = (one for one in events[move.order :] if one.what == USED and one.name in _RUNS)
    cells = {move.cells[0], move.path}  # of what is known by its name alone, too
    use = next((one for one in after if cells & {*one.cells} and follows(source, guard, one.node)), None)
    others = {other.statement for other in moves if other is not move and other.path == move.path}
    if use is None or use.statement in source.walk(guard) or settled(source, guard, use.statement, others):
        return None
    device = move.device
    edits: tuple[Edit, ...] = (MoveStatement(source.span(statement), source.span(guard)),)
    later = guard.body[guard.body.index(statement) + 1 :]
    if looked_at(source, move.path, source.span(statement).end, source.span(guard).end) or any(
        any(jumps(one)) for one in later
    ):
        edits = ()  # it is needed in the branch, or not behind it
    return told(
        CODEMOD,
        source.span(move.node),
        f"`{move.path}` is moved to `{device}` only if `{test}`, but it is run on line "
        f"{line_of(source, use.node)} either way",
        f"move `{move.path}` either way" if edits else "",
        edits,
        (Related(source.span(use.node), "it is run here"),),
        "nothing needs it on the CPU otherwise",
    )
