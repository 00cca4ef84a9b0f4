"""What an expression may be: a kind, a place, what it holds, where that comes from, and how sure it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from devfix.engine.forms import NO_FORMS, Forms, joined
from devfix.engine.places import AT, NOWHERE, ON_CPU, Place, choose

if TYPE_CHECKING:
    from devfix.engine.files import File

# kinds
TENSOR, MODULE, DEVICE, DTYPE = "tensor", "module", "device", "dtype"
NUMBER, TEXT, NONE = "number", "text", "none"
ARRAY = "array"  # of the host: numpy, PIL, lists of a data set
SEQUENCE, MAPPING, OBJECT, FUNCTION, CLASS = "sequence", "mapping", "object", "function", "class"
LIBRARY = "library"  # a name of a package: `ref` is its dotted name
BATCH = "batch"  # tensors in a container of unknown form, all in one place
LOADER, OPTIMIZER, OWNER, UNKNOWN = "loader", "optimizer", "owner", "unknown"
PLACED = frozenset({TENSOR, MODULE, BATCH})

# roles of numbers: of the process on its machine, among all processes, and how many devices there are
LOCAL, GLOBAL, DEVICES = "local", "global", "devices"
INDEX = "index"  # that of the device where a tensor is, which is at its place
RANKS = frozenset({LOCAL, GLOBAL})
NUMBERED = "numbered"  # role of a mapping: some of its keys are numbers

# links of a history
MAKE, LOAD, MOVE, STORE, ELEMENT, PASS, RETURN = "make", "load", "move", "store", "element", "pass", "return"
JOIN = "join"  # another making, on another path
DROP = "drop"  # of a move, whose result is lost

PAIR = "pair"  # the role of the values and the indices that `x.max(1)` gives
DISTRIBUTION = "distribution"  # the role of what has tensors, draws them and cannot be moved
PACKED = "packed"  # the role of a packed sequence
NO_DEVICE = frozenset({DISTRIBUTION, PACKED, PAIR})  # they have tensors, and no `device` of their own

# assumptions
NAME = "name"  # only what it is called says what it is
USES = "uses"  # how it is used says what it is
LIBRARY_CALL = "library"  # a function that no model describes
PATH_TAKEN = "path"  # both conditions can hold on one run
RANK = "rank"  # it has dimensions
RESULT = "result"  # the result is wanted where the others are
GIVEN = "given"  # a module is made with a tensor of the CPU, and moved afterwards
DATA = "data"  # what a tensor is made of is no tensor, which could be on a device
LIKE = "like"  # it takes the same here as elsewhere
LABELS = "labels"  # only its name says that it is a tensor of indices
LOSS = "loss"  # only its name says that it compares tensors
SIBLINGS = "siblings"  # what comes with it is moved, so it is where they came from
BESIDE = "beside"  # another operand, of which nothing is known, is there as well
CALLER = "caller"  # callers give what the contract of the method says


class Assumption(NamedTuple):
    """What must hold for a fact that is not proven: the kind, and what it is about."""

    kind: str
    subject: str = ""


class Link(NamedTuple):
    """One step of a history: what happened, in which file and at which node."""

    kind: str
    file: File
    node: ast.AST
    name: str = ""  # of the attribute, parameter or function


History = tuple[Link, ...]
Assumptions = frozenset[Assumption]
OR_NUMBER = Assumption(PATH_TAKEN, "a number on another path")
PROVEN: Assumptions = frozenset()
MAX_LINKS = 10
# The names of ELEMENT links: of what stands at the node, something is used, or each tensor of a sequence of nothing
# else; a whole batch is bound, beside others.
PART, EACH, WHOLE = "part", "each", "whole"


class Value:
    """One abstract value; never changed after it was made.

    - `place`: where it is; of a device, where things are that are moved to it.
    - `rank`: 0, 1 for at least one dimension, None where not known.
    - `ref`: the cell of a module or object, the function or class, the dotted name of a library's.
    - `items`: elements of a sequence in order, `rest`: any other element, `fields`: entries of a mapping.
    - `forms`: of a device, or of what may be one: see `engine.forms`.
    - `texts`: of a text that depends: what it may be, "?" for what is not known.
    - `bound`: of an object, its class; of a method, its object; of a tensor on the CPU, what it was copied from; of
      `str(x)`, x.
    - `origins`: the calls that loaded what it is made of, of values that were loaded from files.
    - `like`: of a size or a dtype, the tensor that it was read from; of a new tensor, what told its size or dtype, or
      what was written into it; of a module that is any part of another one, that.
    """

    __slots__ = (
        "assumed", "bound", "const", "fields", "forms", "items", "kind", "like", "links", "origins", "place", "rank",
        "ref", "rest", "role", "texts",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        place: Place = NOWHERE,
        *,
        rank: int | None = None,
        ref: Any = None,
        const: Any = ...,
        items: tuple[Value, ...] | None = None,
        rest: Value | None = None,
        fields: dict[Any, Value] | None = None,
        links: History = (),
        assumed: Assumptions = PROVEN,
        forms: Forms = NO_FORMS,
        bound: Value | None = None,
        like: Value | None = None,
        role: str = "",
        texts: frozenset[str] = frozenset(),
        origins: frozenset[ast.Call] = frozenset(),
    ) -> None:
        self.kind, self.place, self.rank, self.ref, self.const = kind, place, rank, ref, const
        self.items, self.rest, self.fields, self.links = items, rest, fields, links
        self.assumed, self.forms, self.bound, self.role = assumed, forms, bound, role
        self.like = like
        self.texts, self.origins = texts, origins

    def _copied(self) -> Value:
        new = Value(self.kind, self.place)
        new.rank, new.ref, new.const = self.rank, self.ref, self.const
        new.items, new.rest, new.fields, new.links = self.items, self.rest, self.fields, self.links
        new.assumed, new.forms, new.bound, new.role = self.assumed, self.forms, self.bound, self.role
        new.like, new.texts, new.origins = self.like, self.texts, self.origins
        return new

    def but(self, **changes: Any) -> Value:
        """The same value with some of its properties changed."""
        new = self._copied()
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def linked(self, *links: Link) -> Value:
        """The same value with more history."""
        new = self._copied()
        history = self.links + links
        new.links = history if len(history) <= MAX_LINKS else history[:1] + history[1 - MAX_LINKS :]
        return new

    def doubted(self, *assumed: Assumption) -> Value:
        """The same, if something more holds."""
        return self.but(assumed=self.assumed.union(assumed))

    @property
    def is_moved(self) -> bool:
        """Was it moved to where it is?"""
        return any(one.kind == MOVE for one in self.links)

    def moved_at(self) -> list[ast.AST]:
        """Where an edit moves it: where it was made, or bound as one of a batch, and stored. It has a history."""
        bound: list[ast.AST] = [
            one.node for one in self.links if one.kind == ELEMENT and isinstance(one.node, ast.Name)
        ]
        return [*(bound or [self.links[0].node]), *(one.node for one in self.links[1:] if one.kind == STORE)]

    def key(self, depth: int = 2) -> object:
        """Equal for values that a function cannot tell apart."""
        const = self.const if self.const.__class__ in (bool, int, str, float, type(None)) else ...
        inner: object = None
        if depth:
            below = depth - 1
            inner = (
                None if self.items is None else tuple([one.key(below) for one in self.items]),
                None if self.rest is None else self.rest.key(below),
                None
                if self.fields is None
                else tuple([(str(key), one.key(below)) for key, one in self.fields.items()]),
            )
        ref = self.ref if self.ref.__class__ in (str, int, tuple) else id(self.ref)
        made = self.links[0].node if self.links and self.kind != NUMBER else None
        forms = self.forms or None
        return (
            self.kind,
            self.place,
            self.rank,
            ref,
            const.__class__,
            const,
            inner,
            id(made),
            self.role,
            forms,
            self.origins or None,
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.place.kind}:{self.place.key} {self.ref or ''}>"


ANYTHING = Value(UNKNOWN)
A_NUMBER = Value(NUMBER)
A_TEXT = Value(TEXT)
NOTHING = Value(NONE, const=None)
MAX_ITEMS = 8


def weak(value: Value) -> bool:
    """Does only a name say what this is?"""
    return any(one.kind == NAME for one in value.assumed)


def elements(value: Value) -> list[Value]:
    """The elements of a container, one by one as far as they are known so."""
    found = [*(value.items or ()), *(value.fields or {}).values()]
    return found if value.rest is None else [*found, value.rest]


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
    if a.kind != b.kind:
        made = _unlike(a, b, condition)
        return made if a.origins == b.origins else made.but(origins=a.origins | b.origins)
    if a.kind in (FUNCTION, CLASS, LIBRARY) and a.ref != b.ref:
        return ANYTHING
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


def texts(value: Value) -> frozenset[str]:
    """What a text may be; "?" stands for what is not known."""
    return value.texts or frozenset({value.const if isinstance(value.const, str) else "?"})


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
    if kinds <= {TENSOR, NUMBER} or kinds <= {TENSOR, UNKNOWN}:
        tensor = a if a.kind == TENSOR else b
        if condition is not None and UNKNOWN in kinds and tensor.place.on_host:
            return tensor.but(place=choose(condition, a.place, b.place), assumed=a.assumed | b.assumed)
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
