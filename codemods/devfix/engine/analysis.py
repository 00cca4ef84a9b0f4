"""One file, interpreted: its body, the methods of its classes, its functions; and the calls between them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

from devfix.engine import facts
from devfix.engine.callers import Callers, Origins, passed
from devfix.engine.classes import Classes
from devfix.engine.context import Bound, Context
from devfix.engine.events import Event, may_move
from devfix.engine.files import Class, File, Function
from devfix.engine.fixtures import fixtures
from devfix.engine.forms import Forms, annotated
from devfix.engine.frame import Frame
from devfix.engine.globals import hand_back, keep, known_to
from devfix.engine.joins import join
from devfix.engine.named import AllNamed
from devfix.engine.places import AT, NO_PATH, VAR, Path, Place
from devfix.engine.state import Names, State, either, joined
from devfix.engine.transfer.loading import Loaded, Loading, may_load
from devfix.engine.transfer.protocols import Implied
from devfix.engine.transfer.statements import Run
from devfix.engine.uses import NO_EVIDENCE
from devfix.engine.values import (
    ANYTHING,
    BATCH,
    CLASS,
    DEVICE,
    MODULE,
    NONE,
    NUMBER,
    RETURN,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Assumptions,
    Link,
    Value,
)
from devfix.models.loader import models
from devfix.pipeline.budget import MISMATCHES

# A device that something is moved to: how it is written, in which function, the `self` there, and its forms.
Target = tuple[ast.expr, Function | None, object, Forms]
MAX_RUNS = 12  # of one function
MAX_FAR_RUNS = 100  # of what other files call, so that the file's own calls are followed to the last
MAX_STEPS = 1000

_Changed = tuple[object, Place | None, dict[str, Value]]  # a cell, where it is, and its attributes


class Analysis(Context):
    """The facts of one file. Raises RecursionError on nesting that Python itself can hardly run."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.models = models()
        self.classes = Classes(self)
        self.mismatches: list[facts.Mismatch] = []
        self.is_cut = False  # there are more, which were left out
        self.host_reads: list[facts.HostRead] = []
        self.histories: dict[Function | None, dict[object, Event]] = {}  # what happens to modules in it
        self.outruns: list[facts.Outrun] = []
        self.drops: list[facts.Drop] = []
        self.selected: dict[ast.Subscript, ast.Call] = {}  # by an index on the device to which that is moved
        self.given_runs: list[facts.GivenRun] = []
        self.item_nodes: dict[Place, ast.AST] = {}  # where an item of something out of sight is read
        self.steps: list[facts.Step] = []  # of the processes of a distributed program
        self.device_uses: list[facts.DeviceUse] = []
        self.named = AllNamed(file)  # what is put on CUDA by name
        self.missing: list[facts.Missing] = []
        self.left_out: dict[ast.Call, facts.LeftOut] = {}
        self.loaded = Loaded()
        if self.runs is Run and may_load(file.source):
            self.runs = Loading
        self.expressed: set[tuple[ast.expr, str]] = set()  # device expressions that were looked at
        self.autocasts: dict[ast.Call, facts.Autocast] = {}
        self.entered: list[facts.Autocast] = []  # the contexts that are open now
        self.targets: dict[Place, list[Target]] = {}
        self.typed: dict[Function, dict[str | int, str]] = {}  # the arguments that are handed on as a type
        self.asked: set[object] = set()  # the devices that are chosen by whether there is an accelerator
        self.default_is_known = True
        self.has_histories = may_move(file.source)
        self.type_is_known = True  # of `torch.Tensor(..)`, which the default device does not change
        self.company: dict[ast.AST, set[ast.AST]] = {}  # what is made on the CPU and meets its like there
        self.read_on_host: set[ast.AST] = set()  # what is read on the CPU, and where it is made there
        self.closures: dict[int, Frame] = {}  # by the identity of the function's value
        self.frames: dict[int, Frame] = {}  # that lambdas were made in
        self.kept: list[Value] = []
        self.made: dict[object, Value] = {}  # the modules that the program makes, by their cells
        self.implied: dict[tuple[ast.AST, str], ast.Call] = {}  # calls of special methods, by where and which
        self.inside: dict[object, list[Value]] = {}  # what other objects are made with, in a list or a dict
        self.claims: dict[tuple[int, str], list[tuple[str, Place]]] | None = None  # by line and name
        self.left_host = set[ast.Call]()  # moves of tensors of the CPU to devices
        self.arrays_read: set[ast.AST] = set()  # where something reads arrays, on some runs at least
        self.taken_apart: set[ast.AST] = set()  # what makes the batches that a function takes elements of
        self.callers: Callers | None = None  # in other files
        # Do programs of the project get to a function or class of the file?
        self.is_run: Callable[[str], bool] = lambda name: False
        self.origins: Origins = {}
        self.has_open_loaders = False  # over tensors that may be anywhere
        self.unseen: set[object] = set()  # cells of modules with parts of which nothing is known
        self.part_of: dict[object, object] = {}  # cell of a module -> of the module that it is registered in
        self.parts = facts.Parts()
        self.handed: dict[object, list[tuple[Value, Place]]] = {}  # to what a class has, out of sight
        self._seen: dict[object, int] = {}  # what was noted, and with how many assumptions
        self._runs: dict[Function, int] = {}
        self._memo: dict[object, tuple[Value, list[_Changed], object]] = {}
        self._sites: dict[object, int] = {}  # a call, and the site of its caller -> a number below 0
        self.active: list[Function] = []
        self._budgets = [400 + 10 * len(file.all_functions), MAX_FAR_RUNS]

    # --- the whole -----------------------------------------------------------------------

    def run(self) -> None:
        body = self._body(self.file)
        self.histories[None] = body.log
        body.block(self.file.source.tree.body)
        for owner in self.file.all_classes:
            if self.class_kind(owner) == "host":
                continue
            # First what moves things: calls that do not are compared with it.
            order = {one: (one.name != "forward", not self.uses(one).moves) for one in owner.methods.values()}
            for method in sorted(order, key=order.__getitem__):
                if method.name != "__init__":
                    self._generic(method, owner)
                elif owner not in self.classes._states:
                    self.classes.state(owner)
        for function in self.file.all_functions:
            if function.owner is None and function.outer is None:
                self._generic(function, None)
        self._returned()

    def _returned(self) -> None:
        """Run the nested functions that nothing in view calls, each in the last run that it was defined in."""
        last = {value.ref: self.closures[id(value)] for value in self.kept if isinstance(value.ref, Function)}
        for function, outer in last.items():
            if self._runs.get(function) or function.file is not self.file or outer.quiet:
                continue
            state = self.first.get(function, outer.state).copy()
            state.names = Names(self.parameters(function, None).items())
            state.path, state.dead = NO_PATH, False
            frame = self.runs(self, function.file, function, state, outer=outer, depth=1)
            self._run(frame)

    def _generic(self, function: Function, owner: Class | None) -> None:
        """Run a function of which no call is known."""
        if owner is None or function.static:
            state, body = State(), self._body(self.file)
            after, body.state = body.state, self.first.get(function, body.state)
            given = self._passed(function, state) | fixtures(self, function, state)
            self.run_method(function, None, state, given=given)
            body.state = after
        elif function.of_class:
            self.run_method(function, Value(CLASS, ref=owner), State())
        else:
            self.run_method(function, self.classes.itself(owner), self.classes.state(owner))

    def _passed(self, function: Function, state: State) -> Bound:
        """What callers in other files pass, if they are worth a look: where a model is is what callers know."""
        kinds = [kind for kind, _ in self.known(function).values()]
        if self.callers is None or function.owner is not None or MODULE not in kinds:
            return {}
        calls = self.callers(function, alike=True)
        return passed(calls, function, self.parameters(function, None), state, self.origins)

    def run_method(
        self,
        function: Function,
        me: Value | None,
        state: State,
        *,
        quiet: bool = False,
        given: Bound | None = None,
    ) -> State:
        """Run a function with nothing known of its parameters; the heap that it leaves."""
        if function in self.active:
            return state
        frame = self.runs(self, function.file, function, state, me=me, depth=1)
        frame.quiet = int(quiet)
        names = self.parameters(function, me) | (given or {})
        if me is not None and function.positional:
            names[function.positional[0]] = me
        state.names = Names(names.items())
        self._run(frame)
        left = self._left(frame)
        keep(frame, left)
        return left

    def _run(self, frame: Run) -> None:
        assert frame.function is not None
        self.active.append(frame.function)
        entered, self.entered = self.entered, self.entered + self._body(frame.file).decorated(frame)
        try:
            frame.block(frame.function.node.body)
            if frame.results:
                frame.results_agree()
            if not frame.quiet and (frame.caller is None or frame.function not in self.histories):
                self.histories[frame.function] = frame.log
        finally:
            self.active.pop()
            self.entered = entered

    def _left(self, frame: Run) -> State:
        """The state after a run: of all its ends."""
        ends = [state for _, state in frame.returns]
        return joined(ends if frame.state.dead else [*ends, frame.state]) or frame.state

    # --- calls ---------------------------------------------------------------------------

    def may_run(self, caller: Frame, function: Function) -> bool:
        return (
            self._budgets[caller.away_of(function.file) > 1] > 0
            and function not in self.active
            and self._runs.get(function, 0) < MAX_RUNS
        )

    def run_call(
        self,
        caller: Frame,
        node: ast.Call,
        function: Function,
        me: Value | None,
        bound: Bound,
        outer: Frame | None,
        operands: list[tuple[Value, ast.expr]],
    ) -> Value:
        """What a call gives, and what it does to the caller's heap."""
        self.may_call(caller, function)
        names = self._arguments(caller, function, me, bound)
        state = caller.state
        key = (
            function.node,
            id(outer),
            caller.default,
            caller.quiet > 0,
            tuple(
                (name, value.key(), state.stamps.get(value.ref, 0) if value.ref.__class__ is tuple else 0)
                for name, value in names.items()
            ),
            state.path if any(value.place.kind == "choice" for value in names.values()) else None,
            known_to(caller, function),
        )
        here = id(node), caller.site
        known, site = self._memo.get(key), self._sites.setdefault(here, -1 - len(self._sites))
        # What is made by another call is another one.
        if known is not None and (not known[1] or known[2] == site):
            self._again(state, known[1])
            return self._given(caller, node, function, known[0])
        self._runs[function] = self._runs.get(function, 0) + 1
        self._budgets[caller.away_of(function.file) > 1] -= 1
        inner = state.aside()
        inner.names, inner.dead = Names(names.items()), False
        before = state.stamps.copy()
        depth = caller.depth + 1
        frame = self.runs(
            self, function.file, function, inner, outer=outer, me=me, depth=depth, caller=caller, site=site
        )
        frame.quiet, frame.default = caller.quiet, caller.default
        frame.called = node, operands
        if self._on_host(function):
            frame.quiet += 1
        self._run(frame)
        left = self._left(frame)
        given = self._result(frame, left)
        state.heap, state.places, state.stamps = left.heap, left.places, left.stamps
        changed = [cell for cell in before.changed(left.stamps) if before.get(cell) != left.stamps.get(cell)]
        if not hand_back(frame, left) and len(changed) < 20 and not any(cell in before for cell in changed):
            made = [(cell, left.places.get(cell), dict(left.attributes(cell))) for cell in changed]
            self._memo[key] = given, made, site
        return self._given(caller, node, function, given)

    def _again(self, state: State, made: list[_Changed]) -> None:
        for cell, place, attributes in made:
            if place is not None:
                (state.bear if cell in state.births else state.set_place)(cell, place)
            for name, value in attributes.items():
                state.set_attribute(cell, name, value)

    def _given(self, caller: Frame, node: ast.Call, function: Function, value: Value) -> Value:
        if value.links and value.kind in (TENSOR, BATCH, MODULE) and not isinstance(node, Implied):
            return value.linked(Link(RETURN, caller.file, node, function.name))
        parts = value.items or () if value.kind == SEQUENCE else ()
        if any(one.kind == MODULE for one in parts):
            return value.but(items=tuple([self._given(caller, node, function, one) for one in parts]))
        if not value.forms and value.kind in (UNKNOWN, DEVICE) and function.node.returns is not None:
            return value.but(forms=annotated(function.file, function.node.returns))
        return value

    def _on_host(self, function: Function) -> bool:
        owned = function.owner is not None and self.class_kind(function.owner) == "host"
        return owned or "collate" in function.name

    def _arguments(self, caller: Frame, function: Function, me: Value | None, bound: Bound) -> Bound:
        """A value for every parameter: what is passed, the default, or the parameter itself."""
        known, declared = self.known(function), self.forms(function)
        names: Bound = {}
        if me is not None and function.positional and not function.static:
            names[function.positional[0]] = me
        for one in function.parameters:
            name = one.arg
            if name in names:
                continue
            kind, assumed = known.get(name, NO_EVIDENCE)
            value = bound.get(name)
            if value is None:
                default = function.defaults.get(name)
                if default is not None:
                    value = self.default(function.file, default, name)
                else:
                    value = self.parameter(function, name, kind, assumed, None)
            elif value.kind == UNKNOWN and kind in (TENSOR, MODULE, BATCH) and value.role != "instance":
                value = value.but(kind=kind, assumed=value.assumed | assumed)
            elif value.kind == UNKNOWN and kind == NUMBER:
                value = value.but(kind=NUMBER, role="")
            elif value.kind == UNKNOWN and kind == DEVICE:
                value = Value(
                    DEVICE,
                    Place(
                        VAR,
                        value.place.key if value.place.is_named else ("parameter", id(function.node), name),
                    ),
                    assumed=assumed,
                )
            if not value.forms and value.kind in (UNKNOWN, DEVICE) and name in declared:
                value = value.but(forms=declared[name])
            if value.kind == NUMBER and value.const is ... and not value.place.is_named:
                value = value.but(
                    place=Place(AT, ("parameter", id(function.node), name))
                )  # a flag keeps its name
            names[name] = value
        for extra in (function.node.args.vararg, function.node.args.kwarg):
            if extra is not None:
                names[extra.arg] = bound.get(extra.arg, ANYTHING)
        return names

    def _result(self, frame: Run, left: State) -> Value:
        if frame.yields:
            made = frame.yields[0]
            for one in frame.yields[1:]:
                made = join(made, one)
            return Value(SEQUENCE, rest=made)
        found: Value | None = None
        path: Path = frozenset()
        for value, state in frame.returns:
            value = self._settled(value, state)
            if found is None:
                found, path = value, state.path
                continue
            condition = next((key for key, holds in path if (key, not holds) in state.path), None)
            if condition is not None and (condition, True) in state.path:
                found = either(left, value, found, condition)
            else:
                found = either(left, found, value, condition)
            path = path & state.path
        return found if found is not None else Value(NONE, const=None)

    def _settled(self, value: Value, state: State) -> Value:
        """A value as it leaves a function."""
        if value.kind == TENSOR and value.place.kind == "in":
            return value.but(place=state.resolve(value.place))
        return value

    # --- what parts of the interpreter ask --------------------------------------------------

    def is_new(self, key: object, assumed: Assumptions) -> bool:
        """Is it seen for the first time, or with fewer assumptions than before?"""
        if len(assumed) >= self._seen.get(key, 1 << 30):
            return False
        if len(self.mismatches) >= MISMATCHES:
            self.is_cut = True
            return False
        self._seen[key] = len(assumed)
        return True

    def is_new_step(self, key: object) -> bool:
        if key in self._seen or len(self.steps) > MAX_STEPS:
            return False
        self._seen[key] = 0
        return True

    def targets_here(self, place: Place) -> list[Target]:
        """By which expressions of this file, not of others, something is moved to a place."""
        return [one for one in self.targets.get(place, ()) if one[0] in self.file.source.parents]

    @cached_property
    def strays(self) -> frozenset[ast.AST]:
        """What was made where the others are not."""
        return frozenset(one.stray.links[0].node for one in self.mismatches)

    def release(self) -> None:
        """Break the circles between frames, functions and the file; nothing can be asked then."""
        for body in self._bodies.values():
            body.state.names.clear()
        self.file.release()
        self.__dict__.clear()
