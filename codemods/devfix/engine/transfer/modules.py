"""Modules that libraries make, containers of modules, and loaders of data."""

from __future__ import annotations

import ast

from devfix.engine.evidence_of_modules import is_told_a_device
from devfix.engine.files import Class, Function
from devfix.engine.frame import Arguments
from devfix.engine.places import (
    AT,
    AT_DEFAULT,
    LITERAL,
    NOWHERE,
    VAR,
    Place,
)
from devfix.engine.state import MAX_NESTING
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.transfer.functions import is_reduced
from devfix.engine.transfer.holders import Holders
from devfix.engine.values import (
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    LIBRARY_CALL,
    LOADER,
    MAKE,
    MAPPING,
    MODULE,
    NONE,
    NUMBER,
    OBJECT,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Assumption,
    Value,
    elements,
)

_MOVES_DATA = (".to(", ".cuda(", "device", "to_device")


class Modules(Holders):
    def new_module(
        self,
        node: ast.Call,
        name: str,
        arguments: Arguments,
        *,
        role: str = "",
        given: list[Value] | None = None,
    ) -> Value:
        """A module that a library's class makes."""
        cell = (id(node), self.site, "module")
        keywords = arguments[1]
        place = self.default if self.analysis.default_is_known else NOWHERE
        if "device" in keywords:
            place = self.target(keywords["device"][0], node) or place
        elif any(one.arg is None for one in node.keywords):
            place = NOWHERE
        if given:
            place = self.where(given[0])
        elif role in ("bare", "loss"):
            place = NOWHERE
        self.state.bear(cell, place)
        links, rank = (self.link(MAKE, node, name),), 0 if role == "loss" and is_reduced(keywords) else None
        made = Value(
            MODULE, Place("in", cell), ref=cell, links=links, role=role, rank=rank
        )  # of what it gives
        self.analysis.made[cell] = made
        return made

    def module_container(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """ModuleList, Sequential and their like: a module with parts."""
        made = self.new_module(node, dotted, ([], {}))
        parts: list[Value] = []
        given = [self.as_part(value, node) for value, _ in arguments[0]]
        for value in given:
            held = [*(value.items or ()), *(value.fields or {}).values()]
            held += [value.rest] if value.rest is not None else []
            parts += [self.as_part(one, node) for one in held]
            if value.kind == MODULE:
                parts.append(value)
            for key, part in (value.fields or {}).items():
                if isinstance(key, str) and part.kind == MODULE:  # also as `modules.name`
                    self.state.set_attribute(made.ref, key, part)
        owners = [
            self.analysis.part_of.get(part.ref) if part.like is None else part.like.ref for part in parts
        ]
        if parts and None not in owners:  # they are in other modules, too
            self.analysis.parts.made_of[node] = frozenset(owners)
        places = set()
        open_ = _is_spread(node) and any(
            value.kind in (SEQUENCE, MAPPING) and not elements(value) for value in given
        )
        given = [value for value in given if value.kind not in (SEQUENCE, MAPPING)]
        if open_ or any(part.kind not in (MODULE, NONE) for part in (*parts, *given)):
            self.analysis.unseen.add(made.ref)
        for i, part in enumerate(parts):
            if part.kind == MODULE:
                self.state.set_attribute(made.ref, f"#{i}", part)
                self.register(part, made)
                places |= {self.where(part)} if part.role not in ANYWHERE else set()
        if parts and all(part.role in ANYWHERE for part in parts):
            made = self.analysis.made[made.ref] = made.but(role="bare")
        if _is_spread(node) and not places:
            self.state.set_place(made.ref, NOWHERE)
        elif len(places) == 1:
            self.state.set_place(made.ref, places.pop())
        elif places or parts:
            self.state.set_place(made.ref, NOWHERE)
        elif not arguments[0]:
            self.state.set_place(made.ref, NOWHERE)
            self.analysis.parts.empty.add(made.ref)
        return made

    def extended(self, node: ast.AST, base: Value, given: Value) -> None:
        """`layers.append(x)`, `layers += [x]`: what a ModuleList, or its like, gets."""
        for one, _ in self.tensors(given, node):
            if one.kind == MODULE or one.role == "parameter":
                self.attach(node, base, f"#{id(node)}", one)

    def inputs(self, arguments: Arguments) -> Arguments:
        """What a module is given: what was moved to a device is tensors, also in a list or dict."""
        values, keywords = arguments
        return [(self._given(value), at) for value, at in values], {
            k: (self._given(v), at) for k, (v, at) in keywords.items()
        }

    def _given(self, value: Value, depth: int = 0) -> Value:
        if value.role == "moved" and value.place.on_device:
            return value.but(kind=BATCH, role="")
        if value.kind not in (SEQUENCE, MAPPING) or depth > 1:
            return value
        below = depth + 1
        return value.but(
            items=value.items and tuple([self._given(one, below) for one in value.items]),
            fields=value.fields and {key: self._given(one, below) for key, one in value.fields.items()},
            rest=value.rest and self._given(value.rest, below),
        )

    def register(self, part: Value, owner: Value) -> None:
        """A module or a parameter becomes a part of a module, which takes it along when it is moved."""
        if owner.ref in self.analysis.parts.empty:  # its first part says where it is
            self.analysis.parts.empty.discard(owner.ref)
            self.state.set_place(owner.ref, self.where(part))
        if part.ref is not None:
            self.analysis.part_of[part.ref] = owner.ref
        self.analysis.parts.registered.add(part.links[0].node if part.links else part.ref)

    def class_of(self, module: Value) -> str:
        """The dotted name of the class that made a module, or of its own class; empty if nobody made it here."""
        made = self.analysis.made.get(module.ref, module)
        return made.links[0].name if made.links else ""

    def is_seen(self, module: Value, depth: int = 0) -> bool:
        """Does a module, with its parts, use what it gets where it is, as those of torch and known packages do?"""
        name = self.class_of(module)
        if module.role == "weighted" or not name:
            if not isinstance(module.ref, tuple) or module.ref[0] != "either":
                return True
            several = [self.analysis.made.get(one) for one in module.ref[1:3]]  # which need not give the like
            return depth < 4 and all(one is not None and self.is_seen(one, depth + 1) for one in several)
        # One that is on the CPU may be for data; where it was moved, it runs on what is there.
        known = self.models.layer(name) in ("module", "several") and not self.where(module).on_host
        if not (known or name.startswith("torch.nn.")) or module.ref in self.analysis.unseen or depth > 3:
            return False
        parts = [one for _, one in self.state.attributes(module.ref) if one.kind == MODULE]
        return all(isinstance(one.bound, Value) or self.is_seen(one, depth + 1) for one in parts)

    def chained(self, module: Value) -> list[Value]:
        """The parts of a Sequential that all are known, in their order, if the class of one is in view."""
        if module.ref in self.analysis.unseen or self.class_of(module) != "torch.nn.Sequential":
            return []
        if _is_spread(module.links[0].node):
            return []  # of a list that a loop has filled, the order is not known
        held = [(name, one) for name, one in self.state.attributes(module.ref) if one.kind == MODULE]
        parts = [one for name, one in held if name[:1] == "#"] or [one for _, one in held]
        return parts if any(isinstance(one.bound, Value) for one in parts) else []

    def move_module(self, cell: object, place: Place) -> None:
        """`module.to(device)`: all that is registered goes along."""
        self._move(cell, place, 0)

    def _move(self, cell: object, place: Place, depth: int) -> None:
        self.state.set_place(cell, place)
        if depth > MAX_NESTING:
            return
        for name, value in self.state.attributes(cell):
            if value.kind == TENSOR and value.role == "parameter" and value.place.kind != "in":
                self.state.set_attribute(cell, name, value.but(place=Place("in", cell)))
            if (
                value.kind == MODULE
                and value.ref is not None
                and value.ref != cell
                and value.role != "hidden"
            ):
                if self.state.place_of(value.ref) != place:
                    self._move(value.ref, place, depth + 1)
            elif value.role == "instance" and value.ref is not None:  # it goes along, if it is a module
                self.state.set_place(value.ref, NOWHERE)

    def keeps_on_host(self, arguments: Arguments) -> None:
        """What a data set is made of stays on the CPU: it may be read by processes of a loader, which have no CUDA."""
        for value, at in (*arguments[0], *arguments[1].values()):
            for one, _ in self.tensors(value, at):
                if one.links and self.where(one).on_host:
                    self.analysis.read_on_host.update(one.moved_at())

    def loader(self, node: ast.Call, arguments: Arguments) -> Value:
        """A data loader: batches are on the CPU, unless data set or collate function move them."""
        values, keywords = arguments
        given = [*values[:1], *(keywords[name] for name in ("dataset", "collate_fn") if name in keywords)]
        for value, at in given:
            if (there := self.data_on_device(value, at)) is not None:
                alone = len(values) < 6 and not {"collate_fn", "device"} & keywords.keys()
                return Value(LOADER, rest=there) if alone else Value(LOADER, role="owned")
            code = ""
            if value.kind == FUNCTION and isinstance(value.ref, Function):
                code = value.ref.file.source.code(value.ref.node)
            elif (
                value.kind in (OBJECT, CLASS)
                and isinstance(value.bound, Value)
                and isinstance(value.bound.ref, Class)
            ):
                code = "\n".join(one.file.source.code(one.node) for one in value.bound.ref.lineage)
            elif isinstance(at, ast.Lambda) or "dataset" not in keywords:
                code = self.file.source.code(at)
            held = self.state.attributes(value.ref) if value.kind == OBJECT else ()
            placed = any(one.kind != DEVICE and self.where(one).kind in (VAR, LITERAL) for _, one in held)
            link = value.links[0] if value.links else None
            if link is not None and value.role == "instance" and isinstance(link.node, ast.Call):
                placed = is_told_a_device(link.node, link.file.source)  # of a class out of sight
            if placed or any(word in code for word in _MOVES_DATA):
                return Value(LOADER, rest=Value(BATCH))  # wherever it moves them, or they were moved
            numbers = (
                bool(value.items)
                and value.rest is None
                and all(one.kind == NUMBER for one in value.items or ())
            )
            if value.kind == SEQUENCE and not numbers and not self.tensors(value, at):
                self.analysis.has_open_loaders = True
                return Value(LOADER, role="owned")  # over what nobody knows
            for one, _ in self.tensors(value, at):
                if not self.where(one).on_host:
                    return Value(LOADER, role="owned")
        collated = keywords["collate_fn"][1] if "collate_fn" in keywords else None
        size = keywords.get("batch_size") or (values[1] if len(values) > 1 else None)
        as_they_are = isinstance(collated, ast.Lambda) and _hands_on(collated)
        if "device" in keywords or as_they_are or (size is not None and size[0].kind == NONE):
            return Value(LOADER, role="owned")  # or the items of the data set as they are
        told = next((one for one in ("generator", "collate_fn") if one in keywords), "DataLoader")
        made = self._collated(node, *keywords["collate_fn"]) if "collate_fn" in keywords else None
        if told in keywords or any(one.arg is None for one in node.keywords):
            return Value(LOADER, AT_DEFAULT, assumed=frozenset({Assumption(LIBRARY_CALL, told)}), like=made)
        return Value(LOADER, AT_DEFAULT)

    def data_on_device(self, value: Value, at: ast.expr) -> Value | None:
        """The batches of data that were moved as a whole, and are where these are; None of data that were not."""
        moved = value.kind == UNKNOWN and value.role == "moved" and value.place.on_device
        held = [value] if moved else [one for one, _ in self.tensors(value, at)]
        places = {self.where(one) for one in held}
        if not held or not all(place.kind in (VAR, LITERAL) for place in places):
            return None  # or it is where callers have it, which may be the CPU
        assumed = frozenset({Assumption(LIBRARY_CALL, "DataLoader")}) if moved else held[0].assumed
        only = places.pop() if len(places) == 1 else NOWHERE
        return Value(BATCH, only, links=held[0].links, assumed=assumed)

    def _collated(self, node: ast.Call, function: Value, at: ast.expr) -> Value | None:
        """What a collate function in view makes of any items, where that is a number of things that are told apart."""
        self.quiet += 1
        item = Value(
            UNKNOWN, assumed=frozenset({Assumption(LIBRARY_CALL, "collate_fn")})
        )  # so that it is run
        items = [(Value(SEQUENCE, rest=item), at)]
        try:
            made = self.special(at, function, "__call__", items)
            if made is None and function.kind == FUNCTION and isinstance(function.ref, Function):
                made = self.call_value(node, function, (list(items), {}))
        finally:
            self.quiet -= 1
        told_apart = made is not None and made.kind == SEQUENCE and made.rest is None and bool(made.items)
        return made if told_apart else None

    def copied(self, value: Value, node: ast.AST) -> Value:
        """`copy.deepcopy(x)`: what is a module gets a cell of its own."""
        cell = (id(node), self.site, "copy")
        if isinstance(node, ast.Call):
            self.copied_beside(node, ([(value, node)], {}))
        if value.kind == UNKNOWN and value.role == "":
            self.state.bear(cell, NOWHERE)
            links = (self.link(MAKE, node, "deepcopy"),)
            return value.but(place=Place(AT, cell), ref=cell, links=links, role="instance")
        if value.kind != MODULE or value.ref is None:
            return value
        name = value.links[0].name if value.links else "deepcopy"  # it is of the same class
        copy = self._copy(value, cell, 0).but(links=(self.link(MAKE, node, name),))
        self.analysis.made[cell] = copy
        return copy

    def _copy(self, value: Value, cell: object, depth: int) -> Value:
        """A module, with its parts, in another cell."""
        self.state.bear(cell, self.where(value))
        self.analysis.made[cell] = value.but(ref=cell, place=Place("in", cell))
        for name, one in self.state.attributes(value.ref):
            if one.kind == TENSOR and one.place == Place("in", value.ref):
                one = one.but(place=Place("in", cell))
            if one.kind == MODULE and one.ref not in (None, value.ref) and depth < MAX_NESTING:
                one = self._copy(one, (cell, name), depth + 1)
                self.analysis.part_of[one.ref] = cell
            self.state.set_attribute(cell, name, one)
        return value.but(ref=cell, place=Place("in", cell))


def _hands_on(made: ast.Lambda) -> bool:
    """`lambda x: x` and `lambda x: x[0]`, which make no tensors."""
    body = made.body.value if isinstance(made.body, ast.Subscript) else made.body
    return isinstance(body, ast.Name) and [one.arg for one in made.args.args] == [body.id]


def _is_spread(node: ast.AST) -> bool:
    """Is it a call with `*several`?"""
    return isinstance(node, ast.Call) and any(isinstance(one, ast.Starred) for one in node.args)
