"""What the engine found out: plain records that checkers ask for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NamedTuple

from devfix.engine.files import File, Function
from devfix.engine.forms import Forms
from devfix.engine.places import NOWHERE, Path, Place
from devfix.engine.values import Assumptions, Link, Value


@dataclass(frozen=True, eq=False)
class Term:
    """An expression that is visible somewhere, and where what it names is.

    `form`: device, tensor or module: how its device is written; own: the device that a module says it is on.
    """

    text: str
    form: str
    place: Place
    assumed: Assumptions


Scope = tuple[Function | None, tuple[Term, ...]]


@dataclass(frozen=True, eq=False)
class Mismatch:
    """An operation on values that are in two places.

    `relation` is `places.DIFFERENT` (the stray is on the CPU, or both are on accelerators of two types), `FIXED` (the
    stray is on an accelerator by name) or `APART` (both are, by number). `scopes` are the functions that were running,
    the innermost first, each with the expressions that were visible in it; `path` are the conditions that held,
    `running` the statements that were being run, the innermost first. `guarded`: one of the places is that of some
    paths only; `chosen`: the anchor's is. `strict`: tensors without dimensions have to be there, too.
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
    guarded: bool = False
    chosen: bool = False
    strict: bool = False


@dataclass(frozen=True, eq=False)
class HostRead:
    """Something that reads memory of the CPU is given a value of a device, or a list of `many` such values."""

    operation: str
    node: ast.AST
    file: File
    function: Function | None
    value: Value
    value_node: ast.AST
    place: Place
    assumed: Assumptions
    many: bool = False

    @property
    def is_lengths(self) -> bool:
        """Is it the argument of an operation that wants the CPU for it alone?"""
        return not self.is_array_function and self.operation != "numpy"

    @property
    def is_array_function(self) -> bool:
        """Is it read by a function of a package of arrays, not by a method of the tensor?"""
        return "." in self.operation


@dataclass(frozen=True, eq=False)
class Drop:
    """A statement that moves a value to a device, and does nothing with the result."""

    node: ast.Call
    file: File
    function: Function | None
    value: Value


Uses = dict[str, dict[ast.AST, None]]


@dataclass(eq=False)
class Parts:
    """What modules become parts of others, and what becomes of those that objects keep in plain containers.

    `moved`: where modules are made that are moved. `states`: the state of an optimizer is looked into. `set_up`: cells
    of modules that are known by what is done with them. `registered`: where modules are made that become parts; of what
    is unknown, its place. `attached`: cell of a module -> the statements by which it gets parts after its constructor.
    `kept_in`: cell of a module -> the link by which an object keeps it in a plain container; `uses`: such a link ->
    method, or `__call__` -> where it is called of an element; `given_uses`: the same for what a parameter is, by its
    place. `kept_else`: links by which something else is kept, too. `wrapped`: cells of modules that are wrapped, on
    some path, in what moves their inputs; `unwrapped`: cell of a module -> the paths on which it is moved and not
    wrapped; `scattering`: cells of modules of which a part is wrapped. `buffers`: a class, and the name of what its
    objects register as a buffer. `made_of`: where a container of modules is made that all are parts of other modules
    -> the cells of those. `empty`: cells of containers that have no part yet.
    """

    moved: set[ast.AST] = field(default_factory=set)
    states: bool = False
    set_up: set[object] = field(default_factory=set)
    registered: set[object] = field(default_factory=set)
    attached: dict[object, set[ast.stmt]] = field(default_factory=dict)
    kept_in: dict[object, Link] = field(default_factory=dict)
    kept_else: set[Link] = field(default_factory=set)
    uses: dict[Link, Uses] = field(default_factory=dict)
    given_uses: dict[object, Uses] = field(default_factory=dict)
    wrapped: set[object] = field(default_factory=set)
    unwrapped: dict[object, set[Path]] = field(default_factory=dict)
    scattering: set[object] = field(default_factory=set)
    buffers: set[tuple[object, str]] = field(default_factory=set)
    made_of: dict[ast.AST, frozenset[object]] = field(default_factory=dict)
    empty: set[object] = field(default_factory=set)


class Outrun(NamedTuple):
    """Tensors were made beside those of a module, and the module was moved afterwards: they stay where it was.

    `how`: restored or made (the state of an optimizer), or copied (the weights). `path` is how the optimizer is
    written, `running` the statements that were being run, the innermost first.
    """

    how: str
    node: ast.Call
    file: File
    path: str
    module: Value
    running: tuple[tuple[File, ast.stmt], ...]
    move: ast.AST
    moved_in: File


class GivenRun(NamedTuple):
    """A module that a caller has passed, as its `parameter` says, is run on a value that is on the device `place`."""

    node: ast.Call
    function: Function
    module: Value
    parameter: Place
    place: Place


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


@dataclass(frozen=True, eq=False)
class DeviceUse:
    """A device, or a string or number in its place, is used in a way that not each form of a device allows.

    `sink`: method (of a string), attribute (of a torch.device), equal, same (`d is e`), among (`d in ("cuda", "cpu")`),
    inside (`"cuda" in d`), lookup (in a dict of device types), type (autocast wants one) or int. `against` are the
    forms of the other side, `name` is the method, the attribute, or what is called.
    """

    sink: str
    node: ast.AST
    function: Function | None
    value: Value
    value_node: ast.expr
    forms: Forms
    against: Forms = frozenset()
    name: str = ""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A call that leaves the device of a function to the default of its `parameter`.

    `scopes`: what is visible to the caller; `path`: the conditions under which it calls.
    """

    node: ast.Call
    caller: Function | None
    callee: Function
    parameter: str
    scopes: tuple[Scope, ...]
    path: Path


@dataclass(frozen=True, eq=False)
class Load:
    """A call that loads what a file holds, and says nothing of its place.

    `name`: of what is called. `into`: it copies what it loads into a module. `is_known`: a model says so, or the
    function is in view; else another call of it in the file. `is_wrapped`: the function
    around it takes the place, `is_unasked`: that is None there.
    """

    node: ast.Call
    name: str
    function: Function | None
    scopes: tuple[Scope, ...]
    into: bool = False
    is_known: bool = True
    is_unasked: bool = False
    is_wrapped: bool = False

    @property
    def path(self) -> ast.expr | None:
        """What names the file."""
        return self.node.args[0] if self.node.args else None


@dataclass(frozen=True, eq=False)
class Missing:
    """A part of a device expression that raises wherever it is run, or that loses the index of a device.

    `kind`: name (nothing binds it), attribute (no class in view assigns it), module (a plain module has no
    `device`), keyword (the function takes no `device=`), cuda (`.cuda()` has no such parameter), generator (it is one
    of the CPU, and `device=` is elsewhere), elsewhere (a generator of a device draws for the CPU), host (what is given
    it draws on the CPU) or index (`.to(x.device.type)`).
    `user`: compare, move, make or type, what the expression is for.
    """

    kind: str
    node: ast.AST
    name: str
    user: str


@dataclass(eq=False)
class Autocast:
    """An autocast context, and where the data that is used in it has been moved to.

    `node` is the call, `partial` the `functools.partial` that is called, if one is, `decorated` the function that it
    decorates. `of_cuda`: its name says CUDA; else `device_type` is what is written for it. `followed`: places of data
    that are chosen at run time, `read`: tensors by their names in the function, where others have put them.
    `is_fixed`: some data is on an accelerator by name, or by a condition; `is_owned`: a framework moves it.
    `asks_machine`, `is_for_machine`: its type, or whether it is on, is that there is an accelerator.
    """

    node: ast.Call
    file: File
    function: Function | None
    of_cuda: bool
    device_type: Value | None = None
    enabled: ast.expr | None = None
    me: Value | None = None
    scopes: tuple[Scope, ...] = ()
    path: Path = frozenset()
    partial: ast.Call | None = None
    decorated: Function | None = None
    is_fixed: bool = False
    is_owned: bool = False
    asks_machine: bool = False
    is_for_machine: bool = False
    followed: list[Place] = field(default_factory=list)
    read: dict[str, Value] = field(default_factory=dict)
