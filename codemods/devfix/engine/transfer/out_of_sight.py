"""Calls of functions and classes out of sight that no model describes: what their names and arguments tell."""

from __future__ import annotations

import ast

from devfix.engine.collections import EMPTY
from devfix.engine.events import HANDED, WRAPPED
from devfix.engine.evidence import (
    computes,
    is_autocast_name,
    is_count,
    is_device_name,
    is_loader_name,
    is_loss_name,
    is_named_for_host,
    prepares_inputs,
    runs_module,
    runs_what_it_is_given,
    trains,
)
from devfix.engine.evidence_of_loads import says
from devfix.engine.evidence_of_modules import is_average, is_optimizer, scatters_inputs, unpacks_device
from devfix.engine.files import Class, Function
from devfix.engine.frame import Arguments
from devfix.engine.places import (
    AT,
    AT_DEFAULT,
    BY_OWNER,
    CHOICE,
    CPU,
    DIFFERENT,
    IN,
    LITERAL,
    NOWHERE,
    OF,
    VAR,
    Place,
    alternatives,
)
from devfix.engine.stores import changed_by
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.transfer.modules import Modules
from devfix.engine.transfer.requirements import Operand
from devfix.engine.uses import speaks_of
from devfix.engine.values import (
    ANYTHING,
    ARRAY,
    BATCH,
    DEVICE,
    LIBRARY_CALL,
    LOAD,
    LOSS,
    MAKE,
    MODULE,
    OBJECT,
    OPTIMIZER,
    OWNER,
    RECURSIVE,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.models import frameworks, torch_api

# Roles of unknown values that are tensors, if they have a place at all.
_LIKELY = frozenset({"given", "moved"})


class OutOfSight(Modules):
    def unknown_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """A function out of sight: its result is not known, and modules that it gets may have been moved."""
        values, keywords = arguments
        last = name.rpartition(".")[2]
        if "device_type" in keywords and is_autocast_name(last):
            self.given_type(*keywords["device_type"], last)
        tensors = "return_tensors" in keywords and keywords["return_tensors"][0].const == "pt"
        every = (*values, *keywords.values())
        prepared = prepares_inputs(name) and not any(
            self.where(one).kind in (VAR, LITERAL) and one.kind != DEVICE for one, _ in every
        )
        if (tensors or prepared) and "device" not in keywords:
            return Value(
                BATCH,
                AT_DEFAULT,
                rank=1,
                links=(self.link(LOAD, node, last),),
                assumed=frozenset({Assumption(LIBRARY_CALL, last)}),
            )
        if is_loader_name(last):
            self.draws_on_host(last, arguments)
        arrays = any(one.kind == ARRAY for one, _ in values) and not last.lstrip("_")[:1].isupper()
        if arrays and not any(one.kind == DEVICE or self.where(one).on_device for one, _ in every):
            # What is made of arrays is on the host; a tensor, if it is used as one.
            return Value(
                UNKNOWN,
                AT_DEFAULT,
                rank=1,
                links=(self.link(LOAD, node, last),),
                role="host",
                assumed=frozenset({Assumption(LIBRARY_CALL, last)}),
            )
        if is_loss_name(name) and 1 < len(arguments[0]) < 4:  # with lengths, they may all be on the CPU
            self._loss(node, name, arguments)
        if last == "deepcopy" and values:
            return self.copied(values[0][0], node)
        if last in torch_api.WRAP_NAMES and values and values[0][0].kind == MODULE:
            self.note(WRAPPED, node, values[0][0], values[0][1], name=last)
            return values[0][0].doubted(Assumption(LIBRARY_CALL, last))
        if self.models.layer(name) == "copies" or is_average(last):
            self.copied_beside(node, arguments)
        if computes(last) or trains(last):
            self._run_elsewhere(node, last, arguments)
        if values and runs_what_it_is_given(last):
            self.element_used(values[0][0], "__call__", node)
        given = [one for one in every if one[0].kind == MODULE]
        if given and not any(one.kind == DEVICE for one, _ in every) and runs_module(last, is_method=False):
            self.run_on(node, given[0][0].doubted(Assumption(LIBRARY_CALL, last)), given[0][1], arguments)
        for one, at in every if says("loads", last) else ():
            if one.kind == OPTIMIZER:
                owners = [owner.doubted(Assumption(LIBRARY_CALL, last)) for owner in one.items or ()]
                self.holds(node, "restored", one.but(items=tuple(owners)), self.file.source.code(at))
        self.escape(arguments, last)
        if last in frameworks.PLACING_METHODS:
            return Value(UNKNOWN, BY_OWNER)
        if is_optimizer(last):
            return self.optimizer(node, last, arguments)
        if last.lstrip("_")[:1].isupper() or last in ("from_pretrained", "from_config"):
            return self.unknown_object(node, name, arguments)
        made = self.like_given(node, last, arguments)
        if made.role != "given" and ("device" in keywords or "map_location" in keywords):
            return self.unknown_object(node, name, arguments)
        return made

    def run_on(self, node: ast.Call, module: Value, at: ast.expr, arguments: Arguments) -> Value:
        """A module is run out of sight on what a call is given: on tensors that are not on the CPU on purpose."""
        given = (*arguments[0], *arguments[1].values())
        self.analysis.named.ran(self, node, (module, at), [one for one in given if one[1] is not at])
        operands = [one for value, where in given for one in self.tensors(value, where)]
        operands = [one for one in operands if one[0].kind != MODULE and self.where(one[0]).kind != CPU]
        operands = [one for one in operands if not is_count(one[1])]
        name = self.file.source.code(node.func if at is getattr(node.func, "value", None) else at)[:40]
        return self.together(node, [(module, at), *operands], name, strict=True)

    def _loss(self, node: ast.Call, name: str, arguments: Arguments) -> None:
        """A loss out of sight compares its first two arguments; the others may be lengths, which stay on the CPU."""
        assumed = frozenset({Assumption(LOSS, name)})
        given = [(self.as_tensor(value), at) for value, at in arguments[0][:2]]
        operands: list[Operand] = [(value.but(assumed=value.assumed | assumed), at) for value, at in given]
        if all(value.kind in (TENSOR, BATCH) for value, _ in operands):
            self.together(node, operands, name)

    def _run_elsewhere(self, node: ast.Call, name: str, arguments: Arguments) -> None:
        """A function out of sight that computes: it runs a module on what it is given besides, or on a device."""
        given = [*arguments[0], *arguments[1].values()]
        modules = [(one, at) for one, at in given if one.kind == MODULE and self.where(one).on_host]
        devices = [(self._as_device(one, node, at), at) for one, at in given]
        others = [(one, at, self.state.resolve(one.place)) for one, at in devices if one.kind == DEVICE]
        others += [
            (one, at, self.where(one))
            for one, at in given
            if one.kind in (TENSOR, BATCH) or one.role == "moved"
        ]
        chosen = (VAR, LITERAL, OF)  # the last one of a device that is among options
        placed = [one for one in others if one[2].kind in (chosen if one[0].kind == DEVICE else chosen[:2])]
        assumed = frozenset({Assumption(LIBRARY_CALL, f"{name}()")})
        told = len(modules) == 1 and (computes(name) or self._is_unlike(modules[0][0]))
        if told and modules[0][0].role not in ANYWHERE and placed:
            module, at = modules[0]
            known = module.assumed | placed[0][0].assumed | assumed
            self.report(node, name, DIFFERENT, (module, at, self.where(module)), placed[0], known)

    def _as_device(self, value: Value, node: ast.Call, at: ast.expr) -> Value:
        """A text, or something unknown, that is handed over under the name of a device."""
        named = isinstance(at, ast.Name) and is_device_name(at.id) and value.kind in (TEXT, UNKNOWN)
        place = self.target(value, node, at) if named else None
        return value.but(kind=DEVICE, place=place) if place is not None else value

    def _is_unlike(self, module: Value) -> bool:
        """Is another module of its class moved?"""
        node = module.links[0].node if module.links else None
        makers = {ast.unparse(one.func) for one in self.analysis.parts.moved if isinstance(one, ast.Call)}
        return isinstance(node, ast.Call) and ast.unparse(node.func) in makers

    def like_given(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """What a function out of sight makes of tensors that are together: if it is a tensor, it is with them."""
        given = [
            one
            for value, at in (*arguments[0], *arguments[1].values())
            for one, _ in ([(value, at)] if value.role in _LIKELY else self.tensors(value, at))
            if one.kind != MODULE
        ]
        places = list(dict.fromkeys(self.where(one) for one in given)) or self._inputs(arguments)
        together = len(places) == 1 or not any(one.on_host or one.kind == LITERAL for one in places)
        # Of several that callers choose, all are where the first is.
        place = next((one for one in places if one.on_device), NOWHERE) if together else NOWHERE
        if len(places) == 1 and places[0].kind == CHOICE and not is_named_for_host(name):
            if any(one.on_device for one, _ in alternatives(places[0])):
                place = places[0]  # on one path they are moved
        if place == NOWHERE or place.kind == LITERAL:
            return self.analysis.named.derived(self, self.unknown(node), given)
        path = self.file.source.code(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else name
        assumed = frozenset({Assumption(LIBRARY_CALL, f"{path}()")}).union(*[one.assumed for one in given])
        if not given:
            assumed |= {Assumption(USES, f"{path}()")}
        return Value(UNKNOWN, place, role="given", assumed=assumed)

    def _inputs(self, arguments: Arguments) -> list[Place]:
        """In `forward`, where its own inputs are among the arguments, if they are tensors."""
        if not self.is_forward() or self.me is None:
            return []
        home = self.where(self.me)
        unknown = [value for value, _ in (*arguments[0], *arguments[1].values()) if value.kind == UNKNOWN]
        return [home] if any(not value.role and value.place == home for value in unknown) else []

    def not_followed(
        self, node: ast.Call, function: Function, me: Value | None, arguments: Arguments
    ) -> Value:
        """A function in view that is not run once more: nothing is known of what it gives, stores and moves."""
        self.escape(arguments, function.name)
        active = function in self.analysis.active
        if me is not None and me.ref is not None and not active:
            for name in changed_by(function):
                self.state.set_attribute(me.ref, name, ANYTHING)
            if me.kind == MODULE and function.owner is not None and speaks_of(function.owner, "to", "cuda"):
                self.state.set_place(me.ref, NOWHERE)
        return self.unknown(node).but(role=RECURSIVE if active else "")

    def unknown_object(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """An instance of a class out of sight: a module, as far as it is used as one."""
        keywords = arguments[1]
        if scatters_inputs(name):
            wrapped = [one for one, _ in arguments[0] if one.kind == MODULE]
            return (wrapped or [ANYTHING])[0].but(role="scatters")
        cell = (id(node), self.site, "object")
        given = next((keywords[key][0] for key in ("device", "map_location") if key in keywords), None)
        place = self.target(given, node) if given is not None else None
        if place is not None and place.kind in (VAR, LITERAL):
            self.state.bear(cell, place)
            return Value(
                UNKNOWN,
                Place("in", cell),
                ref=cell,
                links=(self.link(MAKE, node, name),),
                role="instance",
                assumed=frozenset({Assumption(LIBRARY_CALL, name)}),
            )
        told = any(one.kind in (DEVICE, MODULE) for one, _ in (*arguments[0], *keywords.values()))
        told = told or any("device" in (key.arg or "") for key in node.keywords)
        told = told or unpacks_device(node, self.file.source)
        self.state.bear(cell, NOWHERE if told or not self.analysis.default_is_known else AT_DEFAULT)
        owned = name in frameworks.OWNING_CALLS or frameworks.owns_models(name)
        if owned or (
            name.partition(".")[0] in frameworks.OWNING_PACKAGES
            and name.rpartition(".")[2].endswith(("Trainer", "Pipeline"))
        ):
            return Value(OWNER, ref=name)
        return Value(
            UNKNOWN, Place(AT, cell), ref=cell, links=(self.link(MAKE, node, name),), role="instance"
        )

    def replaced(self, node: ast.Call, old: Value, keywords: dict[str, tuple[Value, ast.expr]]) -> Value:
        """A copy of an object with other attributes."""
        if old.kind != OBJECT or old.ref is None:
            return ANYTHING
        cell = (id(node), self.site, "replaced")
        for name, value in [*self.state.attributes(old.ref), *((k, v) for k, (v, _) in keywords.items())]:
            self.state.set_attribute(cell, name, value)
        return old.but(place=Place(IN, cell), ref=cell)

    def handed_to_base(self, owner: Class, arguments: Arguments) -> None:
        """The constructor, or another method, of a base out of sight may move what it is given."""
        if any(base not in torch_api.PLAIN_BASES and base[:6] != "torch." for base in owner.outside):
            self.escape(arguments, owner.name)

    def based(self, node: ast.Call, me: Value, name: str, arguments: Arguments) -> None:
        """`super().__init__(..., device=device)`: a layer of torch makes its weights there."""
        if name == "__init__" and me.kind == MODULE and "device" in arguments[1]:
            place = self.target(arguments[1]["device"][0], node)
            if place is not None:
                self.state.set_place(me.ref, place)

    def fields(self, node: ast.Call, cell: object, owner: Class, arguments: Arguments) -> None:
        """A dataclass or the like keeps what it is given under the names of its annotations, or else the defaults."""
        given = dict(zip(owner.fields, (value for value, _ in arguments[0]), strict=False))
        given |= {name: value for name, (value, _) in arguments[1].items()}
        open_ = any(one.arg is None for one in node.keywords)
        for name in owner.fields:
            value = ANYTHING if open_ else self._default(owner, name)
            self.state.set_attribute(cell, name, given.get(name, value))

    def _default(self, owner: Class, name: str) -> Value:
        """What a field is without an argument; `field(default_factory=list)` gives a list of its own."""
        held = owner.constant(name)
        if held is None:
            return ANYTHING
        keywords = held[1].keywords if isinstance(held[1], ast.Call) else ()
        made = {one.arg: one.value.id for one in keywords if isinstance(one.value, ast.Name)}
        return EMPTY.get(made.get("default_factory", "")) or self.analysis.constant(*held)

    def escape(self, arguments: Arguments, name: str = "") -> None:
        """Whoever is handed a module that was not moved yet may move it; whoever is told a device makes data there."""
        values, keywords = arguments
        if "device" in keywords and self.analysis.entered:
            place = self.target(*keywords["device"])
            if place is not None:
                self.in_autocast(ANYTHING, place, moved=True)
        for value, at in (*values, *keywords.values()):
            self.note(HANDED, at, value, at, name=name)
            for one, _ in self.tensors(value, at):
                if one.kind == MODULE and one.ref is not None and self.where(one).on_host:
                    self.move_module(one.ref, NOWHERE)
            if value.role == "instance" and value.ref is not None:
                self.state.set_place(value.ref, NOWHERE)
