"""Modules that are moved too late: after they were run or wrapped, or on one path only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.late_parts import Step, events_of, is_to_device
from devfix.engine.analysis import Analysis
from devfix.engine.changes import LOADED, MOVED, PARALLEL
from devfix.engine.facts import Mismatch, ModuleEvent
from devfix.engine.places import DEFAULT, DIFFERENT, VAR
from devfix.engine.values import MODULE
from devfix.findings import Edit, InsertStatement, MoveStatement, Related, Safety, Span
from devfix.flow.frame import path_of
from devfix.placing import (
    about_devices,
    around,
    bound_before,
    dotted,
    follows,
    settled,
    settled_binding,
    steady,
    stores,
)
from devfix.repair.earlier import earlier
from devfix.repair.ways import jumps, looked_at
from devfix.source import Source, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Classes whose `load_state_dict` takes the loaded tensors as they are, wherever they are.
_KEEPS_WHAT_IS_LOADED = ("EMAModel",)
_OTHER_REASONS = re.compile(
    r"dist|rank|parallel|half|fp16|amp|ddp|fsdp|deepspeed|accelerat|offload|quant|load_in|vram|world|not in|"
    r"None",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Late:
    """A move that comes too late, or not on every way, and what would mend it."""

    span: Span
    message: str
    title: str
    edits: tuple[Edit, ...]
    safety: Safety
    related: tuple[Related, ...]


def late_moves(analysis: Analysis) -> Iterator[Late]:
    """Moves after a use or a wrap that needed them, or in one branch only; and what is loaded after them."""
    source, told = analysis.file.source, set[ast.AST]()
    for move in _every(analysis, MOVED):
        step = _step(move, analysis)
        if step is None or step.node in told:
            continue
        found = _after_wrap(move, step, analysis) or _in_one_branch(move, step, analysis)
        if found is not None:
            told.add(move.node)
            yield found
    for mismatch in analysis.mismatches:
        if (
            mismatch.relation != DIFFERENT
            or mismatch.stray.kind != MODULE
            or not mismatch.stray_place.on_host
        ):
            continue
        met = _at(mismatch, analysis)
        every = sorted(events_of(mismatch.stray.ref, analysis, above=True), key=lambda one: one.at)
        steps = [step for step in (_step(one, analysis) for one in every) if step is not None]
        if met is None or met in told or any(follows(source, step.node, met) for step in steps):
            continue
        below = next((step for step in steps if follows(source, met, step.node)), None)
        if below is not None:
            told.add(met)
            yield _after_use(mismatch, met, below, analysis)
    for event in _every(analysis, LOADED):
        found = _reloaded(event, analysis)
        if found is not None and event.node not in told:
            told.add(event.node)
            yield found


def _every(analysis: Analysis, kind: str) -> Iterator[ModuleEvent]:
    """The events of a kind in the file, in their order."""
    every = (one for known in analysis.lives.events.values() for one in known.values())
    found = [one for one in every if one.kind == kind and one.node in analysis.file.source.parents]
    yield from sorted(found, key=lambda one: one.at)


def _step(move: ModuleEvent, analysis: Analysis) -> Step | None:
    """A move to a device that stands in the file, of something that has a path."""
    node = move.node
    if node not in analysis.file.source.parents or not isinstance(node, ast.Call):
        return None
    path = path_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return (
        Step(node, analysis.file.source.statement(node), path, "", True)
        if path and is_to_device(move)
        else None
    )


def _home(source: Source, node: ast.AST) -> ast.AST:
    return source.enclosing(node, *_FUNCTIONS) or source.tree


def _line(source: Source, node: ast.AST) -> int:
    return source.position(source.span(node).start)[0]


def _safety(*, sure: bool) -> Safety:
    return Safety.SAFE if sure else Safety.UNSAFE


# --- after a use -----------------------------------------------------------------------------


def _at(mismatch: Mismatch, analysis: Analysis) -> ast.AST | None:
    """Where the module is run, or what runs it, in the function that has it."""
    source = analysis.file.source
    made = mismatch.stray.links[0]
    homes = [_home(source, made.node)] if made.file is analysis.file else []
    running = [one for file, one in mismatch.running if file is analysis.file]
    here = mismatch.file is analysis.file
    if here and (not homes or _home(source, mismatch.node) in homes or len(running) < 2):
        return mismatch.node
    return next((one for one in running if _home(source, one) in homes), running[-1] if running else None)


def _after_use(mismatch: Mismatch, met: ast.AST, move: Step, analysis: Analysis) -> Late:
    """The module is run on something that is on the device already, and only then moved."""
    source = analysis.file.source
    statement = source.statement(met)
    edits, sure = earlier(source, move, statement, fails=met is mismatch.node and _surely_run(source, met))
    line, later = (
        _line(source, mismatch.node if mismatch.file is analysis.file else met),
        _line(source, move.node),
    )
    stored = (
        path_of(one)
        for one in source.between(source.span(statement).start, source.span(move.statement).start)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    )
    if any(one.startswith(f"{move.path}.") for one in stored):
        edits = edits[:1]  # what arrives later needs the late move, too
    func = mismatch.node.func if isinstance(mismatch.node, ast.Call) else None
    run = (path_of(func) if func is not None else "") or move.path
    return Late(
        source.span(met),
        f"`{run}` is run on line {line}, but `{move.path}` is moved only on line {later}",
        f"move `{move.path}` before it is run",
        edits,
        _safety(sure=sure),
        (Related(source.span(move.node), f"`{move.path}` is moved here"),),
    )


def _surely_run(source: Source, node: ast.AST) -> bool:
    """Does a plain statement run an expression in any case, not only `if` something holds?"""
    while not isinstance(node, ast.stmt):
        node = source.parents[node]
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.GeneratorExp)):
            return False
    return not hasattr(node, "body")


# --- after a wrap ----------------------------------------------------------------------------


def _after_wrap(event: ModuleEvent, move: Step, analysis: Analysis) -> Late | None:
    """What runs a module in several processes wants parameters that are where they will stay."""
    source = analysis.file.source
    for wrap in sorted(events_of(event.module.ref, analysis, above=True), key=lambda one: one.at):
        node = wrap.node
        if wrap.kind != PARALLEL or wrap.at > event.at or wrap.place.kind != DEFAULT:
            continue
        if node not in source.parents or not isinstance(node, ast.Call) or not node.args:
            continue
        statement, path = source.statement(node), path_of(node.args[0])
        target = path_of(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if not path or move.path not in (target, path) or not follows(source, statement, move.node):
            continue
        asks = any(keyword.arg == "device_ids" for keyword in node.keywords)
        edits, sure = earlier(source, move, statement, path, fails=asks)
        name = analysis.file.dotted(node.func).rpartition(".")[2]
        return Late(
            source.span(move.node),
            f"`{path}` is wrapped in {name} on line {_line(source, statement)}, before it is moved",
            f"move `{path}` before it is wrapped",
            edits,
            _safety(sure=sure),
            (Related(source.span(node), "wrapped here"),),
        )
    return None


# --- in one branch -----------------------------------------------------------------------------


def _in_one_branch(event: ModuleEvent, move: Step, analysis: Analysis) -> Late | None:
    """A move to a device variable that depends on something else, of a module that is run either way."""
    source, statement = analysis.file.source, move.statement
    chain = around(source, statement)
    guard = chain[1] if len(chain) > 1 else None
    if event.place.kind != VAR or event.before.kind != DEFAULT or not isinstance(statement, ast.Expr):
        return None
    if not isinstance(guard, ast.If) or guard.orelse or statement not in guard.body or "." in move.path:
        return None
    test, device = ast.unparse(guard.test), _device(source, move)
    if about_devices(guard.test) or _OTHER_REASONS.search(test) or move.path in test or not device:
        return None
    home = _home(source, statement)
    made = [node for node in stores(source, home, move.path) if follows(source, node, guard)]
    if not made or not settled_binding(source, made[-1:], guard):
        return None
    assigned = source.statement(made[-1])
    if not isinstance(assigned, ast.Assign) or not isinstance(assigned.value, ast.Call):
        return None
    others = {one.node for one in events_of(event.module.ref, analysis, above=True) if one.kind == MOVED}
    other = {source.statement(one) for one in others - {move.node} if one in source.parents}
    runs = (
        one for one in source.of_kind(ast.Call, home) if _runs(one, move.path) and follows(source, guard, one)
    )
    met = min(runs, key=lambda one: source.span(one).start, default=None)
    if met is None or met in source.walk(guard) or settled(source, guard, source.statement(met), other):
        return None
    edits: tuple[Edit, ...] = (MoveStatement(source.span(statement), source.span(guard)),)
    later = guard.body[guard.body.index(statement) + 1 :]
    seen = looked_at(source, move.path, source.span(statement).end, source.span(guard).end)
    if seen or any(any(jumps(one)) for one in later):
        edits = ()  # it is needed in the branch, or not behind it
    return Late(
        source.span(move.node),
        f"`{move.path}` is moved to `{device}` only if `{test}`, but it is run on line {_line(source, met)} either way",
        f"move `{move.path}` either way" if edits else "",
        edits,
        Safety.UNSAFE,
        (Related(source.span(met), "run here"),),
    )


def _runs(call: ast.Call, path: str) -> bool:
    return path_of(call.func) in (path, f"{path}.forward", f"{path}.generate")


def _device(source: Source, move: Step) -> str:
    """What a move is given as its device, as it is written."""
    node = move.node
    if not isinstance(node, ast.Call):
        return ""
    given = [*(one.value for one in node.keywords if one.arg == "device"), *node.args]
    return source.code(given[0]) if given else ""


# --- loaded afterwards -------------------------------------------------------------------------


def _reloaded(event: ModuleEvent, analysis: Analysis) -> Late | None:
    """What was moved takes tensors from a checkpoint as they are, and so leaves its device."""
    source, node = analysis.file.source, event.node
    made = analysis.made.get(event.module.ref) or event.module
    if not made.links or not made.links[0].name.endswith(_KEEPS_WHAT_IS_LOADED):
        return None
    moves = [
        _step(one, analysis) for one in events_of(event.module.ref, analysis, above=True) if one.kind == MOVED
    ]
    move = next((one for one in moves if one is not None), None)
    path = (
        path_of(node.func.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else ""
    )
    if move is None or not path:
        return None
    statement, device = source.statement(node), _device(source, move)
    later = source.block(statement)[source.index(statement) + 1 :]
    moved = {f"{path}.to", f"{path}.cuda"}
    again = (part for one in later for part in walk(one) if isinstance(part, ast.Attribute))
    if not device or follows(source, statement, move.node) or any(dotted(part) in moved for part in again):
        return None
    expression = ast.parse(device, mode="eval").body
    known = steady(source, expression) and bound_before(source, expression, statement)
    return Late(
        source.span(node),
        f"`{path}` takes over what is loaded on line {_line(source, node)}, on the CPU, although it is moved to "
        f"`{device}` on line {_line(source, move.node)}",
        f"move `{path}` again",
        (InsertStatement(source.span(statement), f"{path}.to({device})"),) if known else (),
        Safety.UNSAFE,
        (Related(source.span(move.node), f"`{path}` is moved here"),),
    )
