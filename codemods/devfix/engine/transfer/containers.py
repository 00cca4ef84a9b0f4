"""Elements: iteration, unpacking, subscripts, and what is stored by them."""

from __future__ import annotations

import ast

from devfix.engine.collections import mapping
from devfix.engine.evidence import is_batch_name, is_labels_name, predates_scalars
from devfix.engine.frame import Arguments
from devfix.engine.joins import element
from devfix.engine.places import AT_DEFAULT, LITERAL, OWNED, VAR, Place, alternatives, is_parameter
from devfix.engine.transfer.protocols import Protocols
from devfix.engine.transfer.requirements import is_loaded
from devfix.engine.uses import may_be_skipped, renews
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANY_MEMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    ELEMENT,
    LABELS,
    LIBRARY,
    LIBRARY_CALL,
    LOAD,
    LOADER,
    MAPPING,
    MODULE,
    NAME,
    NUMBER,
    NUMBERED,
    OBJECT,
    PAIR,
    SEQUENCE,
    SLICE,
    STORE,
    TENSOR,
    UNKNOWN,
    Assumption,
    Value,
)


class Containers(Protocols):
    def unpack(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        """The first `count` elements, as names on the left take them."""
        if value.items is not None and value.kind == SEQUENCE:
            known = [*value.items]
            if len(known) == count and value.rest is None:
                return known
            rest = value.rest or ANYTHING
            return [
                known[i]
                if i < len(known) and value.rest is None and len(known) == count
                else rest
                if i >= len(known)
                else known[i]
                for i in range(count)
            ]
        if value.kind == OBJECT and len(self._fields_of(value)) == count:
            return list(self._fields_of(value))
        if value.role in ("given", "moved") or value.place.kind == OWNED:
            return [value] * count
        if value.kind == UNKNOWN and value.place.is_named:
            return [
                Value(UNKNOWN, Place(value.place.kind, ("item", value.place.key, i))) for i in range(count)
            ]
        return [self.iterate(value, node)] * count

    # --- subscripts ----------------------------------------------------------------------

    def subscript(self, node: ast.Subscript) -> Value:
        return self.item(node, self.eval(node.value), self.eval(node.slice))

    def item(self, node: ast.Subscript, base: Value, index: Value) -> Value:
        if is_loaded(base):
            index = self.as_tensor(index)
            base = self.as_loaded(base, node.value, index) if index.kind == TENSOR else base
        kind, key = base.kind, index.const
        if kind == OBJECT:
            made = self.special(node, base, "__getitem__", [(index, node.slice)])
            if made is not None:
                return made
        if kind == UNKNOWN and isinstance(node.slice, ast.Tuple) and isinstance(node.value, ast.Name):
            uses = self.uses()
            if uses is not None and node.value.id in uses.sliced and uses.kind(node.value.id)[0] == TENSOR:
                kind, base = TENSOR, base.but(kind=TENSOR)
        if kind == UNKNOWN and base.place.is_named and self._is_row_index(index):
            kind, base = TENSOR, base.but(kind=TENSOR)  # nothing else takes one that is on an accelerator
        if kind == BATCH and base.fields is None and _is_sliced(node.slice):
            kind, base = TENSOR, base.but(kind=TENSOR, items=None, rest=None)  # no dict or list takes this
            if isinstance(node.value, ast.Attribute) and node.value.attr == "data":  # nor does an array's
                base = base.but(assumed=base.assumed - {Assumption(LIBRARY_CALL)})
        if kind == TENSOR and index.kind == NUMBER and (base.rank == 0 or self._gives_number(node, base)):
            return ANYTHING  # it raises, or did not before torch 0.4
        if kind == TENSOR and base.role == PAIR and index.kind == NUMBER:
            return base.but(role="")
        if kind == TENSOR:
            index = self._labels(node.slice, base, self.as_tensor(index))
            self._indexed(node, base, index)
            many = index.kind == SEQUENCE and not isinstance(node.slice, ast.Tuple)
            whole = many or isinstance(node.slice, ast.Slice) or index.rank == 1
            # Of the rows of an identity matrix, one index leaves a dimension.
            rows = bool(base.links) and base.links[-1].name.endswith(".eye")
            rows = rows and not isinstance(node.slice, ast.Tuple)
            kept = rows or self._keeps_dimensions(node.slice, index)
            role = "item" if index.kind == NUMBER and not whole else ""
            single = 0 if base.role == "flat" and role else None
            return base.but(rank=1 if kept else base.rank if whole else single, role=role)
        if kind == BATCH:
            if key is not ...:
                self.taken_apart(base)
            if base.fields is not None and key in base.fields:
                return base.fields[key]
            if base.items is not None and key.__class__ is int and -len(base.items) <= key < len(base.items):
                return base.items[key]
            if index.kind == NUMBER and any(one.kind == ELEMENT for one in base.links):
                base = base.but(rank=None)  # of labels, a number
            return base.linked(self.link(ELEMENT, node)) if base.links else base
        if kind == SEQUENCE:
            if key.__class__ is int and base.items is not None and (base.rest is None or key >= 0):
                if -len(base.items) <= key < len(base.items):
                    return base.items[key]
            if self._takes_several(node.slice, index):
                ends = _written(node.slice) if isinstance(node.slice, ast.Slice) else None
                if ends is not None and base.items is not None and base.rest is None:
                    return Value(SEQUENCE, items=base.items[ends], links=base.links, ref=base.ref)
                return Value(SEQUENCE, rest=self.any_of(base), links=base.links, ref=base.ref)
            return self.any_of(base) or ANYTHING
        if kind == MAPPING:
            self.device_lookup(node, base, index, node.slice)
            if base.fields is not None and key is not ... and key in base.fields:
                return base.fields[key]
            if base.fields and key is not ... and base.rest is None:
                return ANYTHING
            return self.any_of(base) or ANYTHING
        if kind == MODULE:
            if self._takes_several(node.slice, index):
                return base
            part = self._part(base)
            return part if part.ref is not None or part.kind == TENSOR else part.but(links=base.links)
        if kind == OBJECT and key.__class__ is int and self._fields_of(base)[key:]:
            return self._fields_of(base)[key]
        if kind == LOADER and base.role in ("items", "pairs") and not isinstance(node.slice, ast.Slice):
            return self.yielded(base, node, "data set")
        if kind in (OBJECT, UNKNOWN):
            return self._unknown_item(node, base, key)
        if kind in (NUMBER, ARRAY):
            return Value(kind)
        if kind == LIBRARY and str(base.ref).endswith(".__dict__"):  # `models.__dict__[name]`
            return Value(LIBRARY, ref=f"{str(base.ref).removesuffix('__dict__')}{ANY_MEMBER}")
        return ANYTHING

    def _takes_several(self, at: ast.expr, index: Value) -> bool:
        """Is an index of a list a slice: as it is written, or as a test of its class tells?"""
        if isinstance(at, ast.Slice) or index.role == SLICE:
            return True
        if index.kind != UNKNOWN or not is_parameter(index.place) or not isinstance(at, ast.Name):
            return False
        own = self.function is not None and index.place.key == ("parameter", id(self.function.node), at.id)
        return own and ((id(self.function), f"isinstance({at.id}, int)"), False) in self.state.path

    def _is_row_index(self, index: Value) -> bool:
        """Is an index a tensor with dimensions that was moved to a device?"""
        moved = index.kind == TENSOR and index.rank == 1 and index.is_moved
        return moved and self.where(index).kind in (VAR, LITERAL)

    def _gives_number(self, node: ast.Subscript, base: Value) -> bool:
        """Is it `loss.data[0]`, for torch before 0.4?"""
        data = isinstance(node.value, ast.Attribute) and node.value.attr == "data"
        return data and base.rank is None and predates_scalars(self.file.source)

    def _labels(self, at: ast.expr, base: Value, index: Value) -> Value:
        """`torch.eye(n)[labels]`: rows by labels are read with tensors, as their name says."""
        if index.kind != UNKNOWN or not isinstance(at, ast.Name) or not is_labels_name(at.id):
            return index
        if not index.place.is_named or not base.links or not base.links[0].name.endswith(".eye"):
            return index
        return index.but(kind=TENSOR, assumed=index.assumed | {Assumption(LABELS, at.id)})

    def _unknown_item(self, node: ast.Subscript, base: Value, key: object) -> Value:
        if base.role in ("given", "moved", "part") or (base.links and base.links[0].kind == LOAD):
            return base
        root = base.place.key if base.place.is_named else None
        if root is None:
            return ANYTHING
        if isinstance(node.slice, ast.Slice):
            return base
        if base.role == "instance" and key == 0 and self.state.place_of(base.ref) == AT_DEFAULT:
            bound = self.file.source.parents.get(node)
            names = [one.id for one in getattr(bound, "targets", ()) if isinstance(one, ast.Name)]
            if any(is_batch_name(name) for name in names):  # of a data set out of sight
                held = Value(LOADER, assumed=frozenset({Assumption(NAME, names[0])}))
                return self.yielded(held, node, "data set")
        if key is ...:
            return self.iterate(base, node)
        stored = self.state.heap.get((("item", root), str(key)))
        if stored is not None:
            return stored
        place = Place(base.place.kind, ("item", root, key))
        self.analysis.item_nodes[place] = node
        if isinstance(key, str) and self.analysis.is_device_name(key):
            return self.analysis.named_device(Place("var", place.key), key)
        return Value(UNKNOWN, place)

    def _keeps_dimensions(self, at: ast.expr, index: Value) -> bool:
        """Has a tensor dimensions, whatever it is, after it was indexed by a tuple, or by None?"""
        if not isinstance(at, ast.Tuple):
            return isinstance(at, ast.Constant) and at.value is None
        return any(
            isinstance(one, ast.Slice)
            or (isinstance(one, ast.Constant) and one.value is None)
            or (value.kind == TENSOR and value.rank == 1)
            for one, value in zip(at.elts, index.items or (), strict=False)
        )

    def _indexed(self, node: ast.Subscript, base: Value, index: Value) -> None:
        """A CPU index reads a device's tensor; a device's index does not read one of the CPU."""
        at = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = index.items or () if index.kind == SEQUENCE else (index,)
        nodes: list[ast.AST] = [*at] if len(at) == len(parts) else [node] * len(parts)
        here = [place for place, _ in alternatives(self.where(base))]
        for one, written in zip(parts, nodes, strict=True):
            if one.kind not in (TENSOR, BATCH) or one.rank == 0 or (one.role == "item" and one.rank != 1):
                continue  # a number, as far as is known
            if one.links and self.where(one).on_host and self.where(base).on_host:
                self.analysis.read_on_host.update(one.moved_at())  # as an index of what is on the CPU
            if one.kind == BATCH and not one.is_moved:
                continue
            there = [place for place, _ in alternatives(self.where(one))]
            if any(place.on_host or place.kind == LITERAL for place in here):
                meet = any(place.on_device for place in there)
            else:
                meet = any(place.kind == LITERAL for place in there)
            if meet:
                self.together(node, [(base, node.value), (one, written)], "the index", strict=True)

    def store_item(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        """`base[index] = value`."""
        base, index = self.eval(target.value), self.eval(target.slice)
        if not isinstance(target.slice, (ast.Tuple, ast.Slice)):  # no elements of a parameter
            self.arrives(target, base, target, value)
        if base.kind == MODULE and value.kind == MODULE:
            self.attach(
                target, base, f"#{index.const}" if index.const is not ... else f"#{id(target)}", value
            )
            return
        if base.kind in (TENSOR, BATCH) and base.fields is None:
            if base.kind == TENSOR:  # an index is brought to where it is
                many = self.as_tensor(index).kind == TENSOR or isinstance(target.slice, ast.List)
                onto_host = self.where(base).on_host and value.rank != 0
                if many and value.kind == TENSOR and (value.rank == 1 or onto_host):
                    self.together(
                        target, [(base, target.value), (value, node)], "the assignment", strict=True
                    )
                elif value.kind in (TENSOR, BATCH) and base.links and self.where(value).on_device:
                    self.rebind(target.value, base.but(like=value.but(kind=TENSOR)))
                return
            if index.const is not ...:
                self.rebind(target.value, base.but(fields={index.const: value}))
            else:  # in a loop over its keys
                held = [one for one, _ in self.tensors(value, node)]
                if held and len({self.where(one) for one in held}) == 1:
                    self.rebind(target.value, base.but(place=held[0].place, links=held[0].links))
            return
        every = renews(self.file.source, target)
        if base.kind in (MAPPING, BATCH) or (every and base.kind == UNKNOWN):
            linked = self.put(base, value, target)
            if every:
                fields = dict.fromkeys(base.fields or (), linked)
                self.rebind(target.value, Value(MAPPING, fields=fields, rest=linked, links=base.links))
            elif index.const is not ... and index.const.__class__ in (str, int):
                self.rebind(target.value, base.but(fields={**(base.fields or {}), index.const: linked}))
            else:
                role = NUMBERED if index.kind == NUMBER else base.role
                self.rebind(target.value, base.but(rest=self.with_element(base.rest, linked), role=role))
        elif base.kind == SEQUENCE:
            known = self.any_of(base)
            if may_be_skipped(self.file.source, target):
                self.mixed(node, known, value, node)
            made = self.with_element(known, self.put(base, value, target))
            self.rebind(target.value, Value(SEQUENCE, rest=made, links=base.links))
        elif base.kind in (UNKNOWN, OBJECT) and base.place.is_named and index.const is not ...:
            self.state.heap[("item", base.place.key), str(index.const)] = value

    def rebind(self, target: ast.expr, value: Value) -> None:
        """A container was changed in place: whoever holds it by this expression sees that."""
        if isinstance(target, ast.Name):
            if target.id in self.state.names:
                self.state.names[target.id] = value
            elif value.kind in (SEQUENCE, MAPPING) and target.id in self.analysis.global_names(self.file):
                self.analysis.global_names(self.file)[target.id] = value  # whoever runs next finds it there
        elif isinstance(target, ast.Attribute):
            base = self.eval(target.value)
            if base.ref is not None and base.kind in (MODULE, OBJECT):
                kept = self.state.attribute(base.ref, target.attr)
                links = (kept.links if kept is not None else ()) or (self.link(STORE, target, target.attr),)
                self.state.set_attribute(base.ref, target.attr, value.but(links=value.links or links))
        elif isinstance(target, ast.Subscript):
            self.store_item(target, value, target)
        elif isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.args:
            if target.func.attr == "setdefault":  # `d.setdefault(k, []).append(x)`
                self._put_under(target.func.value, self.eval(target.args[0]), value)

    def _put_under(self, target: ast.expr, key: Value, value: Value) -> None:
        base = self.eval(target)
        if base.kind == MAPPING and isinstance(key.const, (str, int)):
            self.rebind(target, base.but(fields={**(base.fields or {}), key.const: value}))

    def in_container(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        """A method of a sequence or mapping."""
        assert isinstance(node.func, ast.Attribute)
        target, values = node.func.value, [value for value, _ in arguments[0]]
        if name == "_replace" and base.items is not None and base.fields:
            fields = {**base.fields, **{key: value for key, (value, _) in arguments[1].items()}}
            return base.but(fields=fields, items=tuple(fields.values())[: len(base.items)])
        if name in ("append", "add", "insert", "appendleft") and values:
            linked = self.put(base, values[-1], node)
            if (
                base.items is not None
                and base.rest is None
                and len(base.items) < 8
                and name == "append"
                and not self.loops
            ):
                self.rebind(target, base.but(items=(*base.items, linked)))
            else:
                known = self.any_of(base)
                self.mixed(node, known, linked, node.args[-1] if node.args else None)
                self.rebind(target, base.but(items=None, rest=self.with_element(known, linked)))
            return ANYTHING
        if name == "extend" and values:
            known, more = self.any_of(base), self.put(base, self.iterate(values[0], node), node)
            self.rebind(target, base.but(items=None, rest=self.with_element(known, more)))
            return ANYTHING
        if name == "update" and base.kind == MAPPING:
            more = mapping(arguments)
            self.rebind(target, base.but(fields={**(base.fields or {}), **(more.fields or {})}))
            return ANYTHING
        if name == "items":
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, self.any_of(base) or ANYTHING)))
        if name == "values":
            return Value(SEQUENCE, rest=self.any_of(base))
        if name == "keys":
            return Value(SEQUENCE, rest=A_TEXT)
        if name in ("pop", "get", "setdefault", "popleft"):
            if name == "get" and values and base.kind == MAPPING and node.args:
                self.device_lookup(node, base, values[0], node.args[0])
            if len(values) > 1:
                self.mixed(node, element(base), values[1], node.args[-1])
            if base.fields is not None and values and values[0].const in base.fields:
                return base.fields[values[0].const]
            if name == "setdefault" and len(values) > 1:
                self._put_under(target, values[0], values[1])
                return values[1]
            any_one = not base.fields or (name == "get" and len(values) == 1 and values[0].const is ...)
            return (element(base) if any_one else None) or ANYTHING
        if name == "copy":
            return base
        return A_NUMBER if name in ("index", "count") else ANYTHING

    def _of_batch(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        plain = base.but(fields=None)
        if name == "items":
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, plain)))
        if name == "values":
            return Value(SEQUENCE, rest=plain)
        if name in ("get", "pop"):
            if len(arguments[0]) > 1:
                self.mixed(node, plain, *arguments[0][1])
            key = arguments[0][0][0].const if arguments[0] else ...
            return base.fields[key] if base.fields and key in base.fields else plain
        if name == "update" and arguments[0] and isinstance(node.func, ast.Attribute):
            more = arguments[0][0][0].fields or {}
            self.rebind(node.func.value, base.but(fields={**(base.fields or {}), **more}))
        return base if name == "copy" else ANYTHING


def _written(at: ast.Slice) -> slice | None:
    """A slice of which all ends are written down as numbers."""
    try:
        ends = [ast.literal_eval(one) if one is not None else None for one in (at.lower, at.upper, at.step)]
    except ValueError:
        return None
    return slice(*ends) if all(one is None or type(one) is int for one in ends) and ends[2] != 0 else None


def _is_sliced(index: ast.expr) -> bool:
    """Is it an index of several dimensions, with a slice among them?"""
    return isinstance(index, ast.Tuple) and any(
        isinstance(one, ast.Slice) or (isinstance(one, ast.Constant) and one.value is ...)
        for one in index.elts
    )
