"""What the engine knows about a value, in the few words that are stable: its kind and its place.

Unknown disagrees with nothing, so every doubt ends there and devfix stays silent.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devfix.engine import places, values
    from devfix.engine.forms import Forms
    from devfix.engine.trace import Watched


class Kind(Enum):
    """What sort of value it is."""

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
    """Tensors in a container (tuple, list, dict, BatchEncoding), or what may be one: an element of a batch, what a
    module returns."""
    LOADER = auto()
    """Yields batches."""
    OPTIMIZER = auto()
    """An optimizer."""
    ARRAY = auto()
    """Data on the host that is not a tensor: a numpy array, PIL image or token list."""
    FUNCTION = auto()
    """A function of the project."""
    CLASS = auto()
    """A class of the project."""
    INSTANCE = auto()
    """An instance of a class of the project that is not a module."""
    ANY = auto()
    """A parameter about which nothing is known."""
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


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """The place of a value: what is known about its device.

    `text` is the device expression as written (`device`, `"cuda:0"`, `x.device`); it may be
    out of scope elsewhere. `node` is what put the value there. `guarded`: only on some paths,
    such as `if args.cuda: model.cuda()`.
    """

    where: Where
    """What sort of place it is."""
    text: str = ""
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


UNPLACED = Place(Where.UNKNOWN)


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """What an expression is.

    - `node`: the expression that made it. `source`: in words, for messages ("a batch from a DataLoader").
    - `identity`: of a module, equal for all names of it.
    - `name`: qualified name of the class or function that made it, where known.
    - `form`: of a DEVICE "object", "string", "index" or "" (not known).
    - `text`: content of a STRING.
    - `items`: elements of a tuple or list; `fields`: of a dict with constant keys.
    - `element`: what iterating over it or indexing it gives.
    - `sure`: False where something had to be assumed, for example that a name tells what it is.
    - `bare`: a module without parameters or buffers, such as ReLU or MSELoss().
    """

    kind: Kind
    """What sort of value it is."""
    place: Place = UNPLACED
    """Where it is."""
    identity: object = None
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


UNKNOWN = Value(Kind.UNKNOWN)
WHERE = {
    "default": Where.DEFAULT,
    "cpu": Where.CPU,
    "literal": Where.ACCELERATOR,
    "var": Where.SYMBOL,
    **dict.fromkeys(("of", "at", "in"), Where.OF),
    "owned": Where.OWNED,
}
_KINDS = {
    "tensor": Kind.TENSOR, "module": Kind.MODULE, "device": Kind.DEVICE, "number": Kind.NUMBER, "text": Kind.STRING,
    "array": Kind.ARRAY, "sequence": Kind.BATCH, "mapping": Kind.BATCH, "batch": Kind.BATCH, "object": Kind.INSTANCE,
    "function": Kind.FUNCTION, "class": Kind.CLASS, "loader": Kind.LOADER, "optimizer": Kind.OPTIMIZER,
    "owner": Kind.OWNER,
}  # fmt: skip
_ROLES = {"moved": Kind.TENSOR, "part": Kind.PART}  # of what the engine does not know better
_EMPTY = frozenset({"bare", "loss", "stateless"})
_FORMS = {"object": "object", "text": "string", "number": "index"}
_DEPTH = 2  # of elements of elements


def value_at(watched: Watched, node: ast.expr) -> Value:
    """What an expression is, on all paths through it."""
    return either([public(watched, value, place, node) for _, value, place in watched.values(node)])


def either(found: Sequence[Value]) -> Value:
    """What a value is that may be any of these."""
    if not found or any(one.kind is not found[0].kind for one in found):
        return UNKNOWN
    first, *others = found
    if not others:
        return first
    return replace(
        first,
        place=_joined([one.place for one in found]),
        form=first.form if all(one.form == first.form for one in others) else "",
        text=first.text if all(one.text == first.text for one in others) else "",
        items=None,
        fields=None,
        element=None,
        sure=all(one.sure for one in found),
        bare=all(one.bare for one in found),
    )


def public(
    watched: Watched,
    value: values.Value,
    place: places.Place,
    node: ast.expr | None = None,
    depth: int = _DEPTH,
) -> Value:
    """A value of the engine that is at some place; `node` is an expression of it."""
    kind = _KINDS.get(value.kind) or _ROLES.get(value.role) or Kind.ANY
    if kind is Kind.ANY and place.kind != "of":
        return UNKNOWN
    made = value.links[0] if value.links else None
    items, fields, rest = (value.items, value.fields, value.rest) if depth else (None, None, None)

    def inner(one: values.Value) -> Value:
        return public(watched, one, one.place, None, depth - 1)

    return Value(
        kind,
        placed(watched, value, place, node),
        identity=value.ref if kind is Kind.MODULE else None,
        node=made.node if made is not None and made.file is watched.file else None,
        name=made.name if made is not None else "",
        form=_form(value.forms) if kind is Kind.DEVICE else "",
        text=value.const if isinstance(value.const, str) else "",
        source=_in_words(value, place),
        items=tuple(map(inner, items)) if items is not None and rest is None else None,
        fields={key: inner(one) for key, one in fields.items() if isinstance(key, str)} if fields else None,
        element=inner(rest) if rest is not None else None,
        sure=not value.assumed and value.kind != "unknown",
        bare=value.role in _EMPTY,
    )


def _form(forms: Forms) -> str:
    kinds = {one.kind for one in forms}
    return _FORMS.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _in_words(value: values.Value, place: places.Place) -> str:
    made = value.links[0] if value.links else None
    if made is None:
        return f"`{_owner(place)}`" if _owner(place) else ""
    if made.kind == "load" and made.name == "loader":
        return "a batch from a DataLoader"
    return f"`{made.name.rpartition('.')[2]}`" if made.name else ""


def _owner(place: places.Place) -> str:
    """The parameter, or `self`, whose device a place is."""
    key = place.key if place.kind == "of" and isinstance(place.key, tuple) else ()
    return "self" if key[:1] == ("self",) else str(key[2]) if key[:1] == ("parameter",) else ""


def placed(watched: Watched, value: values.Value, place: places.Place, node: ast.expr | None = None) -> Place:
    """The place of a value, how its device is written, and what put it there; `node` is an expression of the value."""
    if place.kind == "choice" and place.then is not None and place.other is not None:
        arms = [placed(watched, value, one, node) for one in (place.then, place.other)]
        return _joined(arms)
    where = WHERE.get(place.kind, Where.UNKNOWN)
    moves = [one for one in value.links if one.kind == "move" and one.file is watched.file]
    moved = moves[-1].node if moves else _move(watched, value, place)
    made = value.links[0].node if value.links and value.links[0].file is watched.file else None
    return Place(where, _text(watched, value, place, node), moved or made)


def _move(watched: Watched, value: values.Value, place: places.Place) -> ast.AST | None:
    """The last move of a module to where it is."""
    if value.kind != "module" or value.ref is None:
        return None
    every = (one for log in watched.histories.values() for one in log.values())
    found = [
        one.node for one in every if one.what == "moved" and value.ref in one.cells and one.place == place
    ]
    return found[-1] if found else None


def _text(watched: Watched, value: values.Value, place: places.Place, node: ast.expr | None) -> str:
    if place.kind == "literal":
        return f'"{place.key}"'
    if place.on_host:
        return ""
    if value.kind == "device" and node is not None:
        return watched.file.source.code(node)
    return watched.written.get(place) or _owner(place)


def _joined(places: Sequence[Place]) -> Place:
    """The place after several paths: a move on some of them is guarded."""
    first = places[0]
    away = [one for one in places if not one.on_host]
    if all(one.where is first.where and one.text == first.text for one in places):
        return replace(first, guarded=any(one.guarded for one in places))
    if len(away) < len(places) and away and all(one.on_device and one.text == away[0].text for one in away):
        return replace(away[0], guarded=True)
    if all(one.on_device for one in places):
        return Place(Where.SYMBOL, "", first.node, True)
    return UNPLACED
