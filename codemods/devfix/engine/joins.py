"""What a value is after two paths, and what stands for several values."""

from __future__ import annotations

from devfix.engine.forms import joined
from devfix.engine.places import AT, CHOICE, NOWHERE, ON_CPU, Place, choose
from devfix.engine.values import (
    ANYTHING,
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    GLOBAL,
    LIBRARY,
    LOCAL,
    MANY,
    MAPPING,
    MAX_ITEMS,
    MODULE,
    NONE,
    NUMBER,
    NUMBERED,
    OBJECT,
    OR_NUMBER,
    PLACED,
    RANKS,
    RECURSIVE,
    SEQUENCE,
    SEVERAL,
    TENSOR,
    TEXT,
    UNKNOWN,
    Value,
    texts,
)

MAX_CALLEES = 6  # that a value may be, and that are all called


def element(value: Value) -> Value | None:
    """Any element of a container, as one value; None where it has none that are known."""
    found = value.rest
    for one in value.items or ():
        found = one if found is None else join(found, one)
    for other in (value.fields or {}).values():
        found = other if found is None else join(found, other)
    return found


def sequence(items: list[Value]) -> Value:
    """A sequence of these elements; the first few keep their order."""
    if len(items) <= MAX_ITEMS:
        return Value(SEQUENCE, items=tuple(items))
    rest = items[MAX_ITEMS]
    for one in items[MAX_ITEMS + 1 : 64]:
        rest = join(rest, one)
    return Value(SEQUENCE, items=tuple(items[:MAX_ITEMS]), rest=rest)


def join(a: Value, b: Value, condition: object = None, depth: int = 0) -> Value:
    """What a value is after two paths: `a` where the condition holds, else `b`."""
    if a is b:
        return a
    if _is_callee(a) and _is_callee(b) and (a.kind == UNKNOWN or a.kind != b.kind or a.ref != b.ref):
        return _one_of(a, b, condition)
    if _is_object(a) and _is_object(b) and (a.kind != b.kind or not _same_bound(a.bound, b.bound)):
        return _one_of(a, b)
    if a.kind != b.kind:
        made = _unlike(a, b, condition)
        return made if a.origins == b.origins else made.but(origins=a.origins | b.origins)
    place = _either(a, b, condition)
    if a.const is True and b.const is False and condition is not None:
        place = Place(AT, condition)  # a name for what has been asked
    fields, items, rest = a.fields, a.items, a.rest
    if depth > 3:
        items = rest = fields = None
    elif a.kind in (SEQUENCE, MAPPING, OBJECT, BATCH):
        if (a.items is None) != (b.items is None) or len(a.items or ()) != len(b.items or ()):
            both = [one for one in (element(a), element(b)) if one is not None]
            rest = both[0] if len(both) == 1 else join(both[0], both[1], None, depth + 1) if both else None
            items = None
        else:
            if a.items is not None and b.items is not None:
                items = tuple(
                    [join(x, y, condition, depth + 1) for x, y in zip(a.items, b.items, strict=True)]
                )
            if a.rest is not b.rest:
                rest = (
                    join(a.rest, b.rest, condition, depth + 1)
                    if a.rest is not None and b.rest is not None
                    else a.rest or b.rest
                )
        if a.fields is not b.fields:
            mine, others = a.fields or {}, b.fields or {}
            fields = {
                key: join(mine[key], others[key], condition, depth + 1)
                if key in mine and key in others
                else mine.get(key, others.get(key, ANYTHING))
                for key in {**mine, **others}
            }
    newer = bool(b.links) and (not a.links or (b.place.on_host and not a.place.on_host))
    links = b.links if newer else a.links
    role = a.role if a.role == b.role else _number_role(a, b, condition)
    if role in RANKS and a.role != b.role:
        links = a.links if a.role == role else b.links
    ref = a.ref if a.ref == b.ref else None
    same = a.const is b.const or a.const == b.const
    return Value(
        a.kind,
        place,
        rank=_rank(a, b),
        ref=ref,
        const=a.const if same else ...,
        items=items,
        rest=rest,
        fields=fields,
        links=links,
        assumed=a.assumed | b.assumed,
        forms=joined(a.forms, b.forms),
        texts=frozenset() if same or a.kind != TEXT else texts(a) | texts(b),
        bound=a.bound if _same_bound(a.bound, b.bound) else None,
        like=a.like if a.like is b.like or links is a.links else b.like,
        role=role,
        origins=a.origins | b.origins,
    )


def _is_callee(value: Value) -> bool:
    return value.kind in (FUNCTION, CLASS, LIBRARY) or value.role == SEVERAL


def _is_object(value: Value) -> bool:
    """Is it an object of a class in view, or one of several?"""
    made = value.kind == OBJECT and value.ref is not None
    return value.role in (SEVERAL, MANY) or (made and value.bound is not None and value.bound.kind == CLASS)


def _one_of(a: Value, b: Value, condition: object = None) -> Value:
    """Of functions, classes and objects one, which the condition decides; not known where there are many."""
    items: list[Value] = []
    for value in (a, b):
        for one in value.items or () if value.role in (SEVERAL, MANY) else (value,):
            if not any(
                (one.kind, one.ref) == (known.kind, known.ref) and one.bound is known.bound for known in items
            ):
                items.append(one)
    if len(items) > MAX_CALLEES or MANY in (a.role, b.role):
        return Value(UNKNOWN, role=MANY) if all(one.kind == OBJECT for one in items) else ANYTHING
    decided = condition is not None and SEVERAL not in (a.role, b.role) and len(items) == 2
    return Value(UNKNOWN, role=SEVERAL, items=tuple(items), ref=(SEVERAL, condition) if decided else None)


def _number_role(a: Value, b: Value, condition: object) -> str:
    """Of `rank = 0` and a number of the process where there are several; of its two numbers, the one that is wrong.

    The number among all processes is right where the condition asks for the other one, and it is not there.
    """
    roles = {a.role, b.role}
    if NUMBERED in roles:
        return NUMBERED
    if roles == RANKS:
        return LOCAL if condition is None or "local" in str(condition).lower() else GLOBAL
    for one, other in ((a, b), (b, a)):
        if one.role in RANKS and not other.role and other.const is not ...:
            return one.role
    return ""


def _rank(a: Value, b: Value) -> int | None:
    """The dimensions of the one that may be a stray count: those of what is on the CPU, on one of the paths."""
    if a.place.on_host != b.place.on_host:
        return a.rank if a.place.on_host else b.rank
    return 1 if a.place.on_host and {a.rank, b.rank} == {1, None} else a.rank if a.rank == b.rank else None


def _same_bound(a: Value | None, b: Value | None) -> bool:
    """Are two values of one object, or of one class?"""
    return a is b or (a is not None and b is not None and a.kind == b.kind == CLASS and a.ref is b.ref)


def _either(a: Value, b: Value, condition: object) -> Place:
    """Two paths: where nothing tells them apart, both on the CPU is the CPU."""
    if a.place == b.place:
        return a.place
    if condition is not None:
        return choose(condition, a.place, b.place)
    if a.place.on_host and b.place.on_host:
        return a.place
    return NOWHERE


def _unlike(a: Value, b: Value, condition: object) -> Value:
    """Two paths with values of different kinds: None and something is something, on one path."""
    for one, other, holds in ((a, b, False), (b, a, True)):
        if one.role == RECURSIVE:
            return other
        if one.kind == NONE:
            if other.kind in PLACED and condition is not None and other.place.kind != "choice":
                there = (
                    choose(condition, other.place, NOWHERE)
                    if not holds
                    else choose(condition, NOWHERE, other.place)
                )
                return other.but(place=there, const=...)
            return other.but(const=...) if other.const is not ... else other
    kinds = {a.kind, b.kind}
    for one, other in ((a, b), (b, a)):
        if one.kind == UNKNOWN and other.kind == SEQUENCE and other.items == () and other.rest is None:
            return one  # `x or []`
    if kinds <= {TENSOR, BATCH}:
        place = (
            a.place
            if a.place == b.place
            else choose(condition, a.place, b.place)
            if condition is not None
            else NOWHERE
        )
        made = b if b.links and b.place.on_host else a
        return made.but(kind=TENSOR, place=place, assumed=a.assumed | b.assumed, role="")
    if DEVICE in kinds and TEXT in kinds:
        device, text = (a, b) if a.kind == DEVICE else (b, a)
        forms = joined(device.forms, text.forms)
        if text.const is not ...:
            place = device.place
            if text.const == "cpu" and condition is not None and place.kind != "choice":
                place = choose(condition, *((place, ON_CPU) if device is a else (ON_CPU, place)))
            return device.but(place=place, forms=forms, const=...)
        return Value(UNKNOWN, forms=forms) if device.forms else ANYTHING
    if condition is not None and UNKNOWN in kinds and not kinds.isdisjoint({TENSOR, BATCH}):
        data = b if a.kind == UNKNOWN else a
        kept = data.kind == TENSOR or not data.place.on_host
        if kept and data.place.kind != CHOICE:  # it may be elsewhere on the other path
            data = data.but(items=None, rest=None, fields=None) if data.kind == BATCH else data
            return data.but(place=choose(condition, a.place, b.place), assumed=a.assumed | b.assumed)
    if kinds <= {TENSOR, NUMBER} or kinds <= {TENSOR, UNKNOWN}:
        tensor = a if a.kind == TENSOR else b
        if condition is not None and NUMBER in kinds and tensor.place.kind != "choice":
            first, second = (a.place, NOWHERE) if tensor is a else (NOWHERE, b.place)
            return tensor.doubted(OR_NUMBER).but(place=choose(condition, first, second))
        return tensor.but(place=NOWHERE, rank=None)
    if kinds == {MODULE, SEQUENCE}:  # a ModuleList on one path, a list on the other
        many = a if a.kind == SEQUENCE else b
        return many.but(links=many.links or (a if many is b else b).links)
    if kinds <= {MODULE, UNKNOWN}:
        module = a if a.kind == MODULE else b
        same = a.ref is not None and a.ref == b.ref  # one path shows what it is
        return module if same else module.but(place=NOWHERE, ref=None)
    return ANYTHING


def alike(made: list[Value]) -> Value | None:
    """What sequences of one length have in common: the items that are of one kind; None of others."""
    every = [one.items or () for one in made]
    if len(set(map(len, every))) != 1:
        return None
    columns = zip(*every, strict=True)
    return Value(
        SEQUENCE, items=tuple([x[0] if len({y.kind for y in x}) == 1 else ANYTHING for x in columns])
    )
