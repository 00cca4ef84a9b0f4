"""What the flow of one file may ask about the other files of its project.

The answers are values like any other, whose nodes are those of the asking file: nothing of another
file's tree gets into a flow. `devfix.project` gives them; without it, nothing is known.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.flow.lattice import Value

if TYPE_CHECKING:
    from devfix.flow.frame import Arguments, Frame

# `Value.form` of functions, classes and instances of other files; `Value.name` says which.
OUTSIDE = "outside"


class Elsewhere(ast.expr):
    """Stands for an expression of another file; where it has a position, that is the call that led there."""

    path = ""  # of the other file
    line = 0
    column = 0


@dataclass(frozen=True)
class Bases:
    """What the bases of a class make of it: see `ClassInfo`."""

    module: bool = False
    host: bool = False
    owned: bool = False


class Outside(ABC):
    """The other files of the project, as one file sees them through its imports."""

    @abstractmethod
    def named(self, dotted: str, text: str) -> Value | None:
        """What an imported name stands for, written as `text`; None if that is not known.

        `dotted` is its qualified name, with leading dots where the import is relative.
        """

    @abstractmethod
    def call(
        self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None
    ) -> Value | None:
        """Apply a function or method to arguments; None if nothing is known of it after all."""

    @abstractmethod
    def construct(self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments) -> Value | None:
        """Make an instance of a class; None if nothing is known of it after all."""

    @abstractmethod
    def method(self, base: Value, name: str) -> Value | None:
        """A method of an instance of a class that is no module."""

    @abstractmethod
    def surgery(self, base: Value, name: str) -> Value | None:
        """A method of a module, if it attaches or moves something of the module."""

    @abstractmethod
    def attribute(self, base: Value, name: str, node: ast.expr) -> Value | None:
        """An attribute of an instance, as `__init__` leaves it."""

    @abstractmethod
    def bases(self, dotted: str) -> Bases | None:
        """What a class of another file hands down to the classes derived from it."""
