"""Values that come together: modules and their inputs, operands, and surgery."""

from __future__ import annotations

import ast

from devfix.flow.events import Meeting, What
from devfix.flow.evidence import (
    looks_like_layer,
    moves_inputs,
)
from devfix.flow.frame import Arguments, Frame, path_of
from devfix.flow.lattice import (
    CARRIERS,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
    replace,
)


class Meetings(Frame):
    """Reports where values on different devices meet, and what arrives in a module."""

    def run_module(
        self,
        node: ast.Call,
        callee: Value,
        arguments: Arguments,
        path: str,
        method: str = "",
    ) -> Value:
        """A module is called, or one of its methods: its inputs must be where it is."""
        place = self.state.place(callee)
        if callee.kind is not Kind.ANY or callee.parameter >= 0:
            self.emit(What.USE, node, callee, path, place=place, detail=method or "called")
        if callee.bare and not method:
            return self.combine(node, arguments, path)
        if place.where is Where.OWNED:
            return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)
        if callee.form == "parallel":  # scatters its inputs by itself
            place = replace(place, where=Where.UNKNOWN) if not place.on_device else place
            return Value(Kind.TENSOR, place, node=node, source=f"the output of `{path}`", sure=False)
        carriers = [(a, v, k) for a, v, k in arguments if v.kind in CARRIERS or v.kind is Kind.ANY]
        if carriers and self._settles(callee, method or "forward"):
            carriers = []
        unknown = place.where in (Where.UNKNOWN, Where.OF)
        # With a module at an unknown place, and parameters as inputs, callers decide.
        strays = tuple(
            Meeting(a, v, v.place, k)
            for a, v, k in carriers
            if self._stray(place, v) or (unknown and v.place.where in (Where.OF, Where.DEFAULT))
        )
        if strays:
            self.emit(
                What.MEET,
                node,
                callee,
                path,
                place=place,
                strays=strays,
                devices=self.devices(),
                detail=method or "module",
            )
        if place.on_device:
            return Value(Kind.TENSOR, place, node=node, source=f"the output of `{path}`", sure=False)
        known = [v.place for _, v, _ in carriers]
        for result in known:
            if result.on_device:
                return Value(Kind.TENSOR, result, node=node, source=f"the output of `{path}`", sure=False)
        if known and (place.where is Where.DEFAULT or known[0].where is Where.OF):
            return Value(Kind.TENSOR, known[0], node=node, sure=False)
        return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)

    def _settles(self, callee: Value, method: str) -> bool:
        """Does a module of a class in view move its inputs by itself?"""
        info = self.program.class_names.get(callee.name)
        if info is not None:
            node = info.methods.get(method)
            return node is not None and moves_inputs(self.source.code(node), node)
        return False

    def _stray(self, place: Place, value: Value) -> bool:
        return place.on_device and value.place.where is Where.DEFAULT

    def combine(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        """An operation over tensors: they must be in one place, and so is the result."""
        carriers = [(a, v, k) for a, v, k in arguments if v.kind in CARRIERS]
        if not carriers:
            return (
                Value(Kind.TENSOR, UNPLACED, node=node, sure=False)
                if name not in ("operator", "comparison")
                else UNKNOWN
            )
        first = carriers[0][1]
        found = next(((a, v) for a, v, _ in carriers if v.place.on_device), None)
        if found is not None:
            placed = found[1]
            scalars = name in ("operator", "comparison")
            strays = tuple(
                Meeting(a, v, v.place, k)
                for a, v, k in carriers
                if (v.place.where is Where.DEFAULT and not (v.form == "scalar" and scalars))
                or (v.place.where is Where.OF and v.name == "parameter")
            )
            if strays:
                self.emit(
                    What.MEET,
                    node,
                    placed,
                    path_of(found[0]),
                    place=placed.place,
                    strays=strays,
                    devices=self.devices(),
                    detail=name,
                )
            return Value(Kind.TENSOR, placed.place, node=node, source=placed.source, sure=placed.sure)
        anchored = next(((a, v) for a, v, _ in carriers if v.place.where is Where.OF), None)
        if anchored is not None:
            scalars = name in ("operator", "comparison")
            strays = tuple(
                Meeting(a, v, v.place, k)
                for a, v, k in carriers
                if v.place.where is Where.DEFAULT and not (v.form == "scalar" and scalars)
            )
            if strays:
                self.emit(
                    What.MEET,
                    node,
                    anchored[1],
                    path_of(anchored[0]),
                    place=anchored[1].place,
                    strays=strays,
                    devices=self.devices(),
                    detail=name,
                )
            return Value(Kind.TENSOR, anchored[1].place, node=node, sure=anchored[1].sure)
        if all(v.place.where is Where.DEFAULT for _, v, _ in carriers):
            big = next((v for _, v, _ in carriers if v.form != "scalar"), first)
            return Value(
                Kind.TENSOR,
                big.place,
                node=big.node,
                source=big.source,
                sure=big.sure,
                name=big.name,
                form=big.form,
            )
        return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)

    def _passed_together(self, node: ast.Call, arguments: Arguments, name: str) -> None:
        """`generate(model, ids)`: a function out of sight that runs the model on its other arguments."""
        for argument, value, _ in arguments:
            if value.kind is Kind.MODULE:
                place = self.state.place(value)
                strays = tuple(
                    Meeting(a, v, v.place, k)
                    for a, v, k in arguments
                    if v.kind in CARRIERS and self._stray(place, v)
                )
                if strays:
                    self.emit(
                        What.MEET,
                        node,
                        value,
                        path_of(argument),
                        place=place,
                        strays=strays,
                        devices=self.devices(),
                        detail=f"passed to {name}",
                    )
                return

    def attach(
        self, target: ast.expr, root: Value, child: Value, node: ast.expr | None, how: str = "="
    ) -> None:
        """A module or parameter arrives in a module: surgery."""
        if root.kind not in (Kind.MODULE, Kind.PART) or not root.identity:
            return
        path = path_of(target) or self.source.code(target)
        children = [child]
        if how in ("extend", "update") and child.items:
            children = list(child.items)
        layer = self._layer_of(node, child)
        children = [layer] if layer is not None else children
        if isinstance(target, ast.Subscript) and isinstance(target.slice, (ast.Tuple, ast.Slice)):
            children = []  # elements of a parameter are written: `net.weight[i, :] = ...`
        for one in children:
            is_parameter = one.name == "torch.nn.Parameter"
            if one.kind is Kind.MODULE or is_parameter:
                if one.identity == root.identity:
                    continue
                self.emit(
                    What.ATTACH,
                    target,
                    root,
                    path,
                    place=self.state.place(one),
                    child=one,
                    devices=self.devices(),
                    detail=how,
                )
                return
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            self.emit(What.READ, target, root, path, detail="set")

    def _layer_of(self, node: ast.expr | None, value: Value) -> Value | None:
        """A layer of a class out of sight, by its name."""
        if value.kind is not Kind.UNKNOWN or not isinstance(node, ast.Call):
            return None
        name = self.callee_name(node.func)
        if not looks_like_layer(name.rpartition(".")[2]):
            return None
        told = any(keyword.arg == "device" for keyword in node.keywords)
        place = UNPLACED if told else self.program.default_place(node)
        return Value(Kind.MODULE, place, fresh_identity(), node, name, sure=False)


def may_be_module(value: Value) -> bool:
    """A parameter of which nothing is known: what is done to it matters where a module is passed."""
    return value.kind is Kind.ANY and value.parameter >= 0 and value.identity > 0
