"""What happens to modules, in order: they are moved, get parts, are wrapped, run, and given to others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devfix.engine.evidence import about_devices
from devfix.engine.evidence_of_parts import is_layer_name
from devfix.engine.facts import ModuleEvent, Surgery
from devfix.engine.frame import Arguments
from devfix.engine.modules import Modules
from devfix.engine.places import Place, alternatives
from devfix.engine.state import MAX_NESTING, State
from devfix.engine.values import MODULE, NAME, STORE, TENSOR, UNKNOWN, USES, Assumption, Value

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

# kinds of events; what is parallel is wrapped for several processes
MOVED, RUN, WRAPPED, PARALLEL, GIVEN, LOADED = "moved", "run", "wrapped", "parallel", "given", "loaded"
_PARTS = frozenset({"attribute", "item"})
_WITHOUT_STATE = frozenset({"bare", "loss", "stateless"})


class Changes(Modules):
    def happens(self, kind: str, node: ast.AST, module: Value, place: Place | None = None) -> None:
        """Note an event; what is run or wrapped has to have all its parts where it is."""
        if self.quiet or module.ref is None:
            return
        known = self.analysis.lives.events.setdefault(module.ref, {})
        if (kind, node) not in known:
            at = next(self.analysis.lives.clock)
            before = self.where(module)
            known[kind, node] = ModuleEvent(kind, node, module, place or before, before, self.running(), at)
        if kind in (RUN, WRAPPED, PARALLEL):
            for surgery in list(self.analysis.lives.unmet.values()):
                if self._is_part(surgery.module.ref, module.ref) and self.is_left(surgery, self.state):
                    surgery.is_met = True
                    del self.analysis.lives.unmet[surgery.at]

    def _is_part(self, cell: object, of: object) -> bool:
        """Is a module another one, or registered in it, or one of two that it may be?"""
        return not {cell, *owners(cell, self.analysis)}.isdisjoint(arms(of))

    def is_parallel(self, name: str) -> bool:
        """Is it a class that runs a module in several processes, of torch or like it?"""
        last = name.rpartition(".")[2]
        return self.models.layer(f"torch.nn.parallel.{last}") == "wrapper"

    def settle(self, module: Value) -> None:
        """Whoever is given a module moves it, with all its parts."""
        for surgery in self.analysis.lives.surgeries:
            if self._is_part(surgery.module.ref, module.ref):
                surgery.is_settled = True

    def end(self, state: State) -> State:
        """Nothing more is run: what is still where it was made is left behind."""
        for surgery in self.analysis.lives.surgeries:
            if surgery.root is self and self.is_left(surgery, state):
                surgery.is_left = True
        return state

    def is_left(self, surgery: Surgery, state: State) -> bool:
        """Is a part still on the CPU, while the module that got it is on a device?"""
        part = surgery.part
        if surgery.is_settled:
            return False
        kept = state.attribute(surgery.module.ref, surgery.name)
        if part.kind == TENSOR:
            return kept is not None and kept.kind == TENSOR and _is_apart(surgery.module, kept, state)
        if kept is not None and kept.ref != part.ref:  # on one path there is another one
            return self._is_part(part.ref, kept.ref) and _is_behind(surgery.module, kept, state, 0)
        return _is_behind(surgery.module, part, state, 0)

    def attach(self, node: ast.AST, base: Value, name: str, part: Value) -> None:
        """A module, or a parameter, becomes a part of a module."""
        if base.ref is None:
            return
        place = self.where(base)
        if not self.quiet and self.may_get(base, part):
            if self.analysis.is_new((node, "surgery", name, base.ref), part.assumed):
                scopes, at = self.scopes(), next(self.analysis.lives.clock)
                surgery = Surgery(
                    node, self.file, base, part, name, place, self.running(), scopes, self.root, at
                )
                self.analysis.lives.surgeries.append(surgery)
                self.analysis.lives.unmet[at] = surgery
                owner: object = base.ref
                while owner is not None and owner not in self.analysis.lives.late:
                    self.analysis.lives.late.add(owner)
                    owner = self.analysis.part_of.get(owner)
        if part.kind == MODULE:
            self.register(part, base)
        self.analysis.parts.attached.setdefault(base.ref, set()).update(one for _, one in self.running())
        self.state.set_attribute(base.ref, name, part.linked(self.link(STORE, node, name)))

    def may_get(self, base: Value, part: Value) -> bool:
        """Was a module moved, and does it get a part of which that is to be noted?"""
        place, cells = self.where(base), [base.ref, *owners(base.ref, self.analysis)]
        if not part.links or not any(one.on_device for one, _ in alternatives(place, self.state.path)):
            return False
        known = (self.analysis.lives.events.get(one, {}) for cell in cells for one in arms(cell))
        moved = any(kind == MOVED for events in known for kind, _ in events)
        return moved and self._stays(base, part, place)

    def _stays(self, base: Value, part: Value, place: Place) -> bool:
        """Is what is attached on the CPU? A module that is made of what is on the device has its parameters there."""
        if part.kind == TENSOR:
            return _is_apart(base, part, self.state)
        held = [one for _, one in self.state.attributes(part.ref) if one.kind == TENSOR]
        return not any(self.where(one) == place for one in held) and _is_behind(base, part, self.state, 0)

    def as_part(self, base: Value) -> Value:
        """`model.layers` of a module whose class is out of sight is a part of it, if parts are put into it."""
        key = base.place.key
        if base.kind != UNKNOWN or not isinstance(key, tuple) or key[0] not in _PARTS:
            return base
        owner = key[1]
        if owner not in self.state.places:
            if not (isinstance(owner, tuple) and owner[0] in _PARTS):
                return base
            owner = self.as_part(Value(UNKNOWN, base.place._replace(key=owner))).ref
            if owner is None:
                return base
        if key not in self.state.places:
            self.state.set_place(key, self.state.place_of(owner))
        assumed = base.assumed | {Assumption(USES, str(key[2]))}
        part = Value(MODULE, Place("in", key), ref=key, assumed=assumed)
        self.register(part, part.but(ref=owner))
        self.state.set_attribute(owner, str(key[2]), part)
        return part

    def as_layer(self, value: Value) -> Value:
        """An instance of a class out of sight that is put into a module is a layer, by the name of its class."""
        if value.role != "instance" or value.ref is None or not value.links:
            return value
        assumed = value.assumed | {Assumption(NAME, value.links[0].name)}
        return value.but(kind=MODULE, place=Place("in", value.ref), assumed=assumed)

    def new_layer(self, arguments: Arguments) -> Value | None:
        """The first layer that is made for a call: by the name of its class, if that is out of sight."""
        for value, at in arguments[0]:
            named = value.role == "instance" and is_layer_name(value.links[0].name)
            if isinstance(at, ast.Call) and (named or (value.kind == MODULE and value.links)):
                return value
        return None


def arms(cell: object) -> list[object]:
    """A module, and the two that it may be, and theirs."""
    found = [cell]
    for one in found:  # grows on the way
        found += one[1:] if isinstance(one, tuple) and one[0] == "either" and len(found) < MAX_NESTING else ()
    return found


def owners(cell: object, analysis: Analysis) -> Iterator[object]:
    """The modules that a module is registered in, the innermost first."""
    for _ in range(8):
        if cell not in analysis.part_of:
            return
        cell = analysis.part_of[cell]
        yield cell


def _is_apart(module: Value, part: Value, state: State) -> bool:
    """Is a part on the CPU where its module is on a device that the program has chosen?"""
    for there, path in alternatives(state.where(module), state.path):
        for here, both in alternatives(state.where(part), path):
            if there.on_device and here.on_host:
                return not any(about_devices(condition) for condition, _ in both - path)
    return False


def _is_behind(module: Value, part: Value, state: State, depth: int) -> bool:
    """Is a part of a module, or a part of that, on the CPU?"""
    if part.role in _WITHOUT_STATE or depth > MAX_NESTING:
        return False
    inner = [one for _, one in state.attributes(part.ref) if one.kind == MODULE and one.ref != part.ref]
    apart = _is_apart(module, part, state)
    return apart or any(_is_behind(module, one, state, depth + 1) for one in inner)
