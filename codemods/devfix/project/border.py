"""Values and events of another file as they come over the border: without a node of that file.

Each node becomes an `Elsewhere` that has the position of the asking expression and says where the other
one is. Device expressions of the other file cannot be written here, so their text goes, but for literals.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from devfix.flow.events import Event, Meeting, Scope, What
from devfix.flow.frame import Frame
from devfix.flow.lattice import UNKNOWN, UNPLACED, Kind, Place, Value, Where
from devfix.flow.outside import Elsewhere
from devfix.source import Source

_DEFINED = (Kind.FUNCTION, Kind.CLASS, Kind.INSTANCE)


class Border:
    """What crosses it on the way to one expression of the asking file.

    `path` is the other file with the text `source`, `node` the expression here, `default_known` whether it is
    known here where torch makes things; `name_of` gives the project's name of a function or class of the other
    file, or an empty string; `keys` are the project's keys of the devices that the other file defines.
    """

    def __init__(
        self,
        path: str,
        source: Source,
        node: ast.expr,
        default_known: bool,
        name_of: Callable[[Value], str | None],
        keys: dict[int, int],
    ) -> None:
        self.path = path
        self.source = source
        self.node = node
        self.default_known = default_known
        self.name_of = name_of
        self.keys = keys

    def marker(self, node: ast.AST | None) -> Elsewhere:
        """What stands for a node of the other file."""
        if isinstance(node, Elsewhere):  # from a third file
            path, line, column = node.path, node.line, node.column
        else:
            path = self.path
            line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1
        made = Elsewhere()
        made.path, made.line, made.column = path, line, column
        return ast.copy_location(made, self.node)

    def place(self, place: Place) -> Place:
        where = place.where
        if where is Where.UNKNOWN or (where is Where.DEFAULT and not self.default_known):
            return UNPLACED
        text = place.text if place.text.startswith(('"', "'")) else ""
        return Place(where, text, self.keys.get(place.key, place.key), self.marker(place.node), place.guarded)

    def value(self, value: Value) -> Value:
        kind = value.kind
        if kind is Kind.UNKNOWN or kind is Kind.NUMBER:
            return value
        name = self.name_of(value)
        if kind in _DEFINED:
            if kind is Kind.FUNCTION and value.node is None and not value.form:
                return value  # a transform
            return Value(kind, name=name, form="outside") if name else UNKNOWN
        moved = replace(value, place=self.place(value.place), node=self.marker(value.node))
        if kind is Kind.MODULE:
            moved.name = name if name is not None else value.name.lstrip(".")
        if value.items is not None:
            moved.items = tuple(self.value(item) for item in value.items)
        if value.fields is not None:
            moved.fields = {key: self.value(item) for key, item in value.fields.items()}
        if value.element is not None:
            moved.element = moved if value.element is value else self.value(value.element)
        return moved

    def summary(self, scope: Scope, caller: Frame, given: frozenset[int], receiver: str) -> Scope:
        """The summary of a function for a call of it: what happens to the objects in `given`.

        `receiver` is how the object is written here whose method it is.
        """
        events = [
            self._event(event, caller, receiver)
            for event in scope.events
            if event.value.identity in given or event.what is What.MEET
        ]
        returned = scope.returned
        if returned is not None and returned.identity not in given:
            returned = self.value(returned)
        return Scope(scope.node, scope.name, None, events, scope.parameters, returned)

    def _event(self, event: Event, caller: Frame, receiver: str) -> Event:
        path = event.path
        path = f"{receiver}{path[4:]}" if receiver and path.startswith("self.") else ""
        return Event(
            event.what,
            self.node,
            caller.statement,
            caller.scope,
            self.value(event.value),
            path,
            None if event.place is None else self.place(event.place),
            tuple(self._meeting(meeting) for meeting in event.strays),
            (),
            event.via,
            event.detail,
        )

    def _meeting(self, meeting: Meeting) -> Meeting:
        return Meeting(self.node, self.value(meeting.value), self.place(meeting.place), meeting.name)
