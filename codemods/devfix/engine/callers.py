"""What callers in other files pass to a function, as values of the engine."""

from __future__ import annotations

import ast
from typing import NamedTuple, Protocol

from devfix.engine.files import Function
from devfix.engine.places import AT_DEFAULT, BY_OWNER, IN, LITERAL, NOWHERE, OWNED, VAR, Place, alternatives
from devfix.engine.state import State
from devfix.engine.values import ANYTHING, DEVICE, LOADER, MODULE, NAME, PROVEN, Assumption, Value


class Site(NamedTuple):
    """A position in another file; line and column from 1."""

    path: str
    line: int
    column: int


class Given(NamedTuple):
    """What one call passes for a parameter: its kind and role, and where it is, as places of the caller.

    `site` is where the caller has put it there.
    """

    kind: str
    role: str
    place: Place
    is_proven: bool
    site: Site | None


Call = dict[str, Given]  # by parameter


class Callers(Protocol):
    """What each call in another file passes to a function; nothing if not all of them are known.

    Without `tests`, those of files of tests do not count: they mostly pass what is on the CPU, and are not its users.
    With `alike`, nothing also where `passed` would find nothing, for which fewer files have to be run. With
    `of_objects`, what is known of calls of a method, which need not be all.
    """

    def __call__(
        self, function: Function, tests: bool = True, *, alike: bool = False, of_objects: bool = False
    ) -> list[Call]: ...


# Place -> the parameter by which something that is there comes in, and what has put it there, in another file.
Origins = dict[Place, tuple[ast.arg, Site | None]]


def passed(
    calls: list[Call], function: Function, known: dict[str, Value], state: State, origins: Origins
) -> dict[str, Value]:
    """The modules, loaders, and accelerators by name, that all callers agree about.

    `known` are the parameters before any caller is known; `origins` learns what has put modules where they are.
    """
    names = {one.arg: one for one in function.parameters}
    given = {name: [call[name] for call in calls if name in call] for name in names}
    alike: dict[tuple[Place, ...], Place] = {}  # where the calls have something -> where that is here
    found: dict[str, Value] = {}
    for name in names:
        if _kind(given[name], calls) == DEVICE:
            places = tuple(one.place for one in given[name])
            device = Place(VAR, ("parameter", id(function.node), name))
            if places[0].kind == LITERAL and len(set(places)) == 1:
                device = places[0]
                found[name] = known.get(name, ANYTHING).but(kind=DEVICE, place=device)
            alike.setdefault(places, device)
    for name in names:
        kind, values = _kind(given[name], calls), given[name]
        assumed = PROVEN if all(one.is_proven for one in values) else frozenset({Assumption(NAME, name)})
        if kind == MODULE:
            cell, places = ("passed", id(function.node), name), tuple(one.place for one in values)
            place = alike.setdefault(places, _joined(places, (id(function.node), name)))
            state.set_place(cell, place)
            roles = {one.role for one in values}
            role = roles.pop() if len(roles) == 1 else ""
            found[name] = Value(MODULE, Place(IN, cell), ref=cell, assumed=assumed, role=role)
            if place.on_device:
                origins.setdefault(place, (names[name], next((one.site for one in values if one.site), None)))
        elif kind == LOADER:
            owned = "owned" if any(one.role == "owned" for one in values) else ""
            found[name] = Value(LOADER, AT_DEFAULT, assumed=assumed, role=owned)
    return found


def agree(calls: list[Call]) -> bool:
    """May all of some calls, and of others that are not known yet, pass a parameter what `passed` tells?"""
    names = {name for call in calls for name in call}
    kinds = {_kind([call[name] for call in calls if name in call], calls) for name in names}
    return not calls or not kinds.isdisjoint((DEVICE, MODULE, LOADER))


def _kind(values: list[Given], calls: list[Call]) -> str:
    """The kind of what all calls pass; empty where they differ."""
    kinds = {one.kind for one in values}
    return kinds.pop() if len(kinds) == 1 and len(values) == len(calls) else ""


def _joined(places: tuple[Place, ...], key: object) -> Place:
    """Where something is that is in one of these places: on the host only if it always is."""
    found = [one for place in places for one, _ in alternatives(place)]
    devices = {place for place in found if place.on_device}
    if all(place.kind == OWNED for place in found):
        return BY_OWNER
    if not all(place.on_host or place.on_device for place in found):
        return NOWHERE
    if not devices:
        return found[0]
    only = next(iter(devices))
    return only if len(devices) == 1 and only.kind == LITERAL else Place(VAR, ("outside", key))
