"""What the engine found out: plain records that checkers ask for."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.engine.files import File, Function
from devfix.engine.places import NOWHERE, Path, Place
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


@dataclass(frozen=True, eq=False)
class Step:
    """Something that a process of a distributed program does.

    `kind`: a form of the library models (joins, sets, current, collective, spawn, local), or `index`: a number names
    a device; `bare`: something goes to the current device; `wraps`: a module is made parallel; `environ`: a variable
    is set. `value` is the number, tensor or module that it is about, `at` its expression; `texts` what the backend,
    or the variable, may be called; `running` are the functions that were running, the innermost first; `local` are
    the expressions that were visible and hold the number of the process on its machine.
    """

    kind: str
    node: ast.AST
    file: File
    function: Function | None
    path: Path
    running: tuple[Function | None, ...]
    value: Value
    at: ast.expr | None = None
    place: Place = NOWHERE
    texts: frozenset[str] = frozenset()
    local: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
