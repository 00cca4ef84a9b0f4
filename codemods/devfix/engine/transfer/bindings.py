"""What names, attributes and elements are bound to."""

from __future__ import annotations

import ast
from typing import Any

from devfix.engine.evidence import is_loader_name, is_module_name, is_text_name
from devfix.engine.evidence_of_modules import is_set_up, is_told_a_device, may_place
from devfix.engine.places import AT, AT_DEFAULT, CHOICE, IN, LITERAL, NOWHERE, OF, OWNED, VAR, Place, choose
from devfix.engine.transfer.expressions import Expressions
from devfix.engine.values import (
    ANYTHING,
    BATCH,
    CLASS,
    ELEMENT,
    FUNCTION,
    JOIN,
    LOAD,
    LOADER,
    MAKE,
    MAPPING,
    MODULE,
    NAME,
    NUMBER,
    OBJECT,
    PROVEN,
    SEQUENCE,
    STORE,
    TENSOR,
    UNKNOWN,
    USES,
    WHOLE,
    Assumption,
    Value,
)
from devfix.text.source import Source, remembered

_LOOKUPS = ("getattr", "next")  # these make nothing


class Bindings(Expressions):
    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            if isinstance(node, ast.IfExp):
                value = self._network(target.id, value, node)
            if value.kind == UNKNOWN:
                told = is_loader_name(target.id) and self._names_device(node)  # its batches may be there
                value = self._network(target.id, value if told else self._evident(target.id, value), node)
            self.state.names[target.id] = value
            if self.analysis.claims is not None and self.file is self.analysis.file:
                known = self.analysis.claims.setdefault((target.lineno, target.id), [])
                known.append((value.kind, self.where(value)))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.taken_apart(value)
            starred = next((i for i, one in enumerate(target.elts) if isinstance(one, ast.Starred)), None)
            if starred is not None:
                after = len(target.elts) - starred - 1
                items = value.items if value.kind == SEQUENCE and value.rest is None else None
                if items is not None and len(items) >= starred + after:
                    end = len(items) - after
                    middle = Value(SEQUENCE, items=items[starred:end], links=value.links)
                    parts = [*items[:starred], middle, *items[end:]]
                else:
                    parts = [self.iterate(value, node)] * len(target.elts)
                    parts[starred] = Value(SEQUENCE, rest=parts[starred])
                for one, part in zip(target.elts, parts, strict=True):
                    self.bind(one.value if isinstance(one, ast.Starred) else one, part, node)
                return
            for one, part in zip(target.elts, self.unpack(value, len(target.elts), node), strict=True):
                loaded = part.kind == TENSOR and [one.kind for one in part.links] == [LOAD]
                if loaded or (part.kind == BATCH and part.links):
                    part = (
                        ANYTHING
                        if self._is_no_tensor(one, target.elts if value.kind == BATCH else [])
                        else part.linked(self.link(ELEMENT, one, WHOLE if value.kind == SEQUENCE else ""))
                    )
                self.bind(one, part, node)
        elif isinstance(target, ast.Attribute):
            self._store(target, self._network(self.file.source.code(target), value, node))
        elif isinstance(target, ast.Subscript):
            self.store_item(target, value, node)

    def _names_device(self, node: ast.AST) -> bool:
        """Is a device, by its name, an argument of a call?"""
        if not isinstance(node, ast.Call):
            return False
        names = [one.id for one in node.args if isinstance(one, ast.Name)]
        return any(map(self.analysis.is_device_name, (*names, *(one.arg or "" for one in node.keywords))))

    def _is_no_tensor(self, part: ast.expr, parts: list[ast.expr]) -> bool:
        """Is a part of a batch, used as no tensor, called like texts, or used as a dict, or beside one that is?"""
        uses = self.uses()
        if uses is None or not isinstance(part, ast.Name):
            return False
        if uses.attributes.get(part.id) or part.id in uses.sliced | uses.operands:
            return False
        named = (one.id for one in parts if isinstance(one, ast.Name))
        return is_text_name(part.id) or any(name in uses.keyed for name in named)

    def _evident(self, name: str, value: Value) -> Value:
        """What an unknown value is by what is done with the name that it gets."""
        if is_loader_name(name) and not value.role:
            owned = "owned" if self.where(value).kind == OWNED or self.analysis.owns_loaders else ""
            return Value(LOADER, role=owned, assumed=frozenset({Assumption(NAME, name)}))
        uses = self.uses()
        if uses is None:
            return value
        kind, assumed = uses.kind(name)
        if value.role == "instance":
            moves = uses.attributes.get(name, set()) & {"to", "cuda"}
            named = is_module_name(name) and self.where(value).kind in (VAR, LITERAL)  # it was told a device
            if kind == MODULE or (name in uses.called and moves) or named:
                assumed |= {Assumption(NAME, name)} if named and kind != MODULE else PROVEN
                made = Value(MODULE, self._cell(value), ref=value.ref, links=value.links, assumed=assumed)
                return self.analysis.made.setdefault(value.ref, made)
            return value
        if value.role == "moved" and value.place.on_device and kind in (MODULE, TENSOR):
            return value.but(kind=kind, assumed=value.assumed | assumed, role="")
        if value.role == "given":
            spoken = uses.attributes.get(name, set()) & {"item", "backward"}
            return value.but(kind=TENSOR, role="") if kind == TENSOR or spoken else value
        if value.place.is_named and kind == TENSOR:
            return value.but(kind=TENSOR, assumed=value.assumed | assumed)
        if self.analysis.is_device_name(name) and value.place.is_named:
            return self.analysis.named_device(value.place._replace(kind="var"), name)
        return value

    def _network(self, path: str, value: Value, node: ast.AST) -> Value:
        """What is made out of sight and set up as a network is one; on the CPU, if its maker is told no device."""
        if isinstance(node, ast.IfExp) and value.kind == UNKNOWN:
            one, other = (self._network(path, ANYTHING, arm) for arm in (node.body, node.orelse))
            same = one.kind == other.kind == MODULE and self.where(one) == self.where(other)
            return one.linked(other.links[0]._replace(kind=JOIN)) if same else value
        if value.kind != UNKNOWN or value.role not in ("", "instance") or not isinstance(node, ast.Call):
            return value
        name, source = self.file.dotted(node.func), self.file.source
        own = value.role == "" and not (
            isinstance(node.func, ast.Name) or name.partition(".")[0] in _packages(source)
        )
        found = value.role == "" and (value.links or name.partition(".")[0] == "torch" or name in _LOOKUPS)
        if found or not is_set_up(path, source):
            return value
        cell = value.ref or (id(node), self.site, "network")
        if value.role == "":
            told = own or not name or may_place(name.rpartition(".")[2]) or is_told_a_device(node, source)
            told = told or self.eval(node.func).kind == FUNCTION  # in view, and not run once more
            self.state.set_place(
                cell, NOWHERE if told or not self.analysis.default_is_known else self.default
            )
        links = value.links or (self.link(MAKE, node, name),)
        made = Value(
            MODULE, Place(IN, cell), ref=cell, links=links, assumed=frozenset({Assumption(USES, path)})
        )
        self.analysis.made[cell] = made
        self.analysis.parts.set_up.add(cell)
        return made

    def _cell(self, value: Value) -> Any:
        return value.place._replace(kind="in", key=value.ref)

    def _store(self, target: ast.Attribute, value: Value) -> None:
        """`base.name = value`."""
        base = self.eval(target.value)
        if base.kind == TENSOR and target.attr == "data" and base.place.kind == "in":
            self.filled(target, Value(MODULE, base.place, ref=base.place.key), value)
            self.move_module(base.place.key, self.where(value))
            return
        if base.kind == value.kind == TENSOR and target.attr == "data":
            self.rebind(target.value, base.but(place=self.where(value), links=value.links))
            return
        self.arrives(target, base, target, value)
        if base.kind == BATCH:
            self.rebind(target.value, base.but(fields={**(base.fields or {}), target.attr: value}))
            return
        if base.kind == MODULE and target.attr in ("weight", "bias"):
            self.filled(target, base, value)
        if base.kind == CLASS:
            self.state.set_attribute((CLASS, base.ref), target.attr, value)
            mine = self.own_cell(base.ref)
            if mine is not None:  # which has it from its class
                self.state.set_attribute(mine, target.attr, value)
        if base.ref is None or base.kind not in (MODULE, OBJECT):
            return
        name = target.attr
        if value.role == "part" and value.ref is not None and base.kind == MODULE:
            value = self.part_of(value, target)
        if value.kind == UNKNOWN and value.role == "instance" and base.kind == MODULE:
            self.analysis.parts.registered.add(value.links[0].node)
            self.state.set_attribute(base.ref, name, value)
            return
        if (
            base.kind == MODULE
            and value.kind == MODULE
            and not (self.me is not None and base.ref == self.me.ref and value.ref == base.ref)
        ):
            if value.ref is not None and value.ref == base.ref:
                self.state.set_attribute(base.ref, name, value)
                return
            if not self._building(base):
                self.attach(target, base, name, value)
            self.register(value, base)
            self.state.set_attribute(base.ref, name, value.linked(self.link(STORE, target, name)))
            return
        if base.kind == MODULE and value.kind == TENSOR and value.role == "parameter":
            place = _of_parameter(self.where(value), Place(IN, base.ref))
            links = () if place.kind == IN else value.links
            self.state.set_attribute(base.ref, name, value.but(place=place, links=links))
            return
        own = value.kind == TENSOR and value.role != "parameter" and value.place == Place(IN, base.ref)
        if own and self._building(base) and self.where(value).on_host:
            # What is made of a parameter is none, and stays where it is when the module moves.
            links = value.links or (self.link(MAKE, target, name),)
            value = value.but(place=AT_DEFAULT, links=links).doubted(Assumption(USES, f"self.{name}"))
        if value.kind == NUMBER and value.const is ... and not value.place.is_named:
            value = value.but(place=Place(AT, ("stored", id(target))))  # it is not what was there before
        size = value.like.like if value.kind == TENSOR and value.like is not None else None
        if (
            size is not None
            and base.kind == MODULE
            and not self._building(base)
            and self.where(value).on_host
        ):
            self._like_its_source(target, value, target, size)
        kept = self.state.attribute(base.ref, name)
        if base.kind == MODULE and kept is not None and kept.role == "parameter" and value.kind == TENSOR:
            if self.where(value).on_host and (self._building(base) or self.where(base).on_host):
                return  # a buffer keeps being one
            value = value.but(role="parameter")  # it is where it was made, until the module is moved
        if value.role == "followed":
            value = value.but(role="", links=())  # a device that is kept is meant
        elif value.links:
            value = value.linked(self.link(STORE, target, name))
        elif value.kind in (SEQUENCE, MAPPING):
            value = self.kept(value, self.link(STORE, target, f"{name}[]"))
        self.state.set_attribute(base.ref, name, value)

    def _building(self, base: Value) -> bool:
        """Is this the constructor of the object?"""
        return (
            self.function is not None
            and self.function.name == "__init__"
            and self.me is not None
            and base.ref == self.me.ref
        )

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.state.names.pop(target.id, None)


def _of_parameter(place: Place, module: Place) -> Place:
    """Where a parameter is that a module is given: it moves with the module, but was put on a device before."""
    if place.kind == CHOICE and place.then is not None and place.other is not None:
        return choose(place.key, _of_parameter(place.then, module), _of_parameter(place.other, module))
    return place if place.on_device and place.kind != OF else module


@remembered
def _packages(source: Source) -> set[str]:
    return {one.partition(".")[0] for one in source.imports.values()}
