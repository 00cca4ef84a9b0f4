"""What is iterated over; and what Python calls of an object by itself: in loops, for an index, for `with`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devfix.engine.files import Class
from devfix.engine.joins import element
from devfix.engine.places import AT_DEFAULT, BY_OWNER, IN, Place
from devfix.engine.transfer.histories import Histories
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANYTHING,
    ARRAY,
    BATCH,
    ELEMENT,
    LOAD,
    LOADER,
    MAPPING,
    MODULE,
    NUMBER,
    OBJECT,
    PAIR,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Value,
)


class Implied(ast.Call):
    """A call that Python makes, of a property or a special method: it is written nowhere."""


class Protocols(Histories):
    def iterate(self, value: Value, node: ast.AST) -> Value:
        """Any element of what is iterated over."""
        kind = value.kind
        if kind == LOADER:
            if value.rest is not None:
                return value.rest
            if value.role == "owned":
                return Value(BATCH, BY_OWNER)
            return self.yielded(value, node, "loader")
        if kind == SEQUENCE:
            return self.any_of(value) or ANYTHING
        if kind == MAPPING:
            return A_TEXT
        if kind == BATCH:
            return value.linked(self.link(ELEMENT, node)) if value.links else value
        if kind == TENSOR and value.role == PAIR:
            return value.but(role="")
        if kind == TENSOR:
            return value.but(rank=0 if value.role == "flat" else None, role="item")
        if kind == MODULE:
            return self._part(value)
        if kind == OBJECT and (fields := self._fields_of(value)):
            return element(Value(SEQUENCE, items=fields)) or ANYTHING
        if kind == OBJECT and (made := self.iterated(value, node)) is not None:
            return made
        if kind == ARRAY:
            return Value(ARRAY)
        if kind in (NUMBER, TEXT):
            return Value(kind)
        if value.role == "given":
            return value
        if kind == UNKNOWN and value.place.is_named:
            return Value(UNKNOWN, Place(value.place.kind, ("element", value.place.key)))
        return ANYTHING

    def yielded(self, loader: Value, node: ast.AST, name: str) -> Value:
        """What a loader yields, or an item of a data set: of pairs the first element, the other may be a number."""
        links = (self.link(LOAD, node, name),)
        place = AT_DEFAULT if loader.place.kind == "unknown" else loader.place
        made = Value(BATCH, place, rank=1, links=links, assumed=loader.assumed)
        if loader.like is not None and loader.like.items is not None:
            return Value(SEQUENCE, items=tuple([_as_part(one, made) for one in loader.like.items]))
        return made if loader.role != "pairs" else Value(SEQUENCE, items=(made, ANYTHING))

    def _part(self, value: Value) -> Value:
        """Any part of a module: where the module is, and of a class of torch or of the program only if all are."""
        made = self.analysis.made.get(value.ref, value)
        if made.links and made.links[0].name.endswith(("ParameterList", "ParameterDict")):
            return Value(TENSOR, Place(IN, value.ref), role="parameter", assumed=value.assumed)
        if value.ref is not None:
            parts = tuple([one for _, one in self.state.attributes(value.ref) if one.kind == MODULE])
            found = self.any_of(Value(SEQUENCE, items=parts)) if parts and value.bound is None else None
            if found is not None and found.kind == MODULE and found.ref is not None:
                return found
        return Value(MODULE, self.where(value), assumed=value.assumed, like=value)

    def _fields_of(self, value: Value) -> tuple[Value, ...]:
        """The elements of a NamedTuple, in their order."""
        owner = value.bound.ref if isinstance(value.bound, Value) else None
        if not isinstance(owner, Class) or not any(one.endswith("NamedTuple") for one in owner.bases):
            return ()
        return tuple([self.state.attribute(value.ref, name) or ANYTHING for name in owner.fields])

    def special(
        self, at: ast.AST, value: Value, name: str, given: Sequence[tuple[Value, ast.expr]] = ()
    ) -> Value | None:
        """What a special method of an instance of a class in view gives; None if it has none."""
        owner = value.bound.ref if value.kind == OBJECT and isinstance(value.bound, Value) else None
        method = owner.method(name) if isinstance(owner, Class) else None
        if method is None or not hasattr(at, "lineno"):
            return None
        call = self.analysis.implied.get((at, name))
        if call is None:
            func = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
            call = Implied(func, [one for _, one in given], [])
            for node in (func.value, func, call):
                ast.copy_location(node, at)
            self.analysis.implied[at, name] = call
        return self.call_function(call, method, value, (list(given), {}))

    def iterated(self, value: Value, at: ast.AST) -> Value | None:
        """Any element of an object of a class that says what its elements are; None for others."""
        given = self.special(at, value, "__iter__")
        if given is not None and given.kind != OBJECT:
            return element(given) if given.kind == SEQUENCE else self.iterate(given, at)
        one = self.special(at, value if given is None else given, "__next__")
        if one is not None or given is not None:
            return one
        index = ast.copy_location(ast.Constant(0), at) if hasattr(at, "lineno") else ast.Constant(0)
        return self.special(at, value, "__getitem__", [(A_NUMBER, index)])


def _as_part(part: Value, batch: Value) -> Value:
    """A part of a batch, as a collate function makes it: a list has no device, and what is unknown may be a tensor."""
    if part.kind == TENSOR and not part.place.on_device:
        return batch.but(kind=TENSOR, rank=part.rank, assumed=part.assumed)
    if part.kind == SEQUENCE:
        return Value(SEQUENCE, rest=ANYTHING)
    return batch if part.kind in (UNKNOWN, TENSOR, BATCH) else part
