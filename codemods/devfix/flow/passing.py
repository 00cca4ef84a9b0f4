"""What a call of a function of the file passes to it, does to its arguments, and gets back."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from devfix.flow import torch_api
from devfix.flow.events import Event, Meeting, Scope, What
from devfix.flow.evidence import looks_like_size
from devfix.flow.frame import Arguments, Frame, on_the_host, path_of
from devfix.flow.lattice import (
    CARRIERS,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    State,
    Value,
    Where,
    fresh_identity,
    replace,
)
from devfix.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Of a function's parameters, in order: the argument and its value, where there is one.
Bound = list[tuple[ast.expr, Value] | None]


@dataclass(slots=True, eq=False)
class FunctionInfo:
    node: Function
    owner: ClassInfo | None
    outer: State | None = None  # of the function around it, at its end
    calls: dict[ast.AST, tuple[Value, ...]] = field(default_factory=dict)
    summary: Scope | None = None
    summary_values: dict[ast.expr, Value] = field(default_factory=dict)
    final: Scope | None = None
    running: bool = False
    end: State = field(default_factory=State)


@dataclass(slots=True, eq=False)
class ClassInfo:
    node: ast.ClassDef
    bases: tuple[str, ...]
    methods: dict[str, Function]
    identity: int
    module: bool
    host: bool
    owned: bool
    facts: dict[str, Value] | None = None  # what `__init__` leaves in self
    placed: tuple[str, ...] | None = None  # modules among those that are on a device


# What happens to a module for which it matters where the module is.
_CONCERNS = frozenset({What.USE, What.MEET, What.ATTACH})


class Passing(ABC):
    """Applies summaries of functions and classes to the arguments of a call."""

    source: Source
    classes: dict[ast.ClassDef, ClassInfo]
    functions: dict[Function, FunctionInfo]
    called: set[Function]  # those of which a call site was remembered lately

    @abstractmethod
    def default_place(self, node: ast.AST) -> Place:
        """Where torch makes things that are told nothing."""

    @abstractmethod
    def summary(self, info: FunctionInfo) -> Scope | None:
        """What a function does to its parameters; None while it is being found out."""

    @abstractmethod
    def _info(self, node: Function, owner: ClassInfo | None) -> FunctionInfo:
        """The record of a function."""

    @abstractmethod
    def _parameters(self, info: FunctionInfo) -> list[ast.arg]:
        """Its parameters in order."""

    @abstractmethod
    def _places_itself(self, info: ClassInfo) -> bool:
        """Does a class do something about devices when it is made?"""

    def call_function(
        self,
        caller: Frame,
        node: ast.Call,
        function: Function,
        arguments: Arguments,
        receiver: Value | None,
    ) -> Value:
        """Apply a function of this file to arguments: what it does to them, and what it returns."""
        info = self.functions.get(function) or self._info(function, None)
        bound = self.bind(info, arguments, skip=1 if receiver is not None and info.owner else 0)
        given: list[Value] = []
        for pair in bound:
            value = pair[1] if pair is not None else UNKNOWN
            moved = value.kind is Kind.MODULE
            given.append(replace(value, place=caller.state.place(value)) if moved else value)
        info.calls[node] = tuple(given)
        self.called.add(function)
        summary = self.summary(info)
        return UNKNOWN if summary is None else self.replay(caller, node, info, summary, bound, receiver)

    def replay(
        self,
        caller: Frame,
        node: ast.Call,
        info: FunctionInfo,
        summary: Scope,
        bound: Bound,
        receiver: Value | None,
    ) -> Value:
        """Let happen to the arguments what a summary says of the parameters; returns the result."""
        name = info.node.name
        mapping: dict[int, tuple[ast.expr, Value]] = {}
        for value, pair in zip(summary.parameters, bound, strict=True):
            if pair is not None and value.identity:
                mapping[value.identity] = pair
        hosts = on_the_host(info.node)
        for value, pair, parameter in zip(summary.parameters, bound, self._parameters(info), strict=True):
            default = hosts.get(parameter.arg)
            if pair is None and value.identity and default is not None:
                mapping.setdefault(value.identity, (default, caller.ev(default)))
        if receiver is not None and info.owner is not None and info.owner.module:
            mapping[info.owner.identity] = (node.func, receiver)
        last: dict[int, What] = {}
        for event in summary.events:
            identity = event.value.identity
            # Ten uses in a row say what one says.
            if identity in mapping and event.what is not What.READ and last.get(identity) is not event.what:
                if event.what is not What.MEET:
                    last[identity] = event.what
                self._replay(caller, node, event, mapping, name)
            elif (
                event.what is What.MEET
                and event.place is not None
                and event.place.on_device
                and not event.via
            ):
                # The function runs a model of its own surroundings, `self.model` for one, on its parameters.
                self._replay_meeting(caller, node, event, mapping, name, None, event.value)
        return self._returned(caller, node, summary, mapping)

    def bind(self, info: FunctionInfo, arguments: Arguments, skip: int) -> Bound:
        """The arguments of a call by parameter; `skip` is 1 for a method, whose object is not among them."""
        parameters = self._parameters(info)
        bound: Bound = [None] * len(parameters)
        by_name = {parameter.arg: index for index, parameter in enumerate(parameters)}
        position = skip
        for argument, value, keyword in arguments:
            if isinstance(argument, ast.Starred):
                break
            if not keyword:
                if position < len(bound):
                    bound[position] = (argument, value)
                position += 1
            elif keyword in by_name:
                bound[by_name[keyword]] = (argument, value)
        return bound

    def _replay(
        self,
        caller: Frame,
        node: ast.Call,
        event: Event,
        mapping: dict[int, tuple[ast.expr, Value]],
        name: str,
    ) -> None:
        """What happened to a parameter happens to the argument."""
        argument, value = mapping[event.value.identity]
        what = event.what
        passes_on = value.kind is Kind.ANY and value.parameter >= 0 and what is What.USE
        if value.kind not in (Kind.MODULE, Kind.PART) and not passes_on:
            return
        if event.detail in ("returned", "reads"):
            return
        place = event.place
        if place is not None and place.key in mapping:
            place = self._translated(caller, place, mapping, node)
        if what is What.MEET:
            self._replay_meeting(caller, node, event, mapping, name, argument, value)
            return
        if what is What.MOVE and place is not None and value.kind is Kind.MODULE:
            caller.state.places[value.identity] = replace(place, node=node)
        caller.emit(
            what,
            node,
            value,
            path_of(argument),
            place=place,
            child=event.child,
            via=name,
            inner=event,
            detail=event.detail,
            devices=event.devices,
        )

    def _replay_meeting(
        self,
        caller: Frame,
        node: ast.Call,
        event: Event,
        mapping: dict[int, tuple[ast.expr, Value]],
        name: str,
        argument: ast.expr | None,
        module: Value,
    ) -> None:
        place = caller.state.place(module) if argument is not None else event.place
        if place is None or not place.on_device:
            return
        strays: list[Meeting] = []
        for meeting in event.strays:
            key = meeting.place.key
            pair = mapping.get(key) if meeting.place.where is Where.OF else None
            if pair is not None:
                stray, value = pair
                if value.kind in CARRIERS and value.place.where is Where.DEFAULT:
                    strays.append(Meeting(stray, value, value.place, meeting.value.source))
        if strays:
            path = event.path if argument is None else path_of(argument)
            caller.emit(
                What.MEET,
                node,
                module,
                path,
                place=place,
                strays=tuple(strays),
                devices=caller.devices(),
                via=name,
                inner=event,
                detail=event.detail,
            )

    def _translated(
        self, caller: Frame, place: Place, mapping: dict[int, tuple[ast.expr, Value]], node: ast.AST
    ) -> Place:
        value = mapping[place.key][1]
        if value.kind is Kind.DEVICE:
            return replace(value.place, node=node)
        device = caller.as_device(value)
        if device is not None:
            return replace(device.place, node=node)
        if value.kind is Kind.BATCH and value.items and value.place is UNPLACED:
            first = value.items[0].place  # `(features, adjacency)`
            return first if all(item.place.same(first) for item in value.items) else UNPLACED
        if value.kind in (Kind.MODULE, Kind.TENSOR, Kind.BATCH):
            return caller.state.place(value)
        return value.place if value.kind is Kind.ANY and value.place.on_device else UNPLACED

    def _returned(
        self, caller: Frame, node: ast.Call, summary: Scope, mapping: dict[int, tuple[ast.expr, Value]]
    ) -> Value:
        value = summary.returned
        if value is None or value.kind is Kind.UNKNOWN:
            return UNKNOWN
        if value.identity in mapping:
            return mapping[value.identity][1]
        return self._outside(caller, value, mapping, node)

    def _outside(
        self, caller: Frame, value: Value, mapping: dict[int, tuple[ast.expr, Value]], node: ast.AST
    ) -> Value:
        """A value of a called function, as its caller sees it."""
        place = value.place
        if place.key in mapping:
            place = self._translated(caller, place, mapping, node)
        elif place.where is Where.OF:
            place = UNPLACED
        result = replace(value, place=place, parameter=-1)
        if value.kind is Kind.MODULE:
            result.identity = fresh_identity()
        if value.kind in (Kind.TENSOR, Kind.BATCH) and value.source.startswith("`"):
            result.source = value.source
        if value.items is not None:
            result.items = tuple(self._outside(caller, item, mapping, node) for item in value.items)
        if value.element is not None:
            result.element = self._outside(caller, value.element, mapping, node)
        if value.fields is not None:
            result.fields = {k: self._outside(caller, v, mapping, node) for k, v in value.fields.items()}
        return result

    def construct(self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        """Make an instance of a class of this file."""
        info = self.classes.get(callee.node) if isinstance(callee.node, ast.ClassDef) else None
        if info is None:
            return UNKNOWN
        init = info.methods.get("__init__")
        if not info.module:
            if init is not None:
                self.call_function(caller, node, init, arguments, Value(Kind.INSTANCE, node=info.node))
            if any(base.rpartition(".")[2].endswith("DataLoader") for base in info.bases):
                return Value(Kind.LOADER, self.default_place(node), node=node, source=f"a {info.node.name}")
            return Value(Kind.INSTANCE, node=info.node, name=info.node.name)
        place = self.place_of_made(caller, node, arguments, self._places_itself(info))
        if init is not None:
            bound = self.bind(self._info(init, info), arguments, 1)
            self._info(init, info).calls[node] = tuple(pair[1] if pair else UNKNOWN for pair in bound)
            self.called.add(init)
        return Value(Kind.MODULE, place, fresh_identity(), node, info.node.name, bare=self._bare(info))

    def place_of_made(
        self, caller: Frame, node: ast.Call, arguments: Arguments, places_itself: bool
    ) -> Place:
        """Where a module of a class that is in view is when it has been made."""
        place = caller.device_argument(node)
        if place is None:
            modules = [
                value
                for _, value, _ in arguments
                if value.kind is Kind.MODULE or (value.kind is Kind.PART and not looks_like_size(value.name))
            ]
            # `Linear8bit(weight=layer.weight)`: it is where those are that it takes over.
            taken = any(path_of(a).rpartition(".")[2] in ("weight", "bias") for a, _, _ in arguments)
            if (
                places_itself
                or taken
                or any(caller.state.place(m).where is not Where.DEFAULT for m in modules)
            ):
                place = UNPLACED
            else:
                place = self.default_place(node)
        return place

    def _bare(self, info: ClassInfo) -> bool:
        """No submodules and no parameters at all, as far as the class shows."""
        if len(info.bases) != 1 or info.bases[0] not in torch_api.MODULE_BASES:
            return False
        text = self.source.code(info.node)
        return "nn." not in text.replace("nn.Module", "").replace("nn.functional", "") and not re.search(
            r"register_(?:buffer|parameter)|self\.\w+\s*=\s*[A-Z]\w*\(|Parameter\(|"
            r"models\.\w+\(|from_pretrained\(|create_model\(|hub\.load\(",
            text,
        )
