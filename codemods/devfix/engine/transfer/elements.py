"""Elements of containers: as one value for all of them, and what is done with those that objects keep."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.evidence_of_modules import is_loss
from devfix.engine.files import Class
from devfix.engine.joins import element
from devfix.engine.places import AT, IN, Place
from devfix.engine.transfer.autocasts import Autocasts
from devfix.engine.values import (
    ELEMENT,
    MAPPING,
    MAX_ITEMS,
    MODULE,
    SEQUENCE,
    STORE,
    TENSOR,
    UNKNOWN,
    Link,
    Value,
    elements,
)
from devfix.models import torch_api

MAX_NESTING = 4  # of containers in containers, of modules in modules
ANYWHERE = frozenset({"bare", "loss", "stateless"})  # roles of modules that have no parameters


class Elements(Autocasts):
    def any_of(self, value: Value) -> Value | None:
        """Any element of a container: of modules in one place, the first stands for all, which are its items."""
        parts = elements(value)
        if len(parts) > 1 and all(one.kind == TENSOR and one.role == "parameter" for one in parts):
            several, any_one = [one for part in parts for one in part.items or [part]], element(value)
            return any_one and any_one.but(items=tuple(several[:MAX_ITEMS]))
        if len(parts) < 2 or any(one.kind != MODULE for one in parts):
            return element(value)
        parts = [one for one in parts if one.role not in ANYWHERE] or parts
        first, held = parts[0], tuple([one for one in parts if one.ref is not None])
        if len({self.where(one) for one in parts}) > 1:
            any_one = element(value)
            return any_one and any_one.but(items=held)
        made = {
            one.bound.ref if isinstance(one.bound, Value) else one.links[0].name if one.links else None
            for one in parts
        }
        if len(made) == 1:
            return first.but(items=held) if first.ref is not None else first
        role = "" if any(self.is_weighted(one) for one in parts) else "stateless"
        return Value(MODULE, self.where(first), links=first.links, role=role, items=held)

    def is_weighted(self, module: Value, depth: int = 0, *, trained: bool = False) -> bool:
        """Has a module anything that is moved, or parameters, as far as its class and parts are in view?"""
        if module.role in ANYWHERE:
            return False
        if depth and module.ref is None:  # which stands for several
            return module.like is not None and self.is_weighted(module.like, depth, trained=trained)
        if module.bound is None and module.links and is_loss(module.links[0].name):
            return module.role == "weighted"
        owner = module.bound.ref if module.bound is not None else None
        known = isinstance(owner, Class) and all(base in torch_api.MODULE_BASES for base in owner.outside)
        named = self.state.attributes(module.ref) if module.ref is not None else ()
        buffers = self.analysis.parts.buffers if trained else ()
        held = [one for name, one in named if (owner, name) not in buffers]
        contains = (
            bool(module.links) and self.models.layer(module.links[0].name) == "container" and bool(held)
        )
        if not (known or contains) or depth > MAX_NESTING:
            return True
        parts = (one for one in held if one.kind == MODULE and one.ref != module.ref)
        return any(one.role == "parameter" for one in held) or any(
            self.is_weighted(one, depth + 1, trained=trained) for one in parts
        )

    def with_element(self, known: Value | None, value: Value) -> Value:
        """What stands for the elements of a container that gets one more."""
        return (self.any_of(Value(SEQUENCE, items=(known, value))) or value) if known is not None else value

    def as_part(self, value: Value, node: ast.AST) -> Value:
        """An attribute of a library's module, which stands where modules stand, as one."""
        is_part = value.kind == UNKNOWN and value.role == "part" and value.ref in self.analysis.made
        return self.part_of(value, node) if is_part else value

    def part_of(self, value: Value, node: ast.AST) -> Value:
        """An attribute of a library's module that is used as a module."""
        cell, whole = (id(node), self.site, "part"), self.analysis.made[value.ref]
        self.state.set_place(cell, self.where(whole))
        made = Value(MODULE, Place(IN, cell), ref=cell, links=whole.links, assumed=whole.assumed)
        self.analysis.made[cell] = made
        return made

    def kept(self, value: Value, link: Link, depth: int = 0) -> Value:
        """A plain container that an object keeps: its elements know that they are in it."""
        if value.kind not in (SEQUENCE, MAPPING) or depth > MAX_NESTING:
            if value.kind == MODULE and value.ref is not None:
                self.analysis.parts.kept_in[value.ref] = link
            elif depth:
                self.analysis.parts.kept_else.add(link)
            unseen = value.kind == UNKNOWN and value.place.kind == AT and not value.role
            return value.linked(link) if value.links or unseen else value
        below = depth + 1
        return value.but(
            items=value.items and tuple([self.kept(one, link, below) for one in value.items]),
            fields=value.fields and {key: self.kept(one, link, below) for key, one in value.fields.items()},
            rest=value.rest and self.kept(value.rest, link, below),
            links=value.links if depth else (link._replace(name=link.name[:-2]),),
        )

    def put(self, base: Value, value: Value, node: ast.AST) -> Value:
        """A value as an element of a container that is there already."""
        made = value.linked(self.link(ELEMENT, node)) if value.links else value
        at = base.links[-1] if base.links else None
        return self.kept(made, at._replace(name=f"{at.name}[]"), 1) if at and at.kind == STORE else made

    def element_used(self, value: Value, what: str, node: ast.AST) -> None:
        """Note what is done with an element of a plain container that an object keeps, or with a part of one."""
        if value.kind == UNKNOWN and value.place.is_named and value.place.key.__class__ is tuple:
            if value.place.key[0] in ("element", "item"):
                of_given = self.analysis.parts.given_uses.setdefault(value.place.key[1], {})
                of_given.setdefault(what, {})[node] = None
        found = [*kept_links(value)]
        cell = value.ref if not found else None
        for _ in range(MAX_NESTING):
            if cell is None:
                break
            if cell in self.analysis.parts.kept_in:
                found = [self.analysis.parts.kept_in[cell]]
                break
            cell = self.analysis.part_of.get(cell)
        for link in found:
            self.analysis.parts.uses.setdefault(link, {}).setdefault(what, {})[node] = None


def kept_links(value: Value) -> Iterator[Link]:
    """The links of a history by which it became an element of a plain container of an object."""
    return (one for one in value.links if one.kind == STORE and one.name.endswith("[]"))
