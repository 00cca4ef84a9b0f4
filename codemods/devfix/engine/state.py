"""The abstract state of a run: what names hold, and the heap of modules and objects."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import count

from devfix.engine.joins import MAX_CALLEES, join
from devfix.engine.layered import Layered
from devfix.engine.places import CHOICE, IN, NO_PATH, NOWHERE, OF, Path, Place, choose, conditions, project
from devfix.engine.values import ANYTHING, DEVICE, JOIN, MODULE, OBJECT, SEQUENCE, TENSOR, History, Value

Cell = object  # of a module or an object: the place of its making, made unique

MAX_NESTING = 24  # of modules in modules
MAX_BORROWED = 64  # modules at once
# Roles of modules without parameters, of which none can say where they are; a weighted loss has a buffer only, and of
# two modules one may have none (`partly`).
EMPTY = frozenset({"bare", "loss", "stateless", "weighted", "partly"})
_TELLING = frozenset({DEVICE, TENSOR, MODULE, OBJECT})
_stamps = count(1)


class _Known:
    """What copies of `Names` share."""

    __slots__ = ("choices", "order", "telling")

    def __init__(self) -> None:
        self.choices: dict[object, dict[str, None]] = {}  # condition -> names that may have a choice by it
        self.order: dict[str, int] = {}
        self.telling: dict[str, None] = {}  # names that may be of what has a device


class Names(Layered[str, Value]):
    """Name -> value; those with a choice by a condition, and those that tell of a device, are found at once."""

    __slots__ = ()

    def __init__(self, given: Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__()
        self._notes = _Known()
        for name, value in given:
            self[name] = value

    def __setitem__(self, key: str, value: Value) -> None:
        known = self._notes
        if key not in known.order:
            known.order[key] = len(known.order)
        if value.kind in _TELLING:
            known.telling[key] = None
        if value.place.kind == CHOICE:
            for condition in conditions(value.place):
                known.choices.setdefault(condition, {})[key] = None
        if self._is_shared:  # as `Layered` does, without the call: few things are done as often
            self._own, self._is_shared = self._own.copy(), False
        self._own[key] = value

    @property
    def may_tell(self) -> bool:
        """May any of them be on a device?"""
        return bool(self._notes.telling)

    def telling(self, named: Container[str] | None = None) -> Iterator[tuple[str, Value]]:
        """What may be on a device, in the order in which the names were bound first; of some names, or of all."""
        names = [name for name in self._notes.telling if named is None or name in named]
        for name in sorted(names, key=self._notes.order.__getitem__):
            if (value := self.get(name)) is not None and value.kind in _TELLING:
                yield name, value

    def and_also(self, told: Mapping[str, Value]) -> Names:
        """These, and what is told besides."""
        new = self.copy()
        for name, value in told.items():
            new[name] = value
        return new

    def assume(self, condition: object, holds: bool) -> None:
        """Choose where it is known whether a condition holds."""
        for name in list(self._notes.choices.get(condition, ())):
            if (value := self.get(name)) is not None:
                self[name] = value.but(place=project(value.place, condition, holds))


class Heap(Layered[tuple[Cell, str], Value]):
    """`(cell, attribute)` -> value; the attributes of a cell are found at once."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._notes = {}

    def __setitem__(self, key: tuple[Cell, str], value: Value) -> None:
        self._notes.setdefault(key[0], {})[key[1]] = None
        super().__setitem__(key, value)

    def attributes(self, cell: Cell) -> Iterator[tuple[str, Value]]:
        for name in self._notes.get(cell, ()):
            if (value := self.get((cell, name))) is not None:
                yield name, value


class State:
    """Names, and the heap: `(cell, attribute)` -> value, and `(cell, None)` -> where the module is now."""

    __slots__ = ("births", "dead", "heap", "names", "path", "places", "stamps")

    def __init__(self) -> None:
        self.names = Names()
        self.heap = Heap()
        self.places: Layered[Cell, Place] = Layered()
        self.stamps: Layered[Cell, int] = Layered()
        self.births: dict[Cell, Path] = {}  # where modules are made; for all copies
        self.path: Path = NO_PATH
        self.dead = False

    def copy(self) -> State:
        new = State.__new__(State)
        new.names, new.heap, new.places, new.stamps = (
            self.names.copy(),
            self.heap.copy(),
            self.places.copy(),
            self.stamps.copy(),
        )
        new.path, new.dead, new.births = self.path, self.dead, self.births
        return new

    def aside(self) -> State:
        """The state, for when this object is to become another one."""
        new = State.__new__(State)
        new.take(self)
        return new

    def take(self, other: State) -> None:
        """Become another state."""
        self.names, self.heap, self.places, self.stamps = other.names, other.heap, other.places, other.stamps
        self.path, self.dead, self.births = other.path, other.dead, other.births

    # --- the heap ------------------------------------------------------------------------

    def place_of(self, cell: Cell) -> Place:
        return self.places.get(cell, NOWHERE)

    def set_place(self, cell: Cell, place: Place) -> None:
        self.places[cell] = place
        self.stamps[cell] = next(_stamps)

    def bear(self, cell: Cell, place: Place) -> None:
        """A module is made, on the path that this is: on others it is nowhere."""
        self.births[cell] = self.births.get(cell, self.path) & self.path
        self.set_place(cell, place)

    def attribute(self, cell: Cell, name: str) -> Value | None:
        return self.heap.get((cell, name))

    def set_attribute(self, cell: Cell, name: str, value: Value) -> None:
        self.heap[cell, name] = value
        self.stamps[cell] = next(_stamps)

    def attributes(self, cell: Cell) -> list[tuple[str, Value]]:
        return list(self.heap.attributes(cell))

    def borrow(self, module: Value, other: State) -> None:
        """Take a module over, and its submodules, as they are in another state."""
        cells = [module.ref]
        for cell in cells:  # grows on the way
            if len(cells) < MAX_BORROWED and cell not in self.places:
                self.set_place(cell, other.place_of(cell))
                for attribute, value in other.attributes(cell):
                    self.set_attribute(cell, attribute, value)
                    cells += [value.ref] if value.kind == MODULE and value.ref is not None else []

    def resolve(self, place: Place) -> Place:
        """A place in which no module's cell is left."""
        for _ in range(4):
            if place.kind == IN:
                place = self.places.get(place.key, NOWHERE)
            elif place.kind == CHOICE and place.then is not None and place.other is not None:
                then, other = self.resolve(place.then), self.resolve(place.other)
                return (
                    place if then is place.then and other is place.other else choose(place.key, then, other)
                )
            else:
                return place
        return NOWHERE

    def where(self, value: Value) -> Place:
        """Where a value is now: a module may have been moved since it was looked up."""
        if value.kind == MODULE:
            cell = value.ref if value.ref is not None else (OF, value.place.key)  # a parameter that was moved
            return self.resolve(self.places.get(cell, value.place))
        return self.resolve(value.place)


def merge(a: State, b: State, condition: object = None) -> State:
    """The state after two paths: `a` where the condition holds, else `b`. Takes `a` over."""
    if a.dead:
        return b
    if b.dead:
        return a
    names = a.names
    for name in names.changed(b.names):
        old, value = names.get(name), b.names.get(name)
        if old is not value and value is not None:
            names[name] = _joined(old, value, a, b, condition) if old is not None else value
    heap = a.heap
    for key in heap.changed(b.heap):
        old, value = heap.get(key), b.heap.get(key)
        if old is not value and value is not None:
            heap[key] = _joined(old, value, a, b, condition) if old is not None else value
    places = a.places
    for cell in places.changed(b.places):
        known, place = places.get(cell), b.places.get(cell)
        if isinstance(cell, tuple) and cell[0] == OF:  # a parameter that one path has moved
            known, place = known or Place(OF, cell[1]), place or Place(OF, cell[1])
        if known is None or place is None:
            places[cell] = known or place or NOWHERE
        elif known != place:
            born = a.births.get(cell, NO_PATH)
            if (condition, True) in born or (condition, False) in born:  # on one of the paths it is not there
                places[cell] = known if (condition, True) in born else place
            else:
                places[cell] = choose(condition, known, place) if condition is not None else NOWHERE
            a.stamps[cell] = next(_stamps)
    for cell in a.stamps.changed(b.stamps):
        a.stamps[cell] = max(a.stamps.get(cell, 0), b.stamps.get(cell, 0))
    a.path = a.path & b.path
    return a


def either(state: State, one: Value, other: Value, condition: object = None) -> Value:
    """Of two values one, by a condition: two modules become one that is where they are."""
    return _joined(one, other, state, state, condition)


def _joined(old: Value, new: Value, a: State, b: State, condition: object) -> Value:
    if old.kind == MODULE and new.kind == MODULE and old.ref != new.ref:
        # Two modules: of classes in view and in one place, the first stands for both; else, what is known is where
        # they are.
        cell = ("either", old.ref, new.ref)
        one, other = a.where(old), b.where(new)
        links = _made_on_either(old.links, one, new.links, other)
        roles = {old.role, new.role}
        role = old.role if len(roles) == 1 else "partly" if roles & EMPTY else ""
        if len(roles) > 1 and roles <= EMPTY - {"weighted", "partly"}:
            role = "bare" if "bare" in roles else "stateless"  # one of them may take what another refuses
        if "scatters" in (old.role, new.role) and not (other if old.role == "scatters" else one).on_device:
            role = "scatters"  # what is on a device spreads its inputs
        if one != other:
            one = choose(condition, one, other) if condition is not None else NOWHERE
        elif old.bound is not None and new.bound is not None and old.role == new.role:
            several = old.items
            if old.bound.ref is not new.bound.ref:
                several = (*(old.items or (old,)), *(new.items or (new,)))[:MAX_CALLEES]
            return old.but(links=links, assumed=old.assumed | new.assumed, items=several)
        a.places[cell] = one
        a.stamps[cell] = next(_stamps)
        return Value(
            MODULE, Place(IN, cell), ref=cell, links=links, assumed=old.assumed | new.assumed, role=role
        )
    if old.kind == new.kind == SEQUENCE and old.rest is new.rest is None and _are_modules(old, new):
        pairs = zip(old.items or (), new.items or (), strict=True)
        return join(old, new, condition).but(items=tuple([_joined(*one, a, b, condition) for one in pairs]))
    known = old is not ANYTHING and new is not ANYTHING
    return join(old, new, condition) if known or old.origins or new.origins else ANYTHING


def _are_modules(one: Value, other: Value) -> bool:
    """Are two sequences of one length, with different modules in one place?"""
    items, others = one.items or (), other.items or ()
    pairs = zip(items, others, strict=False) if len(items) == len(others) else ()
    return any(a.kind == b.kind == MODULE and a.ref != b.ref for a, b in pairs)


def _made_on_either(one: History, place: Place, other: History, other_place: Place) -> History:
    """The history of one of two modules: of the one on the CPU, and the making of the other if it is in that place."""
    if other_place.on_host and not place.on_host:
        return other
    made = {(id(link.node), link.name) for link in one}
    if not one or not other or other_place != place or (id(other[0].node), other[0].name) in made:
        return one
    return (*one, other[0]._replace(kind=JOIN))


def joined(ends: list[State]) -> State | None:
    """The state after several ends of a run; None if there are none."""
    made = ends[0] if ends else None
    for one in ends[1:]:
        assert made is not None
        made.dead = one.dead = False
        made = merge(made, one)
    if made is not None:
        made.dead = False
    return made
