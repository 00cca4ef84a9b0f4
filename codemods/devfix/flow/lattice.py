"""What device flow knows about a value: its kind and its place.

Unknown disagrees with nothing, so every doubt ends there and devfix stays silent.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Any, TypeVar

from devfix.layered import Layered


class Kind(Enum):
    """What sort of value it is."""

    __hash__ = object.__hash__
    """That of Enum is written in Python, and kinds are looked up in sets."""

    UNKNOWN = auto()
    """Anything else."""
    DEVICE = auto()
    """A torch.device, or a string or index that stands for one; see Value.form."""
    STRING = auto()
    """A string; Value.text is its content where that is known."""
    NUMBER = auto()
    """A number."""
    MODULE = auto()
    """An nn.Module."""
    PART = auto()
    """Reached through a module: a submodule, a method, a plain attribute."""
    TENSOR = auto()
    """A tensor."""
    BATCH = auto()
    """A container of tensors: tuple, list, dict, BatchEncoding."""
    LOADER = auto()
    """Yields batches."""
    OPTIMIZER = auto()
    """An optimizer."""
    ARRAY = auto()
    """Data on the host that is not a tensor: a numpy array, PIL image or token list."""
    TOKENIZER = auto()
    """A tokenizer of transformers."""
    FUNCTION = auto()
    """Of this file; Value.node is its definition."""
    CLASS = auto()
    """Of this file; Value.node is its definition."""
    INSTANCE = auto()
    """An instance of a class of this file that is not a module."""
    ANY = auto()
    """A parameter about which nothing is known yet."""
    OWNER = auto()
    """A framework's object that owns placement, such as accelerate.Accelerator."""


class Where(Enum):
    """What sort of place it is."""

    UNKNOWN = auto()
    """Not known."""
    DEFAULT = auto()
    """Made on the CPU by default; nothing moved it."""
    CPU = auto()
    """Put on the CPU on purpose."""
    ACCELERATOR = auto()
    """A literal: "cuda", "cuda:1", "mps"."""
    SYMBOL = auto()
    """A device expression: `device`, `self.device`, `args.device`."""
    OF = auto()
    """The device of another value: `x.device`, `next(model.parameters()).device`."""
    OWNED = auto()
    """A framework places it."""


@dataclass(slots=True, eq=False)
class Place:
    """The place of a value: what is known about its device.

    `text` is the device expression as written (`device`, `"cuda:0"`, `x.device`); it may be
    out of scope elsewhere. `key` tells two bindings of one name apart. `node` is what put the
    value there. `guarded`: only on some paths, such as `if args.cuda: model.cuda()`.
    """

    where: Where
    """What sort of place it is."""
    text: str = ""
    key: int = 0
    node: ast.AST | None = None
    guarded: bool = False

    @property
    def on_device(self) -> bool:
        """Whether it was moved to an accelerator or a device variable."""
        return self.where is Where.ACCELERATOR or self.where is Where.SYMBOL

    @property
    def on_host(self) -> bool:
        """Whether it is on the CPU, by default or on purpose."""
        return self.where is Where.DEFAULT or self.where is Where.CPU

    def same(self, other: Place) -> bool:
        """Whether both are the same place, as far as is known."""
        return self is other or (
            self.where is other.where and self.text == other.text and self.key == other.key
        )


_Fact = TypeVar("_Fact", "Place", "Value")


def replace(fact: _Fact, **changes: Any) -> _Fact:
    """As in dataclasses, several times faster: this is called for every second value."""
    kind = type(fact)
    made: _Fact = object.__new__(kind)
    for name in kind.__slots__:
        setattr(made, name, changes[name] if name in changes else getattr(fact, name))
    return made


UNPLACED = Place(Where.UNKNOWN)
DEVICE_TYPE = "device.type"  # `Value.name` of what is the type of some device
OWNED = Place(Where.OWNED)
_identities = count(1)


def fresh_identity() -> int:
    return next(_identities)


@dataclass(slots=True, eq=False)
class Value:
    """One abstract value.

    - `identity`: of a module or parameter object, shared by its aliases; `State.places` has the
      current place of a module, since `Module.to` works in place.
    - `node`: the expression that made it. `source`: in words, for messages ("a DataLoader batch").
    - `name`: qualified class or function name, where known; of a device or STRING, `DEVICE_TYPE`.
    - `form`: of a DEVICE "object", "string", "index" or "" (not known).
    - `text`: content of a STRING.
    - `items`: elements of a tuple or list; `fields`: of a dict with constant keys.
    - `element`: what iterating over it or indexing it gives.
    - `sure`: False where only names speak for it.
    - `bare`: a module without parameters or buffers, such as ReLU or MSELoss().
    """

    kind: Kind
    """What sort of value it is."""
    place: Place = UNPLACED
    """Where it is."""
    identity: int = 0
    node: ast.AST | None = None
    name: str = ""
    form: str = ""
    text: str = ""
    source: str = ""
    items: tuple[Value, ...] | None = None
    fields: dict[str, Value] | None = None
    element: Value | None = None
    sure: bool = True
    bare: bool = False
    parameter: int = -1
    """Index of the function parameter that it is, in a summary."""
    arms: tuple[int, ...] = ()
    """Identities of the objects it may be, one made in each branch."""
    held: Value | None = None
    """What DataParallel and its like were given."""

    @property
    def device_type(self) -> bool:
        """Can it be the text of a device type, such as "cuda", and not that of a device, such as "cuda:0"?"""
        return self.name == DEVICE_TYPE or self.text.isalpha()

    def at(self, place: Place) -> Value:
        """The same value at another place, its elements included."""
        moved = replace(self, place=place)
        if self.items is not None:
            moved.items = tuple(item.at(place) for item in self.items)
        if self.fields is not None:
            moved.fields = {key: item.at(place) for key, item in self.fields.items()}
        if self.element is not None and self.element is not self:
            moved.element = self.element.at(place)
        return moved


UNKNOWN = Value(Kind.UNKNOWN)
NUMBER = Value(Kind.NUMBER)
CARRIERS = frozenset({Kind.TENSOR, Kind.BATCH})
_DEVICES = frozenset({Kind.DEVICE, Kind.OWNER})


def join_places(a: Place, b: Place) -> Place:
    """The place after two branches: agreeing arms keep it, a move in one arm is guarded."""
    if a.same(b):
        return a if a.guarded or not b.guarded else b
    for one, other in ((a, b), (b, a)):
        if one.on_device and other.on_host:
            return replace(one, guarded=True)
    if a.on_device and b.on_device:
        return Place(Where.SYMBOL, "", 0, a.node, True)
    return UNPLACED


def join(a: Value, b: Value) -> Value:
    """The value after two branches."""
    if a is b:
        return a
    if a.kind is not b.kind:
        if {a.kind, b.kind} == {Kind.MODULE, Kind.PART} and a.identity == b.identity:
            return a if a.kind is Kind.PART else b
        return UNKNOWN
    if a.kind is Kind.DEVICE:
        form = a.form if a.form == b.form else ""
        if a.place.same(b.place):
            return replace(a, form=form)
        name = DEVICE_TYPE if a.device_type and b.device_type else ""
        if a.place.where is Where.UNKNOWN or b.place.where is Where.UNKNOWN:
            return Value(Kind.DEVICE, UNPLACED, form=form, name=name, sure=a.sure and b.sure)
        # "cpu" in one arm and "cuda" in the other: a device that is only known by its name.
        place = Place(Where.SYMBOL, "", fresh_identity(), a.place.node)
        return Value(Kind.DEVICE, place, form=form, name=name)
    if a.kind is Kind.STRING:
        if a.text == b.text and a.name == b.name:
            return a
        return Value(Kind.STRING, name=DEVICE_TYPE if a.device_type and b.device_type else "")
    if a.kind in (Kind.FUNCTION, Kind.CLASS, Kind.INSTANCE):
        return a if a.node is b.node and a.name == b.name else UNKNOWN
    joined = replace(
        a,
        place=join_places(a.place, b.place),
        sure=a.sure and b.sure,
        bare=a.bare and b.bare,
        identity=a.identity if a.identity == b.identity else fresh_identity(),
        held=a.held or b.held,
    )
    if a.identity and b.identity and a.identity != b.identity:
        joined.arms = (*(a.arms or (a.identity,)), *(b.arms or (b.identity,)))
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        joined.items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
    elif a.items is not b.items:
        joined.items = None
    if a.fields is not b.fields:
        joined.fields = None
    if a.element is not b.element:
        joined.element = join(a.element, b.element) if a.element and b.element else None
    return joined


@dataclass(slots=True, eq=False)
class Named:
    """A device expression that can be written at some point of the program."""

    text: str
    """As it is written, such as `args.device`."""
    value: Value
    """What it is."""


class State:
    """What is known at one point of a function: names, and the places of module objects."""

    __slots__ = ("_devices", "compound", "dead", "names", "places")

    def __init__(self) -> None:
        self.names: Layered[str, Value] = Layered()
        self.places: Layered[int, Place] = Layered()
        # Paths that may have entries below them, such as "self"; shared by all copies, never shrinks.
        self.compound: set[str] = {"self"}
        self.dead = False  # after return, raise, break or continue
        self._devices: tuple[Layered[str, Value], tuple[Named, ...]] | None = None  # of these very names

    def begun(self) -> State:
        """The state in which a function begins that sees these names."""
        self.devices()
        return self.copy()

    def copy(self) -> State:
        new = State()
        new.names, new.places, new.compound = self.names.copy(), self.places.copy(), self.compound
        if self._devices is not None and self._devices[0] is self.names:
            new._devices = (new.names, self._devices[1])
        return new

    def merge(self, other: State) -> None:
        """Join with the state at the end of another branch, in place."""
        if other.dead:
            return
        if self.dead:
            self.names, self.places, self.dead = other.names, other.places, False
            return
        self._devices = None
        mine, theirs = self.names, other.names
        if mine is not theirs:
            aliases: dict[tuple[int, int], int] = {}
            for name in mine.changed(theirs):
                value = mine.get(name)
                if value is None:
                    continue
                twin = theirs.get(name)
                if twin is None:
                    del mine[name]
                elif twin is not value:
                    joined = join(value, twin)
                    if joined.kind is Kind.UNKNOWN:
                        del mine[name]
                        continue
                    if value.identity != twin.identity and joined.identity:
                        # One name for an object made in either arm: its place is that of both.
                        pair = (value.identity, twin.identity)
                        joined.identity = aliases.setdefault(pair, joined.identity)
                        here = self.places.get(value.identity, value.place)
                        there = other.places.get(twin.identity, twin.place)
                        self.places[joined.identity] = join_places(here, there)
                    if joined.kind is Kind.DEVICE and not joined.place.text:
                        joined.place = replace(joined.place, text=name)
                    mine[name] = joined
        for identity in self.places.changed(other.places):
            mine_at, theirs_at = self.places.get(identity), other.places.get(identity)
            if mine_at is theirs_at:
                continue
            # Where one branch has no entry, the object is where it was made.
            made = self._made(identity) if mine_at is None or theirs_at is None else None
            one, two = mine_at or made, theirs_at or made
            if one is None or two is None:
                self.places[identity] = one or two or UNPLACED
            else:
                self.places[identity] = join_places(one, two)

    def _made(self, identity: int) -> Place | None:
        for value in self.names.values():
            if value.identity == identity:
                return value.place
        return None

    def bind(self, path: str, value: Value) -> None:
        """Give a name or dotted path a value; what was known below it is forgotten."""
        names = self.names
        if path in self.compound:
            below, index = path + ".", path + "["
            for key in [key for key in names if key.startswith((below, index))]:
                self.forget(key)
        if value.kind is Kind.UNKNOWN:
            self.forget(path)
        else:
            self.put(path, value)

    def put(self, path: str, value: Value) -> None:
        """Note a value without forgetting what is known below it."""
        old = self.names.get(path)
        if value.kind in _DEVICES or (old is not None and old.kind in _DEVICES):
            self._devices = None
        self.names[path] = value
        if "." in path or "[" in path:
            for at, character in enumerate(path):
                if character in ".[":
                    self.compound.add(path[:at])

    def know(self, names: dict[str, Value]) -> None:
        """Note several values."""
        for path, value in names.items():
            self.put(path, value)

    def forget(self, path: str) -> None:
        """Nothing is known of a name any more."""
        old = self.names.get(path)
        if old is not None:
            del self.names[path]
            if old.kind in _DEVICES:
                self._devices = None

    def devices(self) -> tuple[Named, ...]:
        """The device expressions that may be written here."""
        if self._devices is None or self._devices[0] is not self.names:
            found = (Named(path, value) for path, value in self.names.items() if value.kind in _DEVICES)
            self._devices = self.names, tuple(found)
        return self._devices[1]

    def place(self, value: Value) -> Place:
        """Where a value is now; modules are looked up, since they move in place."""
        return self.places.get(value.identity, value.place) if value.identity else value.place
