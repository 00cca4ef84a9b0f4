"""What an expression may be: a kind, a place, what it holds, where that comes from, and how sure it is."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from devfix.engine.forms import NO_FORMS, Forms, of_text
from devfix.engine.places import NOWHERE, Place

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

SEVERAL = "several"  # the role of what is one of several functions, classes or objects, which are its items
MANY = "many"  # the role of one of more objects of classes in view than are followed
RECURSIVE = "recursive"  # the role of what a function gives that is running: what it gives otherwise
ANY_MEMBER = "any_member"  # stands for the name of one of the members of a library's module
PAIR = "pair"  # the role of the values and the indices that `x.max(1)` gives
DISTRIBUTION = "distribution"  # the role of what has tensors, draws them and cannot be moved
PACKED = "packed"  # the role of a packed sequence
SLICE = "slice"  # the role of an index that a test has told to be a slice
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
    - `ref`: the cell of a module or object, the function or class, the dotted name of a library's; of two functions of
      which one is meant, what decides.
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
        new = Value.__new__(Value)
        new.kind, new.place, new.rank, new.ref, new.const = (
            self.kind,
            self.place,
            self.rank,
            self.ref,
            self.const,
        )
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


@lru_cache(10_000, typed=True)
def constant(value: object) -> Value:
    """The value of a literal."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        form = of_text(value)
        return Value(TEXT, const=value, forms=frozenset({form}) if form is not None else NO_FORMS)
    return Value(NUMBER, const=value) if isinstance(value, (bool, int, float)) else A_NUMBER


def weak(value: Value) -> bool:
    """Does only a name say what this is?"""
    return any(one.kind == NAME for one in value.assumed)


def elements(value: Value) -> list[Value]:
    """The elements of a container, one by one as far as they are known so."""
    found = [*(value.items or ()), *(value.fields or {}).values()]
    return found if value.rest is None else [*found, value.rest]


def texts(value: Value) -> frozenset[str]:
    """What a text may be; "?" stands for what is not known."""
    return value.texts or frozenset({value.const if isinstance(value.const, str) else "?"})
