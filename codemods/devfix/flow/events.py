"""What happens to modules, tensors and devices in a scope, in the order of execution."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum, auto

from devfix.flow.lattice import Named, Place, Value


class What(Enum):
    """What happens."""

    MOVE = auto()
    """A module or tensor is moved: `model.to(device)`, `x = x.cuda()`."""
    USE = auto()
    """A module is run, or passed to code that may run it."""
    READ = auto()
    """Something of a module is read or set that does not depend on its device."""
    MEET = auto()
    """An operation combines values on different devices."""


@dataclass(slots=True, eq=False)
class Meeting:
    """An argument of a MEET on another device than the others."""

    node: ast.expr
    """The argument."""
    value: Value
    """What it is."""
    place: Place
    """Its place."""
    name: str = ""
    """Keyword, or parameter name of a function of this file."""


@dataclass(slots=True, eq=False)
class Event:
    """One thing that happens.

    - `node` is the expression (usually a call), `statement` the statement that contains it. For an
      event inside a called function of the file, both are those of the call, and `via` names the function.
    - `value` is the module or tensor that it happens to, `path` how it is written ("model",
      "self.model.head"), `place` where it goes (MOVE) or is (MEET).
    - MEET: `strays` are the arguments on another device.
    - `devices`: device expressions in scope at that point (MEET).
    """

    what: What
    """What happens."""
    node: ast.expr
    statement: ast.stmt
    scope: Scope
    """The function or module that it happens in."""
    value: Value
    path: str = ""
    place: Place | None = None
    strays: tuple[Meeting, ...] = ()
    devices: tuple[Named, ...] = ()
    via: str = ""
    detail: str = ""
    """More, by `what`, such as the name of a method."""
    order: int = 0
    """Grows in the order of execution."""


@dataclass(slots=True, eq=False)
class Scope:
    """A module body or a function, interpreted once."""

    node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
    """The function or module."""
    name: str
    """Its qualified name."""
    owner: ast.ClassDef | None = None
    """The class that it is a method of."""
    events: list[Event] = field(default_factory=list)
    """What happens, in order."""
    parameters: tuple[Value, ...] = ()
    """What its parameters are."""
    returned: Value | None = None
    """What it returns; None if it returns nothing."""
    host: bool = False
    """Runs in loader workers or prepares data: there, the CPU is correct."""
    owned: bool = False
    """A framework calls it with model and batch already placed."""
