"""Moves of tensors and modules: `.to(...)`, `.cuda()`, `.cpu()`, `.type_as(...)`, `.type(...)`."""

from __future__ import annotations

import ast

from devfix.engine.events import MOVED
from devfix.engine.evidence import may_be_moved_to, may_name_device
from devfix.engine.facts import Drop
from devfix.engine.files import Class
from devfix.engine.frame import Arguments
from devfix.engine.places import FIXED, LITERAL, NOWHERE, OF, ON_CPU, VAR, Place, alternatives
from devfix.engine.stores import buffers_of
from devfix.engine.transfer.library import Library
from devfix.engine.values import (
    BATCH,
    DEVICE,
    DROP,
    DTYPE,
    INDEX,
    JOIN,
    LIBRARY,
    LOAD,
    MAKE,
    MANY,
    MAPPING,
    MODULE,
    OBJECT,
    RANKS,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Link,
    Value,
)


class Moves(Library):
    def _is_me(self, value: Value) -> bool:
        return self.me is not None and value.ref is not None and value.ref == self.me.ref

    def of_type(self, node: ast.Call, base: Value, given: Value) -> Value:
        """`x.type(...)` of a tensor: an old type of tensors has a place of its own."""
        place = self._of_type(given)
        if place is None:
            return base.but(kind=TENSOR, role="")
        if place == NOWHERE:
            return Value(TENSOR)
        if place.kind == LITERAL:
            return base.but(kind=TENSOR, place=place, role="")
        return self.moved(base.but(kind=TENSOR, role=""), place, node)

    def _of_type(self, given: Value) -> Place | None:
        """Where what is cast to a type is then; None for a dtype, which moves nothing."""
        text = given.ref if given.kind == LIBRARY else given.const if given.kind == TEXT else None
        if given.kind == DTYPE and not given.assumed:
            return None
        if not isinstance(text, str):
            return NOWHERE
        if not text.endswith("Tensor"):
            return None
        return Place(LITERAL, "cuda") if ".cuda." in text else ON_CPU

    # --- moves ---------------------------------------------------------------------------

    def move(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        """`.to(...)`, `.cuda()`, `.cpu()`, `.type_as(...)`."""
        if base.role == MANY:
            return base  # by methods of their own
        if name == "cuda" and arguments[1]:
            self.no_keyword_of_cuda(node, base)
        place = self._destination(node, name, arguments)
        if place is None:  # only its type
            return base if base.kind != TENSOR else base.but(role="")
        if (
            base.kind == SEQUENCE
            and base.items is None
            and base.rest is not None
            and base.rest.kind == TENSOR
        ):
            base = base.rest  # `x.unique()` may give several, of which this is not said
        if place.on_device and not self.quiet:
            self._selected(node, place)
        if self.analysis.entered:
            self.in_autocast(base, self.state.resolve(place), moved=name == "to")
        alone = isinstance(self.statement, ast.Expr) and self.statement.value is node
        if alone and base.kind in (TENSOR, BATCH, UNKNOWN) and base.role != "instance" and not self.quiet:
            if not place.on_host and not (base.kind == TENSOR and self._is_at(base, place)):
                self.analysis.drops.append(Drop(node, self.file, self.function, base))
        if base.kind in (MODULE, UNKNOWN):
            self._note_move(node, base, place)
        if base.kind == MODULE:
            self._part_moved(node, base, place)
            if place.on_device and base.role != "scatters":
                self.analysis.parts.unwrapped.setdefault(base.ref, set()).add(self.state.path)
            self.analysis.parts.moved.update(one.node for one in base.links[:1])
            if base.ref is not None or base.items:
                there = NOWHERE if self._is_one_of_many(node) else place
                for one in base.items or (base,):  # it may stand for several
                    self.outrun(node, one, place)
                    self.move_module(one.ref, there)
            elif base.place.is_named:
                self.state.set_place((OF, base.place.key), place)
            elif base.links:  # one of several, under a name for them all
                for cell, one in list(self.analysis.made.items()):
                    if one.links and one.links[0].node is base.links[0].node:
                        self.move_module(cell, place)
            self._also_moves(node, base, name, arguments)
            made = base if base.ref is not None or base.place.is_named else base.but(place=place)
            if place.kind != LITERAL:
                return made
            others = (one for one in base.links if one.kind == JOIN)  # it still is the one or the other
            return made.but(links=(self.link("move", node), *others))
        if base.kind == UNKNOWN:
            return self._unknown_moved(node, base, place)
        if base.kind == TENSOR and self.where(base).on_host and place.on_device:
            self.analysis.left_host.add(node)
        if base.kind == TENSOR and place.kind == LITERAL:
            return self.moved(base, place, node)
        target = node.func.value if isinstance(node.func, ast.Attribute) else None
        graph = any(map(self._moves_itself, base.links[:1]))
        if base.kind == BATCH and isinstance(target, ast.Name) and (alone or graph):
            if target.id in self.state.names:  # such a container moves itself
                self.state.names[target.id] = self.moved(base, place, node)
        elif isinstance(target, ast.Name) and base.links and getattr(self.statement, "value", None) is node:
            if isinstance(self.statement, ast.Expr) and target.id in self.state.names:
                self.state.names[target.id] = base.linked(self.link(DROP, node))  # the copy is lost
        made = self.moved(base, place, node)
        stays = any(one.on_host for one, _ in alternatives(place, self.state.path))
        origin = self.followed(arguments) if stays and made.kind in (TENSOR, BATCH) else ()
        return made.but(links=origin) if origin else made

    def moved_itself(self, node: ast.Call, base: Value, arguments: Arguments) -> bool:
        """`sample.send(device)`, whose result nobody wants: an object moves what it holds."""
        alone = isinstance(self.statement, ast.Expr) and self.statement.value is node
        if not alone or not isinstance(node.func, ast.Attribute):
            return False
        for value, at in (*arguments[0], *arguments[1].values()):
            if value.kind == DEVICE or value.role == INDEX or may_name_device(self.file.source.code(at)):
                self.rebind(node.func.value, self.moved(base, self.target(value, node) or NOWHERE, node))
                return True
        return False

    def _also_moves(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> None:
        """What a module of a class with a `to` of its own moves besides what is registered."""
        owner = base.bound.ref if base.bound is not None else None
        own = owner.method(name) if isinstance(owner, Class) else None
        if own is not None and own not in self.analysis.active:
            self.call_function(node, own, base, arguments)

    def _selected(self, node: ast.Call, place: Place) -> None:
        """`x[i].to(device)`: if `x` is not there, an index that is there does not read it."""
        at: ast.AST = node
        while isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute):
            at = at.func.value
        if not isinstance(at, ast.Subscript) or not isinstance(at.slice, ast.Name):
            return
        owner = self.function.owner if self.function is not None else None
        if owner is not None and getattr(at.value, "attr", "") in buffers_of(owner.file.source, owner.node):
            return  # it is where the module is
        index = self.as_tensor(self.eval(at.slice))
        told = (
            place.kind != OF or index.is_moved or index.rank == 1
        )  # made there, or it may say where that is
        if index.kind in (TENSOR, BATCH) and told and self._may_be_at(index, place):
            base = self.eval(at.value)
            if base.kind in (TENSOR, UNKNOWN) and not base.is_moved and not self._may_be_at(base, place):
                self.analysis.selected.setdefault(at, node)

    def _may_be_at(self, value: Value, place: Place) -> bool:
        return any(one == place for one, _ in alternatives(self.where(value), self.state.path))

    def _is_at(self, value: Value, place: Place) -> bool:
        """Is a value there on some way, as far as is known, and on none on the CPU?"""
        found = [one for one, _ in alternatives(self.where(value), self.state.path)]
        return place in found and not any(one.on_host for one in found)

    def _moves_itself(self, made: Link) -> bool:
        """Is what is made here a graph that `.to()` changes: an item of a data set, or one that is put together?"""
        if made.kind == MAKE and isinstance(made.node, ast.Call):
            return self.models.layer(made.file.dotted(made.node.func)) == "bundle"
        return made.kind == LOAD and made.name == "data set"

    def _is_one_of_many(self, node: ast.Call) -> bool:
        """`nets[0].to(device)`, where one value stands for all of `nets`: the others stay where they are."""
        target = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
            return False
        held = self.eval(target.value)
        return held.kind in (SEQUENCE, MAPPING) and held.rest is not None

    def _note_move(self, node: ast.Call, base: Value, place: Place) -> None:
        assert isinstance(node.func, ast.Attribute)
        told = [one.value for one in node.keywords if one.arg == "device"] or node.args[:1]
        name = node.func.attr
        told = [] if name == "type" else told
        device = self.file.source.code(told[0]) if told else f'"{name}"' if name in ("cuda", "cpu") else ""
        device = ast.unparse(told[0]) if "\n" in device else device
        self.note(MOVED, node, base, node.func.value, place=place, device=device)

    def _part_moved(self, node: ast.Call, base: Value, place: Place) -> None:
        """In `forward`, a part of the module is moved to an accelerator by name: its inputs are where the module is."""
        home = self.where(base)
        if place.kind == LITERAL and self.me is not None and self.is_forward() and not self._is_me(base):
            if home == self.where(self.me) and home.kind == OF:
                stray = base.but(links=(self.link("move", node),))
                anchor = self.me, node, home
                self.report(node, "the forward pass", FIXED, (stray, node, place), anchor, base.assumed)

    def _destination(self, node: ast.Call, name: str, arguments: Arguments) -> Place | None:
        values, keywords = arguments
        if name == "cpu":
            return ON_CPU
        if name == "type":
            return self._of_type(values[0][0])
        if name == "cuda":
            given, at = values[0] if values else keywords.get("device", (None, None))
            place = self.target(given, node) or Place(LITERAL, "cuda")
            if place.kind == "unknown" and at is not None:  # some GPU, whatever its number
                return Place(
                    VAR, ("number", id(self.function and self.function.node), self.file.source.code(at))
                )
            return place
        if name == "type_as":
            return self.where(values[0][0]) if values else NOWHERE
        if not values and "device" not in keywords and any(one.arg is None for one in node.keywords):
            return NOWHERE
        if "device" in keywords:
            self.expressed(keywords["device"][1], "move")
            return self.target(keywords["device"][0], node, keywords["device"][1])
        given = keywords["other"][0] if "other" in keywords else values[0][0] if values else None
        if given is None or given.kind == DTYPE:
            return None
        if values:
            self.expressed(values[0][1], "move")
            self.index_lost(values[0][1], values[0][0])
        if given.kind in (TENSOR, BATCH):
            return self.where(given)
        at = node.args[0] if node.args else None
        if given.kind == UNKNOWN:
            # A device or a dtype: only where it is one is its place known.
            at = node.args[0] if node.args else None
            if at is not None and (given.role in RANKS or self._named_device(at) or given.forms):
                return self.target(given, node, at)
            return NOWHERE
        return self.target(given, node, at)

    def _named_device(self, node: ast.expr) -> bool:
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        return may_be_moved_to(name)

    def _unknown_moved(self, node: ast.Call, base: Value, place: Place) -> Value:
        """Something out of sight is moved: as a statement it is a module, or the result is lost."""
        assert isinstance(node.func, ast.Attribute)
        target, whole = node.func.value, base.place.key
        while isinstance(whole, tuple) and whole[0] == "attribute":
            whole = whole[1]
        if whole in self.analysis.made:  # whose parts are moved one by one
            self.move_module(whole, NOWHERE)
        alone = isinstance(self.statement, ast.Expr) and self.statement.value is node
        if base.role == "scatters":
            return base
        if not alone and base.role != "instance":
            key = base.place.key
            if place.on_device and base.place.is_named and isinstance(key, tuple) and key[0] == "item":
                self.moved_items.setdefault(self.container(key[1], target), {})[key[2]] = place
            home = base if place.on_host and base.place.kind == OF else None
            links = (self.link("move", node),)
            return Value(UNKNOWN, place, links=links, role="moved", assumed=base.assumed, bound=home)
        self.analysis.parts.moved.update(one.node for one in base.links[:1])
        cell = (
            base.ref
            if base.role == "instance"
            else ("moved", base.place.key if base.place.is_named else id(node))
        )
        self.state.set_place(cell, place)
        assumed = base.assumed | {Assumption(USES, self.file.source.code(target)[:40])}
        made = Value(
            MODULE,
            Place("in", cell),
            ref=cell,
            links=base.links or (self.link("move", node),),
            assumed=assumed,
        )
        if alone and isinstance(target, ast.Name) and target.id in self.state.names:
            self.state.names[target.id] = made
        elif alone and isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            if owner.ref is not None and owner.kind in (OBJECT, MODULE):
                self.state.set_attribute(owner.ref, target.attr, made)
        return made
