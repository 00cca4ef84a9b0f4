"""Where a value is: places, and how two of them relate.

A place is plain data. `choice` stands for one place where a condition holds and another where it does not, so that
`if flag: model.cuda()` followed by `if flag: x = x.cuda()` is understood.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

DEFAULT = "default"  # made where torch makes things that are told nothing: the CPU
CPU = "cpu"  # put on the CPU on purpose
LITERAL = "literal"  # an accelerator by name: key is "cuda", "cuda:1", "mps"
VAR = "var"  # a device that a binding holds: key tells bindings apart
OF = "of"  # wherever the value of a binding is
AT = "at"  # wherever a value of unknown origin is, which may well be the CPU
IN = "in"  # wherever the module of that cell is now
OWNED = "owned"  # a framework places it; the key is that of the module that it places, where that is known
UNKNOWN = "unknown"
CHOICE = "choice"

SAME = "same"
DIFFERENT = "different"  # one is on the CPU, the other may be on an accelerator
FIXED = "fixed"  # one is on an accelerator by name, the other wherever the caller says
APART = "apart"  # both are on accelerators of one type, which have two numbers; without one, it is the current one
OPEN = "open"  # nothing is known

_HOST = frozenset({DEFAULT, CPU})
_DEVICE = frozenset({LITERAL, VAR, OF})
_PARTS = frozenset({"element", "item", "attribute"})
MAX_ALTERNATIVES = 4
CUDA_THERE = "torch.cuda.is_available()"
ACCELERATOR_THERE = "torch.accelerator.is_available()"
ACCELERATOR_ASKED = ("asked", ACCELERATOR_THERE)  # a name for that
OF_MACHINE = (CUDA_THERE, ACCELERATOR_THERE)  # what asks the machine alone


class Place(NamedTuple):
    """A kind, and what tells two places of that kind apart."""

    kind: str
    key: object = None
    then: Place | None = None  # of a choice: where the condition `key` holds
    other: Place | None = None

    @property
    def on_host(self) -> bool:
        """On the CPU, whatever the program is told."""
        return self.kind in _HOST

    @property
    def is_named(self) -> bool:
        """Wherever some value is: it has an identity, though nobody knows where that is."""
        return self.kind == OF or self.kind == AT

    @property
    def on_device(self) -> bool:
        """On a device that the program or its caller decides, which may be an accelerator."""
        return self.kind in _DEVICE or (self.kind == OWNED and self.key is not None)


Condition = tuple[object, bool]  # what is asked, and whether it holds
Path = frozenset[Condition]

AT_DEFAULT = Place(DEFAULT)
ON_CPU = Place(CPU)
BY_OWNER = Place(OWNED)
BY_LOADER = Place(OWNED, "loaded")  # a model that is loaded with a `device_map`
NOWHERE = Place(UNKNOWN)
NO_PATH: Path = frozenset()
CURRENT_CUDA = Place(LITERAL, "cuda")
CALLED = "called"  # the first part of a key: what a function gives that a caller has passed, such as a model
ON_CUDA = "is_cuda"  # the last part of a condition, whose first is the place of which that is asked


def relate(a: Place, b: Place) -> str:
    """How two places without choices relate: SAME, DIFFERENT, FIXED, APART or OPEN."""
    if a == b:
        return OPEN if a.kind == UNKNOWN else SAME
    if a.kind in _HOST:
        return SAME if b.kind in _HOST else DIFFERENT if b.on_device else OPEN
    if b.kind in _HOST:
        return DIFFERENT if a.on_device else OPEN
    if a.kind == LITERAL and b.kind == LITERAL:
        kind, _, number = str(a.key).partition(":")
        kind2, _, number2 = str(b.key).partition(":")
        if kind != kind2:
            return DIFFERENT
        return APART if (number or "0") != (number2 or "0") else OPEN
    if (a.kind == LITERAL and b.kind in _DEVICE) or (b.kind == LITERAL and a.kind in _DEVICE):
        return FIXED
    return OPEN


def choose(condition: object, then: Place, other: Place) -> Place:
    """`then` where the condition holds, else `other`; NOWHERE where that has too many arms."""
    if then == other:
        return then
    then = project(then, condition, True)
    other = project(other, condition, False)
    if condition.__class__ is tuple and condition[-1] == ON_CUDA and condition[0].__class__ is Place:
        then = condition[0] if then == CURRENT_CUDA else then
        other = condition[0] if other.on_host else other
    if then == other:
        return then
    made = Place(CHOICE, condition, then, other)
    return made if arms(made) <= MAX_ALTERNATIVES else NOWHERE


def on_cuda(place: Place) -> object:
    """Whether what is at a place is on CUDA, or else the condition that it is; None where nothing is known."""
    if place.on_host:
        return False
    if place.kind == LITERAL:
        return str(place.key).partition(":")[0] == "cuda"
    return None if place.kind in (CHOICE, UNKNOWN) else (place, ON_CUDA)


def arms(place: Place) -> int:
    if place.kind != CHOICE or place.then is None or place.other is None:
        return 1
    return arms(place.then) + arms(place.other)


def project(place: Place, condition: object, holds: bool) -> Place:
    """The place where it is known whether a condition holds."""
    if place.kind != CHOICE or place.then is None or place.other is None:
        return place
    if place.key == condition:
        return project(place.then if holds else place.other, condition, holds)
    then, other = project(place.then, condition, holds), project(place.other, condition, holds)
    if then is place.then and other is place.other:
        return place
    return then if then == other else Place(CHOICE, place.key, then, other)


def conditions(place: Place) -> list[object]:
    """What a place depends on."""
    if place.kind != CHOICE or place.then is None or place.other is None:
        return []
    return [place.key, *conditions(place.then), *conditions(place.other)]


def asks_for(condition: object, names: Collection[str]) -> bool:
    """Is a condition the text of a test that reads one of these names?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else ""
    return isinstance(text, str) and any(one in names for one in re.findall(r"\w+", text))


def alternatives(place: Place, path: Path = NO_PATH) -> list[tuple[Place, Path]]:
    """Each place without choices that this may be, with the conditions that lead there."""
    if place.kind != CHOICE or place.then is None or place.other is None:
        return [(place, path)]
    yes, no = (place.key, True), (place.key, False)
    found = [] if no in path else alternatives(place.then, path | {yes})
    return found if yes in path else found + alternatives(place.other, path | {no})


def is_parameter(place: Place) -> bool:
    """Is it where the value of a parameter is, whatever callers pass?"""
    return place.kind == OF and isinstance(place.key, tuple) and place.key[0] == "parameter"


def is_called(place: Place) -> bool:
    """Is it where the result of a function is that a caller has passed?"""
    return place.kind == AT and isinstance(place.key, tuple) and place.key[0] == CALLED


def whole(place: Place) -> object:
    """The key of the value that a value is part of, or its own."""
    key = place.key
    while isinstance(key, tuple) and key[0] in _PARTS and isinstance(key[1], tuple):
        key = key[1]
    return key


def literal(text: str) -> Place | None:
    """The place that a device string names; None for what names no device, or a meta device."""
    kind = text.partition(":")[0]
    if kind == "cpu":
        return ON_CPU
    return Place(LITERAL, text) if kind in ACCELERATORS else None


def of_process(number: str) -> Place:
    """The device that has the number of the process: on its machine, or among all processes."""
    return Place(VAR, ("process", number))


ACCELERATORS = frozenset({"cuda", "mps", "xpu", "hpu", "npu", "xla", "privateuseone"})
