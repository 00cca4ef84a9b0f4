"""Modules that are moved too late: after something that needed them in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import Edit, InsertStatement, MoveStatement, Related, Safety, Span
from devfix.flow import Flow
from devfix.flow.events import Event, Scope, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Where
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
from devfix.source import Source, remembered, walk
from devfix.surgery.earlier import earlier
from devfix.surgery.needed import used_after
from devfix.surgery.ways import jumps, looked_at

# Classes whose `load_state_dict` takes the loaded tensors as they are, wherever they are.
_KEEPS_WHAT_IS_LOADED = frozenset({"EMAModel"})
_DDP = ("DistributedDataParallel", "DDP")
_LOADING = re.compile(r"(?:^|_)(?:load|resume|restore)(?:_|$)")
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


def late_moves(flow: Flow) -> Iterator[Late]:
    """Moves after a use, after a DDP wrap, after the optimizer's state was loaded, or in one branch only."""
    for scope in flow.scopes:
        if scope.owned:
            continue
        moves = [e for e in scope.events if _moves(e)]
        for move in moves:
            found = _after_wrap(flow.source, scope, move)
            if found is None and move.place is not None and move.place.on_device:
                found = (
                    _after_use(flow, scope, move)
                    or _after_restore(flow.source, scope, move)
                    or _in_one_branch(flow, scope, move, moves)
                )
            if found is not None:
                yield found
    yield from _reloaded(flow)


def _moves(event: Event) -> bool:
    return (
        event.what is What.MOVE
        and event.value.kind is Kind.MODULE
        and not event.via
        and bool(event.path)
        and event.place is not None
        and event.place.where is not Where.CPU
    )


def _earlier(source: Source, scope: Scope, event: Event) -> bool:
    """Is the module on a device before: moved above, with what it is part of, or in one go with its making?"""
    moved = _first_moves(source, scope)
    parts = event.path.split(".")
    same: set[int | str] = {one for one in (event.value.identity, *event.value.arms) if one}
    same |= {event.path, *(".".join(parts[:size]) for size in range(1, len(parts)))}
    above = any(moved.get(one, event.order) < event.order for one in same)
    return above or event.value.place.where not in (Where.DEFAULT, Where.CPU, Where.UNKNOWN)


@remembered
def _first_moves(source: Source, scope: Scope) -> dict[int | str, int]:
    """Object, and path -> the order of the first event that moves it."""
    found: dict[int | str, int] = {}
    for event in scope.events:
        if event.what is What.MOVE:
            found.setdefault(event.value.identity, event.order)
            found.setdefault(event.path, event.order)
    return found


def _line(source: Source, node: ast.AST) -> int:
    return source.position(source.span(node).start)[0]


# --- after a use -----------------------------------------------------------------------------


def _after_use(flow: Flow, scope: Scope, move: Event) -> Late | None:
    """The module is run on something that is on the device already, and only then moved."""
    source = flow.source
    for node, event in _early_uses(flow, scope, move):
        if not follows(source, node, move.node) or _earlier(source, scope, move):
            continue
        statement = source.statement(node)
        edits, sure = earlier(source, move, statement, fails=node is event.node and _surely_run(source, node))
        line, later = _line(source, event.node), _line(source, move.node)
        start = source.span(statement).start
        if any(
            e.what is What.ATTACH
            and e.path.startswith(move.path + ".")
            and source.span(e.statement).start >= start
            for e in scope.events[: move.order]
        ):
            edits = edits[:1]  # what arrives later needs the late move, too
        return Late(
            source.span(node),
            f"`{event.path}` is run on line {line}, but `{move.path}` is moved only on line {later}",
            f"move `{move.path}` before it is run",
            edits,
            Safety.SAFE if sure else Safety.UNSAFE,
            (Related(source.span(move.node), f"`{move.path}` is moved here"),),
        )
    return None


def _surely_run(source: Source, node: ast.AST) -> bool:
    """Does a plain statement run an expression in any case, not only `if` something holds?"""
    while not isinstance(node, ast.stmt):
        node = source.parents[node]
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.GeneratorExp)):
            return False
    return not hasattr(node, "body")


def _early_uses(flow: Flow, scope: Scope, move: Event) -> Iterator[tuple[ast.expr, Event]]:
    """Runs of an unmoved module on a tensor of the device, with the expression of this scope."""
    for at, event in _runs_below(flow.source, scope).get(move.path, ()):
        if at >= move.order:
            break
        if not event.via and _meets_device(flow, event, move):
            yield event.node, event
    if move.path != "self" or scope.owner is None:
        return
    # A method that is called on the way, such as one that probes for the size of a layer.
    methods = {other.name: other for other in flow.scopes if other.owner is scope.owner}
    for node in flow.source.walk(scope.node):
        if isinstance(node, ast.Call) and dotted(node.func).startswith("self."):
            method = methods.get(dotted(node.func).removeprefix("self."))
            if method is None or method is scope:
                continue
            moved = any(e.what is What.MOVE and e.path == "self" for e in method.events)
            for event in () if moved else method.events:
                if not event.via and _meets_device(flow, event, move):
                    yield node, event


@remembered
def _runs_below(source: Source, scope: Scope) -> dict[str, list[tuple[int, Event]]]:
    """Path -> the numbered events that run what it names, or a part of that."""
    found: dict[str, list[tuple[int, Event]]] = {}
    for at, event in enumerate(scope.events):
        if event.what is What.USE:
            parts = event.path.split(".")
            for size in range(1, len(parts) + 1):
                found.setdefault(".".join(parts[:size]), []).append((at, event))
    return found


def _meets_device(flow: Flow, event: Event, move: Event) -> bool:
    node, place = event.node, event.place
    if event.what is not What.USE or not isinstance(node, ast.Call) or place is None:
        return False
    if place.where is not Where.DEFAULT or event.detail.startswith("passed") or event.value.bare:
        return False
    if event.path != move.path and not event.path.startswith(move.path + "."):
        return False
    given = [flow.value(argument) for argument in node.args]
    return any(value.kind in (Kind.TENSOR, Kind.BATCH) and value.place.on_device for value in given)


# --- after a wrap ----------------------------------------------------------------------------


def _after_wrap(source: Source, scope: Scope, move: Event) -> Late | None:
    """DistributedDataParallel wants parameters that are where they will stay."""
    for at, event in _wraps(source, scope):
        if at >= move.order:
            break
        statement = event.statement
        target = path_of(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if move.path not in (target, event.path) or not follows(source, statement, move.node):
            continue
        if _earlier(source, scope, event):
            continue
        asks = isinstance(event.node, ast.Call) and any(k.arg == "device_ids" for k in event.node.keywords)
        edits, sure = earlier(source, move, statement, event.path, fails=asks)
        where, wrap = _line(source, statement), event.detail.rpartition(".")[2]
        return Late(
            source.span(move.node),
            f"`{event.path}` is wrapped in {wrap} on line {where}, before it is moved",
            f"move `{event.path}` before it is wrapped",
            edits,
            Safety.SAFE if sure else Safety.UNSAFE,
            (Related(source.span(event.node), "wrapped here"),),
        )
    return None


@remembered
def _wraps(source: Source, scope: Scope) -> list[tuple[int, Event]]:
    """The numbered events that wrap a module for DDP."""
    wraps = ((at, event) for at, event in enumerate(scope.events) if event.what is What.WRAP)
    return [(at, event) for at, event in wraps if event.detail.endswith(_DDP) and not event.via]


# --- after the state of its optimizer ----------------------------------------------------------


def _after_restore(source: Source, scope: Scope, move: Event) -> Late | None:
    """`Optimizer.load_state_dict` puts the state where the parameters are, and it stays there."""
    if f"{move.path}.parameters" not in source.text or _earlier(source, scope, move):
        return None
    for made, name in _optimizers(source, scope, move.path):
        for node in _loading(source, scope.node):
            sure = _loads(node, name)
            if sure is False:
                continue
            if (
                made is source.statement(node)
                or not follows(source, made, node)
                or not follows(source, node, move.node)
                or not used_after(source, scope.node, name, node, move.node)
            ):
                continue
            edits, untouched = earlier(source, move, made)
            how = "is" if sure else "may be"
            line, later = _line(source, node), _line(source, move.node)
            return Late(
                source.span(move.node),
                f"the state of `{name}` {how} loaded on line {line}, with `{move.path}` still on the CPU; "
                f"it stays there when `{move.path}` is moved on line {later}",
                f"move `{move.path}` before `{name}` is made",
                edits,
                Safety.SAFE if sure and untouched else Safety.UNSAFE,
                (Related(source.span(node), "the state is loaded here"),),
            )
    return None


@remembered
def _loading(source: Source, scope: ast.AST) -> list[ast.Call]:
    """The calls that may load something, as their names say."""
    calls = source.of_kind(ast.Call, scope)
    return [call for call in calls if _LOADING.search(dotted(call.func).rpartition(".")[2])]


def _loads(call: ast.Call, optimizer: str) -> bool | None:
    """Does a call load the optimizer's state? None where only its name says so."""
    name = dotted(call.func)
    if name == f"{optimizer}.load_state_dict":
        return True
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    if _LOADING.search(name.rpartition(".")[2]) and any(dotted(argument) == optimizer for argument in given):
        return None
    return False


def _optimizers(source: Source, scope: Scope, path: str) -> Iterator[tuple[ast.stmt, str]]:
    """Statements `optimizer = Adam(path.parameters())`, with the name."""
    for node in source.walk(scope.node):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        name = path_of(node.targets[0])
        if not name or not path_of(node.value.func).rpartition(".")[2][:1].isupper():
            continue
        arguments = (*node.value.args, *(keyword.value for keyword in node.value.keywords))
        if any(
            isinstance(part, ast.Call) and dotted(part.func) == f"{path}.parameters"
            for argument in arguments
            for part in walk(argument)
        ):
            yield node, name


def _reloaded(flow: Flow) -> Iterator[Late]:
    """What was moved takes tensors from a checkpoint as they are, and so leaves its device."""
    source = flow.source
    if not any(name in source.text for name in _KEEPS_WHAT_IS_LOADED):
        return
    names = {
        target.id
        for node in source.walk()
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        and path_of(node.value.func).rpartition(".")[2] in _KEEPS_WHAT_IS_LOADED
    }
    moves = {event.path: event for event in flow.events(What.MOVE) if event.path in names and _moves(event)}
    for node in source.walk():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        path = dotted(node.func.value)
        move = moves.get(path)
        if node.func.attr != "load_state_dict" or move is None or move.place is None:
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
        device, line = move.place.text, _line(source, node)
        expression = ast.parse(device, mode="eval").body
        known = steady(source, expression) and bound_before(source, expression, statement)
        yield Late(
            source.span(node),
            f"`{path}` takes over what is loaded on line {line}, on the CPU, although it is moved to "
            f"`{device}` on line {_line(source, move.node)}",
            f"move `{path}` again",
            (InsertStatement(source.span(statement), f"{path}.to({device})"),) if known else (),
            Safety.UNSAFE,
            (Related(source.span(move.node), f"`{path}` is moved here"),),
        )


# --- in one branch -----------------------------------------------------------------------------


def _in_one_branch(flow: Flow, scope: Scope, move: Event, moves: list[Event]) -> Late | None:
    """A move to a device variable that depends on something else, of a module that is used either way."""
    source, statement, place = flow.source, move.statement, move.place
    chain = around(source, statement)
    if (
        place is None
        or place.where is not Where.SYMBOL
        or len(chain) < 2
        or not isinstance(statement, ast.Expr)
    ):
        return None
    guard = chain[1]
    if not isinstance(guard, ast.If) or guard.orelse or statement not in guard.body or "." in move.path:
        return None
    test = ast.unparse(guard.test)
    if about_devices(guard.test) or _OTHER_REASONS.search(test) or move.path in test:
        return None
    made = [node for node in stores(source, scope.node, move.path) if follows(source, node, guard)]
    if not made or not settled_binding(source, made[-1:], guard) or _earlier(source, scope, move):
        return None
    assigned = source.statement(made[-1])
    if not isinstance(assigned, ast.Assign) or not isinstance(assigned.value, ast.Call):
        return None
    if move.value.place.where is not Where.DEFAULT:
        return None
    use = next(
        (e for e in scope.events[move.order :] if _runs(e, move) and follows(source, guard, e.node)), None
    )
    others = {other.statement for other in moves if other is not move and other.path == move.path}
    if use is None or use.statement in source.walk(guard) or settled(source, guard, use.statement, others):
        return None
    device = place.text
    edits: tuple[Edit, ...] = (MoveStatement(source.span(statement), source.span(guard)),)
    later = guard.body[guard.body.index(statement) + 1 :]
    if looked_at(source, move.path, source.span(statement).end, source.span(guard).end) or any(
        any(jumps(one)) for one in later
    ):
        edits = ()  # it is needed in the branch, or not behind it
    return Late(
        source.span(move.node),
        f"`{move.path}` is moved to `{device}` only if `{test}`, but it is run on line "
        f"{_line(source, use.node)} either way",
        f"move `{move.path}` either way" if edits else "",
        edits,
        Safety.UNSAFE,
        (Related(source.span(use.node), "run here"),),
    )


def _runs(event: Event, move: Event) -> bool:
    value = event.value
    same = value.identity == move.value.identity or move.value.identity in value.arms
    return event.what is What.USE and same and event.detail in ("called", "forward", "generate")
