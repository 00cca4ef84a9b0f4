"""What the parts of the interpreter share: one run of a function, a class body or a module."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from devfix.engine.events import Event
from devfix.engine.facts import Scope, Term
from devfix.engine.files import STAR, Class, File, Function
from devfix.engine.forms import A_DEVICE, AN_OBJECT, NO_FORMS, OF_TENSOR
from devfix.engine.globals import bound_by_callers
from devfix.engine.places import AT, AT_DEFAULT, NOWHERE, ON_CPU, VAR, Path, Place, of_process
from devfix.engine.rounds import Counters
from devfix.engine.state import EMPTY, State
from devfix.engine.uses import Uses, brought_back, handed_or_moved
from devfix.engine.values import (
    A_TEXT,
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    LIBRARY,
    LOCAL,
    MAPPING,
    MODULE,
    NO_DEVICE,
    NUMBER,
    OBJECT,
    PASS,
    PROVEN,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Link,
    Value,
    elements,
)
from devfix.models import frameworks
from devfix.text.bindings import set_to_none

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

Arguments = tuple[list[tuple[Value, ast.expr]], dict[str, tuple[Value, ast.expr]]]
MAX_TERMS, MAX_OWN_TERMS = 64, 128  # of all functions that are running, of one
MAX_NAMES = 500  # of a function, that are looked at for terms


def _is_table(value: Value) -> bool:
    """Is it a container of functions and classes, and of nothing else?"""
    kinds = {one.kind for one in elements(value)} if value.kind in (MAPPING, SEQUENCE) else set[str]()
    return bool(kinds) and kinds <= {CLASS, FUNCTION, LIBRARY}


class Partial(NamedTuple):
    """`functools.partial(callee, *values, **keywords)`."""

    callee: Value
    values: tuple[tuple[Value, ast.expr], ...]
    keywords: dict[str, tuple[Value, ast.expr]]
    node: ast.Call
    scopes: tuple[Scope, ...] = ()  # where it was made, if it makes contexts

    def __hash__(self) -> int:
        return hash(self.node)  # values are told apart by what they refer to; a dict has no hash


class Lambda(NamedTuple):
    """A lambda; the analysis knows the run that it was made in by `run`."""

    node: ast.Lambda
    run: int


class Frame(ABC):
    """One run: of `function`, or of the body of `file` where that is None.

    `me` is the first argument of a method, `outer` the run that a nested function was defined in. `site` tells what is
    made at one node by different calls apart.
    """

    def __init__(
        self,
        analysis: Analysis,
        file: File,
        function: Function | None,
        state: State,
        *,
        outer: Frame | None = None,
        me: Value | None = None,
        depth: int = 0,
        caller: Frame | None = None,
        site: object = None,
    ) -> None:
        self.analysis, self.file, self.function, self.state = analysis, file, function, state
        self.outer, self.me, self.depth, self.caller = outer, me, depth, caller
        self.site = site or depth
        self.away: int = 0 if caller is None else caller.away_of(file)
        # Key of a container out of sight -> its items that are moved here, and where to.
        self.moved_items: dict[object, dict[object, Place]] = {}
        self.taken: Value | None = (
            None  # the first value of the caller that was copied to the host as an array
        )
        self.met: Path = state.path  # the conditions that hold before
        self.returns: list[tuple[Value, State]] = []
        self.yields: list[Value] = []
        self.results: list[tuple[Value, ast.AST, ast.Return, Path, int]] = []  # tensors that are returned
        self.loops: list[list[State]] = []
        self.loaded: dict[object, Place] = {}  # cell of a module -> where the weights are that it was given
        self.rounds = 0  # loops around that are in their second round
        self.counters = Counters()
        self.statement: ast.stmt | None = None
        self.default = AT_DEFAULT  # where torch makes what is told nothing
        self.quiet = 0
        self.lambdas = 0  # that are being run
        self.globals: set[str] = set()  # names that the function binds in the body of the file
        self.nonlocals: set[str] = set()  # and in the functions around it
        self.log: dict[object, Event] = {}  # what happens to modules
        self.called: tuple[ast.Call, list[tuple[Value, ast.expr]]] | None = None  # by what, with what
        self.models = analysis.models
        if outer is not None:
            self.default, self.quiet = outer.default, outer.quiet

    def away_of(self, file: File) -> int:
        """How often the file changes on the way of calls to a function of `file` that is called here."""
        return self.away + (file is not self.file)

    # --- the parts -----------------------------------------------------------------------

    @abstractmethod
    def is_weighted(self, module: Value, depth: int = 0, *, trained: bool = False) -> bool: ...

    @abstractmethod
    def eval(self, node: ast.expr) -> Value: ...

    @abstractmethod
    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None: ...

    @abstractmethod
    def call(self, node: ast.Call) -> Value: ...

    @abstractmethod
    def call_value(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value: ...

    @abstractmethod
    def call_function(
        self,
        node: ast.Call,
        function: Function,
        me: Value | None,
        arguments: Arguments,
        outer: Frame | None = None,
    ) -> Value: ...

    @abstractmethod
    def tensors(self, value: Value, node: ast.AST, depth: int = 0) -> list[tuple[Value, ast.AST]]: ...

    @abstractmethod
    def attribute(self, node: ast.Attribute, base: Value) -> Value: ...

    @abstractmethod
    def attach(self, node: ast.AST, base: Value, name: str, part: Value) -> None: ...

    @abstractmethod
    def block(self, body: list[ast.stmt]) -> None: ...

    @abstractmethod
    def numbered(self, node: ast.AST, value: Value, at: ast.expr) -> Place | None: ...

    # --- names ---------------------------------------------------------------------------

    def uses(self) -> Uses | None:
        """What the function does with its names; None for the body of a file."""
        return self.analysis.uses(self.function) if self.function is not None else None

    def own_cell(self, owner: object) -> object:
        """The cell of `self`, if it is an object of a class, or of an heir of it."""
        bound = self.me.bound if self.me is not None else None
        mine = bound is not None and isinstance(bound.ref, Class) and owner in bound.ref.lineage
        return self.me.ref if self.me is not None and mine else None

    def lookup(self, name: str) -> Value | None:
        """What a name is bound to, here or around."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.state.names.get(name)
            if found is not None:
                return found
            frame = frame.outer
        found = bound_by_callers(self, name) or self.analysis.global_value(self.file, name)
        if found is not None and found.kind == MODULE and found.ref not in self.state.places:
            self._borrow(name, found)
        return found

    def _borrow(self, name: str, module: Value) -> None:
        """A module is where the body of the file has left it, unless functions may move it away from there."""
        body = self.analysis.global_state(self.file)
        if self.function is None or body is self.state:
            return
        moving = handed_or_moved if body.where(module).on_host else brought_back
        if name in moving(self.file.source):
            return
        self.state.borrow(module, body)

    def named(self, name: str, node: ast.AST) -> Value:
        """The value of a name that nothing was bound to: an import, a definition, or not known."""
        known: Value | None = self.file.others.get(name)
        if known is not None:
            return known
        imported = self.file.source.imports.get(name)
        if imported is None:
            made = self.file.classes.get(name) or self.file.functions.get(name) or self.file.from_stars(name)
            if made is not None:
                return self._other(name, Value(CLASS if isinstance(made, Class) else FUNCTION, ref=made))
            imported = self.file.starred(name)
            if not imported and self.file.stars and name not in self.file.globals:
                held = self._held(f"{STAR}{name}")
                if held is not None:
                    return held
        if imported:
            value = self.library(imported)
            if value.kind == DEVICE or (value.kind == MODULE and self.function is None):
                self.analysis.global_names(self.file)[name] = value
            return value
        place = Place(AT, ("global", self.file.path, name))
        return self._other(name, A_TEXT if name == "__name__" else Value(UNKNOWN, place))

    def _other(self, name: str, value: Value) -> Value:
        if not self.file.stars:  # else it may be of another file
            self.file.others[name] = value
        return value

    def library(self, dotted: str) -> Value:
        """What a dotted name of another file or package is."""
        made: Value | None = self.file.libraries.get(dotted)
        if made is not None:
            return made
        if dotted in ("math.pi", "math.e", "math.inf", "math.nan", "numpy.pi", "torch.pi"):
            return Value(NUMBER)
        if dotted in frameworks.DEVICE_CALLS:
            return Value(LIBRARY, ref=dotted)
        found = self.file.imported(dotted)
        last = dotted.rpartition(".")[2]
        if found is None and not {dotted, f"*.{last}"}.isdisjoint(self.analysis.models.devices):
            forms = A_DEVICE if dotted in self.analysis.models.devices else AN_OBJECT
            return Value(DEVICE, Place(VAR, ("global", dotted)), forms=forms)
        if found is None and not dotted.startswith("torch."):
            held = self._held(dotted)
            if held is not None:
                return held
            if self.analysis.is_device_name(last):
                return self.analysis.named_device(Place(VAR, ("global", dotted)), last)
        if found is not None:
            made = Value(CLASS if isinstance(found, Class) else FUNCTION, ref=found)
        else:
            made = Value(LIBRARY, ref=dotted)
        if found is not None or dotted.startswith("torch.") or self.file.imported_value(dotted) is None:
            self.file.libraries[dotted] = made
        return made

    def _held(self, dotted: str) -> Value | None:
        """The device, module or table that a name stands for, which the body of another file binds."""
        held = self.file.imported_value(dotted)
        value = self.analysis.global_value(*held) if held is not None else None
        if held is None or value is None or not (value.kind in (DEVICE, MODULE) or _is_table(value)):
            return None
        if value.kind == MODULE:
            self.state.set_place(value.ref, self.analysis.global_place(held[0], value))
        return value

    # --- places --------------------------------------------------------------------------

    def where(self, value: Value) -> Place:
        return self.state.where(value)

    def link(self, kind: str, node: ast.AST, name: str = "") -> Link:
        return Link(kind, self.file, node, name)

    # --- what can be written -------------------------------------------------------------

    def visible(self) -> tuple[Term, ...]:
        """The names whose device is known here, nearest first."""
        found: dict[str, Term] = {}
        frame: Frame | None = self
        while frame is not None and len(found) < MAX_TERMS:
            for name, value in islice(frame.state.names.telling(), MAX_NAMES):
                if name not in found:
                    self._term(found, name, value)
                    if len(found) >= MAX_OWN_TERMS:
                        break
            if frame.me is not None and frame.function is not None and frame.function.positional:
                self._members(found, frame.function.positional[0], frame.me)
            frame = frame.outer
        for name, value in self.analysis.global_names(self.file).telling() if len(found) < MAX_TERMS else ():
            if name not in found and len(found) < MAX_TERMS:
                self._term(found, name, value)
        return tuple(found.values())

    def scopes(self) -> tuple[Scope, ...]:
        """The functions that are running, the innermost first, and what is visible in each."""
        found: list[Scope] = []
        frame: Frame | None = self
        while frame is not None and len(found) < 4:
            found.append((frame.function, frame.visible()))
            frame = frame.caller
        return tuple(found)

    def running(self) -> tuple[tuple[File, ast.stmt], ...]:
        """The statements that are being run, the innermost first."""
        found: list[tuple[File, ast.stmt]] = []
        frame: Frame | None = self
        while frame is not None and len(found) < 8:
            if frame.statement is not None:
                found.append((frame.file, frame.statement))
            frame = frame.caller
        return tuple(found)

    def running_module(self, cell: object, made: Value) -> Value:
        """A module as the methods that are running know it, with all of its history."""
        frame: Frame | None = self
        while frame is not None:
            if frame.me is not None and frame.me.ref == cell and frame.me.links:
                return frame.me
            frame = frame.caller
        return made

    def _members(self, found: dict[str, Term], name: str, me: Value) -> None:
        if me.ref is None:
            return
        owner = me.bound.ref if me.bound is not None else None
        classes = self.analysis.classes
        told = isinstance(owner, Class) and classes.is_module(owner) and classes.tells_device(owner)
        if told and self.is_weighted(me, trained=True):
            found[f"{name}.device"] = Term(f"{name}.device", "own", self.where(me), PROVEN)
        lineage = owner.lineage if isinstance(owner, Class) else []
        others = [one.file.source for one in lineage if one.file is not self.file]
        for attribute, value in self.state.heap.attributes(me.ref):
            if len(found) >= MAX_TERMS:
                break
            if value.kind == DEVICE and any(attribute in set_to_none(one) for one in others):
                continue  # the constructor of a base may leave it so
            if not attribute.startswith("#"):
                self._term(found, f"{name}.{attribute}", value)

    def _term(self, found: dict[str, Term], text: str, value: Value) -> None:
        if value.kind == DEVICE:
            found[text] = Term(text, "device", self.state.resolve(value.place), value.assumed)
        elif value.kind == NUMBER and value.role == LOCAL:
            found[text] = Term(text, "device", of_process(LOCAL), value.assumed)
        elif value.role in NO_DEVICE:
            return
        elif value.kind == TENSOR or (
            value.kind == MODULE and value.role not in EMPTY and self.is_weighted(value, trained=True)
        ):
            place = self.where(value)
            if place.kind != "unknown":
                found[text] = Term(text, "tensor" if value.kind == TENSOR else "module", place, value.assumed)
        elif value.kind == OBJECT and value.ref is not None and text.count(".") < 1:
            for attribute, one in self.state.attributes(value.ref):
                if one.kind == DEVICE:
                    self._term(found, f"{text}.{attribute}", one)

    def passed(self, value: Value, node: ast.AST, name: str) -> Value:
        """A value as the parameter `name` of a call."""
        if value.kind in (TENSOR, MODULE, BATCH) and value.links:
            return value.linked(self.link(PASS, node, name))
        return value

    def device_of(self, value: Value, fallback: object, text: str) -> Value:
        """`value.device`."""
        place, registered = self.where(value), value.role == "parameter"
        if place.kind == AT:
            if value.kind not in (TENSOR, BATCH):  # else it need not be one that anybody has chosen
                place = Place(VAR, place.key)
        elif place.kind == "unknown":
            key = value.place.key if value.place.is_named else fallback
            if key is None:  # of a tensor it need not be one that anybody has chosen
                key = (TENSOR, text) if value.kind in (TENSOR, BATCH) else text
            place = Place(VAR, key)
        elif place.on_host:
            if not registered:
                place = ON_CPU if value.kind in (TENSOR, BATCH) else NOWHERE
        forms = OF_TENSOR if value.kind in (TENSOR, BATCH) else NO_FORMS
        # What is put on the device of something that strays, strays with it, and because of it.
        followed = value.links if place.on_host and not registered else ()
        return Value(
            DEVICE,
            place,
            forms=forms,
            assumed=value.assumed,
            links=followed,
            role="followed" if followed else "",
        )

    def unknown(self, node: ast.AST) -> Value:
        """A value of its own that nothing is known of."""
        return Value(UNKNOWN, Place(AT, (id(node), self.site)))
