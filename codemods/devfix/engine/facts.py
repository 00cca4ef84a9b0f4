"""What the engine found out: plain records that checkers ask for."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.engine.files import File, Function
from devfix.engine.places import Path, Place
from devfix.engine.values import Assumptions, Value


@dataclass(frozen=True, eq=False)
class Term:
    """An expression that is visible somewhere, and where what it names is.

    `form`: device, tensor or module: how its device is written.
    """

    text: str
    form: str
    place: Place
    assumed: Assumptions


Scope = tuple[Function | None, tuple[Term, ...]]


@dataclass(frozen=True, eq=False)
class Mismatch:
    """An operation on values that are in two places.

    `relation` is `places.DIFFERENT` (the stray is on the CPU) or `places.FIXED` (the stray is on an accelerator
    by name). `scopes` are the functions that were running, the innermost first, each with the expressions that
    were visible in it; `path` are the conditions that held, `running` the statements that were being run, the
    innermost first.
    """

    operation: str
    node: ast.AST
    file: File
    function: Function | None
    relation: str
    stray: Value
    stray_place: Place
    stray_node: ast.AST | None
    anchor: Value
    anchor_place: Place
    anchor_node: ast.AST | None
    assumed: Assumptions
    scopes: tuple[Scope, ...]
    path: Path
    running: tuple[tuple[File, ast.stmt], ...]


@dataclass(frozen=True, eq=False)
class HostRead:
    """Something that reads memory of the CPU is given a value of a device."""

    operation: str
    node: ast.AST
    file: File
    function: Function | None
    value: Value
    value_node: ast.AST
    place: Place
    assumed: Assumptions

    @property
    def is_lengths(self) -> bool:
        """Is it the argument of an operation that wants the CPU for it alone?"""
        return not self.is_array_function and self.operation != "numpy"

    @property
    def is_array_function(self) -> bool:
        """Is it read by a function of a package of arrays, not by a method of the tensor?"""
        return "." in self.operation


@dataclass(eq=False)
class Surgery:
    """A module got a part after it was moved: `attached` is on the CPU then, `place` where the module was moved to.

    `is_met`: the module is run while the part is still there.
    """

    node: ast.AST
    file: File
    function: Function | None
    module: Value
    attached: Value
    place: Place
    scopes: tuple[Scope, ...]
    is_met: bool = False
