"""What happens to modules, tensors and devices in a scope, in the order of execution."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from devfix.engine.events import MOVES
from devfix.flow.values import UNKNOWN, WHERE, Kind, Place, Value, Where, either, placed, public, value_at
from devfix.text.names import path_of

if TYPE_CHECKING:
    from devfix.engine import events, facts
    from devfix.engine.files import Function
    from devfix.engine.trace import Watched


class What(Enum):
    """What happens."""

    MOVE = auto()
    """A module or tensor is moved: `model.to(device)`, `x = x.cuda()`."""
    ATTACH = auto()
    """A submodule or parameter is attached to `value`."""
    USE = auto()
    """A module is run, or passed to code that may run it."""
    READ = auto()
    """A method of a module is called that does not run it, such as `state_dict`."""
    WRAP = auto()
    """DataParallel, DDP, FSDP, torch.compile ...: needs the module on its final device."""
    MEET = auto()
    """An operation combines values on different devices."""


@dataclass(frozen=True, eq=False, slots=True)
class Named:
    """A device expression that can be written at some point of the program."""

    text: str
    """As it is written, such as `args.device`."""
    value: Value
    """What it is."""


@dataclass(frozen=True, eq=False, slots=True)
class Meeting:
    """An argument of a MEET on another device than the others."""

    node: ast.expr
    """The argument."""
    value: Value
    """What it is."""
    place: Place
    """Its place."""
    name: str = ""
    """The keyword by which it is passed."""


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """One thing that happens.

    - `node` is the expression (usually a call), `statement` the statement that contains it. For an
      event inside a called function of the project, both are those of the call, and `via` names the function.
    - `value` is the module or tensor that it happens to, `path` how it is written ("model",
      "self.model.head"), `place` where it goes (MOVE), is (MEET) or comes from (ATTACH).
    - ATTACH: `child` is what is attached. MEET: `strays` are the arguments on another device.
    - `devices`: device expressions in scope at that point (MEET).
    """

    what: What
    """What happens."""
    node: ast.AST
    statement: ast.stmt
    scope: Scope
    """The function or module that it happens in."""
    value: Value
    path: str = ""
    place: Place | None = None
    child: Value | None = None
    strays: tuple[Meeting, ...] = ()
    devices: tuple[Named, ...] = ()
    via: str = ""
    detail: str = ""
    """More, by `what`, such as the name of a method."""
    order: int = 0
    """Grows in the order of execution."""


@dataclass(eq=False, slots=True)
class Scope:
    """A module body or a function."""

    node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
    """The function or module."""
    name: str
    """Its name."""
    owner: ast.ClassDef | None = None
    """The class that it is a method of."""
    events: list[Event] = field(default_factory=list)
    """What happens, in order."""
    parameters: tuple[Value, ...] = ()
    """What its parameters are, whoever calls it."""
    returned: Value | None = None
    """What it returns; None if it returns nothing."""
    host: bool = False
    """Of a class that runs in loader workers or prepares data: there, the CPU is correct."""
    owned: bool = False
    """A framework calls it with model and batch already placed."""


_WHATS = {
    "moved": What.MOVE,
    "attached": What.ATTACH,
    "filled": What.ATTACH,
    "used": What.USE,
    "handed": What.USE,
    "wrapped": What.WRAP,
}


def scopes_of(watched: Watched) -> Iterator[Scope]:
    """The body and the functions of the file, with what happens in each."""
    from devfix.checkers.certainty import why_silent

    source, told = watched.file.source, set[ast.AST]()
    scopes: dict[Function | None, Scope] = {None: Scope(source.tree, "<module>")}
    for one in watched.file.all_functions:
        owner = one.owner
        kind = watched.class_kind(owner) if owner is not None else ""
        node = owner.node if owner is not None else None
        scopes[one] = Scope(
            one.node, one.name, node, [], _parameters(watched, one), _returned(watched, one),
            host=kind == "host", owned=kind == "owned",
        )  # fmt: skip
    for function, log in watched.histories.items():
        for event in log.values() if function in scopes else ():
            if event.what in _WHATS:
                told.add(event.node)
                scopes[function].events.append(_event(watched, event, scopes[function]))
    for mismatch in watched.mismatches:
        here = mismatch.file is watched.file and mismatch.function in scopes
        if here and not why_silent(mismatch, watched):
            scopes[mismatch.function].events.append(_meeting(watched, mismatch, scopes[mismatch.function]))
    by_node: dict[ast.AST, Scope] = {one.node: one for one in scopes.values()}
    for call in source.calls:
        if call not in told and isinstance(call.func, ast.Attribute):
            home = by_node.get(source.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree)
            made = _of_method(watched, call, call.func, home) if home is not None else None
            if home is not None and made is not None:
                home.events.append(made)
    for scope in scopes.values():
        scope.events.sort(key=lambda event: source.span(event.node).end)
        scope.events = [replace(event, order=order) for order, event in enumerate(scope.events)]
        yield scope


def _parameters(watched: Watched, function: Function) -> tuple[Value, ...]:
    owner = function.owner
    me = watched.classes.itself(owner) if owner is not None and not function.static else None
    known = watched.parameters(function, me)
    if me is not None and function.positional:
        known = {**known, function.positional[0]: me}
    given = [known.get(one.arg) for one in function.parameters]
    return tuple(public(watched, one, one.place) if one is not None else UNKNOWN for one in given)


def _returned(watched: Watched, function: Function) -> Value | None:
    source = watched.file.source
    own = [
        one
        for one in source.of_kind(ast.Return, function.node)
        if source.enclosing(one, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) is function.node
    ]
    values = [one.value for one in own if one.value is not None]
    return either([value_at(watched, one) for one in values]) if values else None


def _event(watched: Watched, event: events.Event, scope: Scope) -> Event:
    value, place = public(watched, event.module, event.place), placed(watched, event.module, event.place)
    child, path = None, event.path if "(" not in event.path else ""
    if event.what == "moved":
        place = Place(place.where, event.device or place.text, event.node)
        if value.kind in (Kind.ANY, Kind.UNKNOWN) and isinstance(event.statement, ast.Expr):
            value = replace(value, kind=Kind.MODULE)  # of a tensor, the copy would be lost
    elif event.child is not None:
        child = public(watched, event.child, event.child.place)
        place = Place(Where.DEFAULT, "", child.node) if event.stays else child.place
    return Event(
        _WHATS[event.what], event.node, event.statement, scope, value, path, place, child,
        via=event.via, detail=event.name,
    )  # fmt: skip


def _meeting(watched: Watched, mismatch: facts.Mismatch, scope: Scope) -> Event:
    """Values on different devices come together."""
    node, source = mismatch.node, watched.file.source
    keywords = {one.value: one.arg or "" for one in node.keywords} if isinstance(node, ast.Call) else {}
    stray, at = public(watched, mismatch.stray, mismatch.stray_place), mismatch.stray_node
    value = public(watched, mismatch.anchor, mismatch.anchor_place)
    strays = (Meeting(at, stray, stray.place, keywords.get(at, "")),) if isinstance(at, ast.expr) else ()
    devices = [one for one in mismatch.scopes[0][1] if one.form == "device"]
    named = tuple(
        Named(one.text, Value(Kind.DEVICE, Place(WHERE.get(one.place.kind, Where.UNKNOWN), one.text)))
        for one in devices
    )
    return Event(
        What.MEET, node, source.statement(node), scope, value, path_of(mismatch.anchor_node or node), value.place,
        strays=strays, devices=named, detail=mismatch.operation,
    )  # fmt: skip


def _of_method(watched: Watched, call: ast.Call, func: ast.Attribute, scope: Scope) -> Event | None:
    """A tensor that is moved, or a module that is asked for something."""
    made, value = value_at(watched, call), value_at(watched, func.value)
    statement, path = watched.file.source.statement(call), path_of(func.value)
    if func.attr in MOVES and made.kind in (Kind.TENSOR, Kind.BATCH):
        return Event(What.MOVE, call, statement, scope, value, path, made.place, detail="tensor")
    if value.kind is Kind.MODULE:
        return Event(What.READ, call, statement, scope, value, path, detail=func.attr)
    return None
