"""What following a function's tensors knows of a value."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto


class Form(Enum):
    UNKNOWN = auto()
    MAYBE = auto()  # made from a parameter by something out of sight; its uses may tell that it is a tensor
    TENSOR = auto()
    LIST = auto()  # list or tuple; `items` are its elements as far as known
    DEVICE = auto()
    OTHER = auto()  # certainly no tensor: number, shape, string, array


@dataclass(frozen=True)
class Anchor:
    """A device that is not the default one: `text` is how it is written (`x.device`, `device`).

    `sure`: it surely is a tensor, and never None. `weak`: where it comes from is out of sight, so that it
    only tells of those whose size is read from it.
    """

    text: str
    sure: bool = True
    weak: bool = False

    @property
    def root(self) -> str:
        return self.text.partition("(")[0].partition("[")[0].partition(".")[0]


@dataclass(frozen=True, eq=False)
class Origin:
    """A call that makes a tensor on the default device; `names` is what could be written there.

    `inner`: it is a call of a function of the file, which makes these; `terms`: of a tensor made in a
    function that is called, how the devices of the caller are written there.
    """

    call: ast.Call
    name: str
    names: Mapping[str, Fact] = field(default_factory=dict)
    inner: tuple[Origin, ...] = ()
    terms: Mapping[str, Anchor] | None = None


@dataclass(frozen=True)
class Fact:
    """One value.

    - `anchor` of no tensor: it is a size of what is there.
    - `origins`: it may be one of these, and so on the default device; `anchor`: or where this says.
    - `flat`: True where it has no dimension, False where it has one, None where that is not known.
    - `filled`: device data was written to it, from there.
    - `basic`: an element of something: as an index it is a number, or a tensor without dimensions;
      and what tells HERE from UNKNOWN, MAPPING from MAYBE.
    - `items`: of a list or tuple.
    """

    form: Form
    origins: frozenset[Origin] = frozenset()
    anchor: Anchor | None = None
    flat: bool | None = None
    items: tuple[Fact, ...] = ()
    filled: Anchor | None = None
    basic: bool = False

    @property
    def placed(self) -> bool:
        """A tensor that certainly is not where the default device is."""
        return self.form is Form.TENSOR and self.anchor is not None and not self.origins

    @property
    def stray(self) -> bool:
        return self.form is Form.TENSOR and bool(self.origins)


UNKNOWN = Fact(Form.UNKNOWN)
HERE = Fact(Form.UNKNOWN, basic=True)  # made of what the host has, by something out of sight
OTHER = Fact(Form.OTHER)
MAYBE = Fact(Form.MAYBE)
MAPPING = Fact(Form.MAYBE, basic=True)  # a dictionary of tensors
_MOST_ITEMS = 12


def join(a: Fact, b: Fact) -> Fact:
    """The value after two branches: what it may be in either."""
    if a is b or a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if one.form is Form.OTHER and other.form is not Form.DEVICE:
            return other  # None or a number in one arm: it is not that where it meets a tensor
    if a.form is not b.form:
        if HERE in (a, b) and not (a.stray or b.stray):
            return HERE
        for one, other in ((a, b), (b, a)):
            if one.placed and other.form is Form.MAYBE and other.anchor is not None:
                return replace(one, anchor=replace(other.anchor, sure=False), flat=None)
        for one, other in ((a, b), (b, a)):
            if one.form is Form.LIST and other.stray and all(item.stray for item in one.items):
                return listed((*one.items, other))  # the states of an LSTM, or that of a GRU
        tensors = [one for one in (a, b) if one.form is Form.TENSOR]
        if len(tensors) == 1 and tensors[0].stray and {a.form, b.form} & {Form.MAYBE, Form.UNKNOWN}:
            return replace(tensors[0], anchor=None, flat=tensors[0].flat)
        return UNKNOWN
    if a.form is Form.LIST:
        return listed((*a.items, *(item for item in b.items if item not in a.items)))
    if a.form is Form.DEVICE:
        return a if a.anchor is None or b.anchor is None or a.anchor.text == b.anchor.text else UNKNOWN
    # One way stray and one way placed: it may be either. Not known at all on one way: not placed.
    anchor = a.anchor or b.anchor
    if (a.anchor is None and not a.origins) or (b.anchor is None and not b.origins):
        anchor = None
    elif a.anchor is not None and b.anchor is not None:
        anchor = a.anchor if a.anchor.sure or not b.anchor.sure else b.anchor
    flat = a.flat if a.flat == b.flat else None
    if bool(a.origins) != bool(b.origins):
        flat = a.flat if a.origins else b.flat  # what matters is the one on the default device
    return Fact(
        a.form,
        a.origins | b.origins,
        anchor,
        flat,
        filled=a.filled or b.filled,
    )


def listed(items: tuple[Fact, ...]) -> Fact:
    """A list or tuple of these elements."""
    return Fact(Form.LIST, items=items[:_MOST_ITEMS])


def element(value: Fact) -> Fact:
    """What iterating over a value gives."""
    if value.form is Form.TENSOR:
        return replace(value, flat=None, basic=True)
    if value.form is Form.LIST and value.items:
        result = value.items[0]
        for item in value.items[1:]:
            result = join(result, item)
        return result
    return derived(value)


def derived(*values: Fact) -> Fact:
    """What something out of sight makes of these."""
    if any(value == HERE or value.stray for value in values):
        return HERE
    anchors = [v.anchor for v in values if v.anchor and v.form in (Form.TENSOR, Form.MAYBE)]
    if anchors:
        return replace(MAYBE, anchor=anchors[0])
    if any(value.form is Form.MAYBE for value in values):
        return MAYBE
    return HERE if any(value.form is Form.TENSOR for value in values) else UNKNOWN


def leaves_of(origin: Origin) -> list[Origin]:
    """What a called function makes, where it makes it."""
    if not origin.inner:
        return []
    return [leaf for one in origin.inner for leaf in (leaves_of(one) or [one])]
