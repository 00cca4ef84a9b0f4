"""Expressions: names, attributes, indices, operators and containers."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from devfix.factories.calls import Calls
from devfix.factories.operations import names_device
from devfix.factories.values import (
    HERE,
    MAPPING,
    MAYBE,
    OTHER,
    UNKNOWN,
    Anchor,
    Fact,
    Form,
    derived,
    element,
    join,
    listed,
)
from devfix.flow import torch_api
from devfix.flow.frame import path_of
from devfix.placing import about_devices
from devfix.source import children

_LOADED = re.compile(r"(?i)loader$|dataset$")
_LABELS = re.compile(r"^(?:\w+_)?(?:labels?|targets?|indices|ids|classes)$")
_TENSORS = re.compile(r"(?:torch\.)?Tensor")
_SETTINGS = re.compile(r"(?i)config|cfg|args|params|opt")
_SAME = frozenset(
    # the last ones are of distributions, which are where their parameters are
    {"T", "mT", "H", "data", "grad", "real", "imag", "mean", "stddev", "variance", "loc", "scale"}
)


class Expressions(Calls):
    """Evaluates expressions; what has no method here is unknown, its parts evaluated."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Fact) -> None:
        """Bind a target to a value."""

    def ev(self, node: ast.expr) -> Fact:
        handler = getattr(self, f"_x_{type(node).__name__.lower()}", None)
        if handler is not None:
            fact: Fact = handler(node)
            return fact
        if isinstance(node, ast.Lambda):
            return UNKNOWN
        for child in children(node):
            if isinstance(child, ast.expr):
                self.ev(child)
        return UNKNOWN

    def _x_name(self, node: ast.Name) -> Fact:
        found = self.names.get(node.id)
        if found is None and node.id in ("device", "dev") and node.id not in self.source.imports:
            return Fact(Form.DEVICE, anchor=Anchor(node.id))
        return found if found is not None else UNKNOWN

    def _x_constant(self, node: ast.Constant) -> Fact:
        return OTHER

    _x_joinedstr = _x_constant

    def _x_attribute(self, node: ast.Attribute) -> Fact:
        path = path_of(node)
        if path in self.names:
            return self.names[path]
        attribute = node.attr
        if path and self.owner is not None and path in self.owner.tensors:
            return Fact(Form.TENSOR, anchor=Anchor(f"{path}.device"))
        if path and self.owner is not None and path in self.owner.placed:
            return Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
        if path == "self.device":
            return Fact(Form.DEVICE, anchor=Anchor(path))
        base = self.ev(node.value)
        if base.form is Form.LIST and attribute in ("values", "indices"):
            return element(base)
        if base.form is Form.TENSOR:
            if attribute == "device":
                if base.stray:
                    return OTHER  # the CPU, whatever it is called
                if base.placed and base.anchor is not None and base.anchor.text != path:
                    return Fact(Form.DEVICE, anchor=replace(base.anchor))
                return Fact(Form.DEVICE, anchor=Anchor(path, base.placed)) if base.placed else UNKNOWN
            if attribute in _SAME:
                return base
            if attribute in torch_api.NOT_TENSOR:
                return Fact(Form.OTHER, anchor=base.anchor)
            return derived(base)
        if names_device(path):
            value = Fact(Form.DEVICE, anchor=Anchor(path))
            self.names[path] = value
            return value
        if attribute in ("shape", "dtype", "ndim"):
            return OTHER
        if path and self.owner is not None and attribute == "weight":
            inner = path_of(node.value)
            if inner in self.owner.layers:
                return Fact(Form.TENSOR, anchor=Anchor(f"{path}.device"))
        if path.startswith("self.") and self.module and self._of_module(path):
            return Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
        return (
            HERE if _LOADED.search(path) else replace(MAYBE, anchor=None) if base.form is Form.MAYBE else base
        )

    def _of_module(self, path: str) -> bool:
        """What a module has and uses as a tensor goes where it goes, if it is made nowhere on the host."""
        assert self.owner is not None
        if path in self.owner.plain or path in self.owner.layers:
            return False
        parts = path.split(".")
        if len(parts) == 3 and parts[2] == "weight":
            return not _SETTINGS.search(parts[1])
        return len(parts) == 2 and self.uses.surely(path)

    def _x_subscript(self, node: ast.Subscript) -> Fact:
        path = path_of(node)
        if path and path in self.names:
            return self.names[path]
        base, index = self.ev(node.value), self.ev(node.slice)
        if base.form is Form.LIST:
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if isinstance(key, int) and -len(base.items) <= key < len(base.items):
                return base.items[key]
            return base if isinstance(node.slice, ast.Slice) else element(base)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if base.form is Form.TENSOR:
            for part in parts:
                at = self.ev(part)
                if base.stray and isinstance(part, ast.Name) and _LABELS.match(part.id):
                    at = self.tensor(part, at)
                if not base.stray:
                    self.settled |= at.origins  # any tensor is indexed by one of the CPU
                if at.placed and base.stray and not at.basic and at.flat is not True:
                    self.meet(node, base, part, at, "is indexed by")
                    return Fact(Form.TENSOR, anchor=at.anchor)
                if at.stray and base.stray:
                    self.links.append(at.origins | base.origins)
            kept = any(isinstance(p, ast.Slice) or _new_axis(p) for p in parts)
            flat = False if kept else base.flat if index.form is Form.TENSOR else None
            return replace(base, flat=flat, basic=all(self._number(part) for part in parts))
        if base.form in (Form.UNKNOWN, Form.MAYBE, Form.OTHER) and base != MAPPING:
            # What it is an index of may be a tensor or an array of the CPU, which want it there.
            self.doubted |= {o for part in parts if (at := self.ev(part)).flat is False for o in at.origins}
        if base.form is Form.OTHER:
            return replace(OTHER, anchor=base.anchor)
        if base == MAPPING and path:
            return Fact(Form.TENSOR, anchor=Anchor(f"{self.source.code(node)}.device"))
        if base.form is Form.MAYBE and (index.placed or any(_new_axis(p) for p in parts)):
            return self.tensor(node.value, base)
        return replace(MAYBE, anchor=None) if base.form is Form.MAYBE else derived(base)

    def _number(self, index: ast.expr) -> bool:
        """Does an index take one element: `x[i, 0]`?"""
        if isinstance(index, (ast.Slice, ast.Starred)) or _new_axis(index):
            return False
        value = self.ev(index)
        if value.form is Form.TENSOR:
            return value.basic or value.flat is True
        return value.form in (Form.OTHER, Form.UNKNOWN)

    def _x_call(self, node: ast.Call) -> Fact:
        return self.call(node)

    def _x_binop(self, node: ast.BinOp) -> Fact:
        left, right = self.ev(node.left), self.ev(node.right)
        if left.form is Form.LIST:
            return listed((*left.items, *right.items))
        if left.form is Form.TENSOR or right.form is Form.TENSOR:
            strict = isinstance(node.op, ast.MatMult)
            if strict:
                left, right = self.tensor(node.left, left), self.tensor(node.right, right)
            return self.combine(node, [(node.left, left), (node.right, right)], strict)
        return OTHER if left.form is Form.OTHER and right.form is Form.OTHER else derived(left, right)

    def _x_compare(self, node: ast.Compare) -> Fact:
        operands = [(part, self.ev(part)) for part in (node.left, *node.comparators)]
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return OTHER
        if any(fact.form is Form.TENSOR for _, fact in operands):
            return self.combine(node, operands)
        return derived(*(fact for _, fact in operands))

    def _x_unaryop(self, node: ast.UnaryOp) -> Fact:
        value = self.ev(node.operand)
        return OTHER if isinstance(node.op, ast.Not) else value

    def _x_ifexp(self, node: ast.IfExp) -> Fact:
        self.ev(node.test)
        a, b = self.ev(node.body), self.ev(node.orelse)
        if about_devices(node.test) and a.origins != b.origins:
            return a if not a.origins else b if not b.origins else UNKNOWN
        if a.form in (Form.UNKNOWN, Form.MAYBE) and b.form in (Form.UNKNOWN, Form.MAYBE):
            if HERE not in (a, b) and self._first(node):
                return Fact(Form.TENSOR, anchor=Anchor(f"{self.source.code(node.orelse)}.device", False))
        return join(a, b)

    def _first(self, node: ast.IfExp) -> bool:
        """`x if torch.is_tensor(x) else x[0]`: a tensor, and `x[0].device` is right for both."""
        test, whole, other = node.test, self.source.code(node.body), node.orelse
        if not isinstance(test, ast.Call) or not test.args or self.source.code(test.args[0]) != whole:
            return False
        if not isinstance(other, ast.Subscript) or self.source.code(other.value) != whole:
            return False
        kind = path_of(test.func) == "isinstance" and _TENSORS.fullmatch(self.source.code(test.args[-1]))
        asked = bool(kind) or path_of(test.func) == "torch.is_tensor"
        return asked and isinstance(other.slice, ast.Constant) and isinstance(other.slice.value, int)

    def _x_boolop(self, node: ast.BoolOp) -> Fact:
        values = [self.ev(part) for part in node.values]
        return join(values[0], values[-1])

    def _x_tuple(self, node: ast.Tuple | ast.List) -> Fact:
        return listed(tuple(self.ev(item) for item in node.elts))

    _x_list = _x_tuple

    def _x_listcomp(self, node: Any) -> Fact:
        saved = self.names.copy()
        for part in node.generators:
            self.assign(part.target, element(self.ev(part.iter)))
            self.hold(part.target, part.iter, iterated=True)
            for test in part.ifs:
                self.ev(test)
        item = self.ev(node.elt)
        self.names = saved
        return listed((item,))

    _x_generatorexp = _x_listcomp

    def _x_namedexpr(self, node: ast.NamedExpr) -> Fact:
        value = self.ev(node.value)
        self.assign(node.target, value)
        return value

    def _x_starred(self, node: ast.Starred) -> Fact:
        return self.ev(node.value)


def _new_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ...)
