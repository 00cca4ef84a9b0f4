"""Expressions: what names, attributes, operators and containers are worth."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devfix.flow import torch_api
from devfix.flow.calls import Calls
from devfix.flow.evidence import (
    looks_like_device,
    looks_like_settings,
)
from devfix.flow.frame import path_of
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
    join,
    replace,
)

if TYPE_CHECKING:
    pass

_SAME_TENSOR = frozenset({"T", "mT", "H", "data", "grad", "real", "imag", "values", "indices"})


class Expressions(Calls):
    """Evaluates expressions; what is not listed in the table at the end is unknown."""

    def ev(self, node: ast.expr) -> Value:
        handler = _EXPRESSIONS.get(node.__class__)
        if handler is None:
            return UNKNOWN
        value: Value = handler(self, node)
        if value is not UNKNOWN:
            self.values[node] = value
        return value

    def _name(self, node: ast.Name) -> Value:
        value = self.state.names.get(node.id)
        if value is not None:
            return value
        if node.id in self.program.plain:
            return UNKNOWN
        if looks_like_device(node.id) and node.id not in self.source.imports:
            place = Place(Where.SYMBOL, node.id, fresh_identity(), node)
            value = Value(Kind.DEVICE, place, node=node, sure=False)
            self.state.put(node.id, value)
            return value
        self.program.plain.add(node.id)
        return UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Value:
        names = self.state.names
        path = path_of(node)
        if path:
            value = names.get(path)
            if value is not None:
                return value
        base = self.ev(node.value)
        kind, attribute = base.kind, node.attr
        if kind is Kind.ANY:
            if attribute == "device" and base.place.where is Where.OF and not looks_like_settings(path):
                return self.device_of(node, base)
            if not path or not looks_like_device(path):
                return NUMBER if attribute in torch_api.NOT_TENSOR else replace(base, identity=0)
        elif kind is Kind.TENSOR or kind is Kind.BATCH:
            if attribute == "device":
                return self.device_of(node, base)
            if attribute in _SAME_TENSOR:
                return base
            if attribute in torch_api.NOT_TENSOR:
                return NUMBER
            if kind is Kind.BATCH and base.fields and attribute in base.fields:
                return base.fields[attribute]
            # What a batch object holds may have been moved beforehand; only a loader in view tells.
            place = base.place if base.sure or kind is Kind.TENSOR else UNPLACED
            return Value(Kind.TENSOR, place, node=node, source=base.source, sure=False)
        elif kind is Kind.MODULE or kind is Kind.PART:
            if attribute == "device":
                return self.device_of(node, base)
            if attribute in ("weight", "bias", "data", "grad"):
                return Value(Kind.TENSOR, self.state.place(base), node=node, sure=base.sure)
            if attribute in ("training", "config", "dtype"):
                return UNKNOWN
            if attribute == "module" and (held := self.held(base)) is not None:
                return held
            if not looks_like_device(path):
                return Value(Kind.PART, base.place, base.identity, node, attribute, sure=base.sure)
        elif kind is Kind.DEVICE:
            return Value(Kind.STRING, node=node, name="device.type") if attribute == "type" else UNKNOWN
        elif kind is Kind.INSTANCE:
            value = self.program.attribute(base, attribute, node)
            if value.kind is not Kind.UNKNOWN:
                return value
        if not path or path.partition(".")[0] in self.source.imports:
            return UNKNOWN
        if looks_like_device(path):
            value = Value(
                Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False
            )
            if kind is Kind.OWNER:
                value.form = "object"
            self.state.put(path, value)
            return value
        if self.program.evidence.used_as_module(path):
            value = Value(Kind.MODULE, UNPLACED, fresh_identity(), node, sure=False)
            self.state.put(path, value)
            return value
        return UNKNOWN

    def _subscript(self, node: ast.Subscript) -> Value:
        path = path_of(node)
        if path:
            value = self.state.names.get(path)
            if value is not None:
                return value
        base = self.ev(node.value)
        index = node.slice
        if not isinstance(index, ast.Constant):
            self.ev(index)
        kind = base.kind
        if kind is Kind.TENSOR:
            return Value(
                Kind.TENSOR, base.place, node=node, source=base.source, sure=base.sure, name=base.name
            )
        if kind is Kind.BATCH or base.items is not None:
            key = index.value if isinstance(index, ast.Constant) else None
            if base.fields is not None and isinstance(key, str):
                return base.fields.get(key, UNKNOWN)
            if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
                return base.items[key]
            if isinstance(index, ast.Slice):
                return base
            return self.element(base)
        if kind is Kind.MODULE or kind is Kind.PART:
            return Value(Kind.PART, base.place, base.identity, node, sure=base.sure)
        if kind is Kind.ANY:
            return replace(base, identity=0)
        if path and looks_like_device(path.replace('["', ".").rstrip('"]')):
            value = Value(
                Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False
            )
            self.state.put(path, value)
            return value
        return UNKNOWN

    def _constant(self, node: ast.Constant) -> Value:
        content = node.value
        if content.__class__ is str:
            return Value(Kind.STRING, node=node, text=content) if len(content) < 40 else UNKNOWN
        return UNKNOWN

    def _joined(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.ev(part.value)
        head = node.values[0] if node.values else None
        if isinstance(head, ast.Constant) and torch_api.device_literal(str(head.value)) == "accelerator":
            place = Place(Where.ACCELERATOR, self.source.code(node), fresh_identity(), node)
            return Value(Kind.DEVICE, place, node=node, form="string")
        return UNKNOWN

    def _binary(self, node: ast.BinOp) -> Value:
        # Long sums are deep on the left: unroll them.
        operands: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            operands.append(left.right)
            left = left.left
        result, previous = self.ev(left), left
        for right in reversed(operands):
            value = self.ev(right)
            if result.kind in CARRIERS or value.kind in CARRIERS:
                result = self.combine(right, [(previous, result, ""), (right, value, "")], "operator")
            elif result.kind is not Kind.STRING or value.kind is not Kind.STRING:
                result = UNKNOWN
            previous = right
        return result

    def _bool(self, node: ast.BoolOp) -> Value:
        values = [self.ev(part) for part in node.values]
        result = self.as_device(values[-1]) or values[-1]
        for value in values[:-1]:
            result = join(self.as_device(value) or value, result)
        return result

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.ev(node.operand)
        return value if value.kind is Kind.TENSOR else UNKNOWN

    def _compare(self, node: ast.Compare) -> Value:
        values = [(part, self.ev(part), "") for part in (node.left, *node.comparators)]
        if any(value.kind is Kind.TENSOR for _, value, _ in values):
            return self.combine(node, values, "comparison")
        return UNKNOWN

    def _conditional(self, node: ast.IfExp) -> Value:
        self.ev(node.test)
        body, other = self.ev(node.body), self.ev(node.orelse)
        if body.kind is Kind.STRING and other.kind is Kind.STRING and body.text == other.text:
            return body
        one, two = self.as_device(body), self.as_device(other)
        if one is not None and two is not None:
            return join(one, two)
        return join(body, other)

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items = tuple(self.ev(item) for item in node.elts)
        known = any(item.kind is not Kind.UNKNOWN for item in items)
        if not known:
            return Value(Kind.ARRAY, node=node, source="a list") if isinstance(node, ast.List) else UNKNOWN
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return UNKNOWN
        carries = any(item.kind in CARRIERS for item in items)
        return Value(Kind.BATCH if carries else Kind.ARRAY, node=node, items=items, source="a list")

    def _dict(self, node: ast.Dict) -> Value:
        fields: dict[str, Value] = {}
        carries = False
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.ev(item)
            carries = carries or value.kind in CARRIERS
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                fields[key.value] = value
        return Value(Kind.BATCH, node=node, fields=fields) if carries else UNKNOWN

    def _comprehension(self, node: Any) -> Value:
        saved = self.state.names.copy()
        for part in node.generators:
            self.assign(part.target, self.element(self.ev(part.iter)), None)
            for test in part.ifs:
                self.ev(test)
        element = self.ev(node.value if isinstance(node, ast.DictComp) else node.elt)
        self.state.names = saved
        if element.kind in CARRIERS or (element.kind is Kind.ANY and element.place.on_device):
            return Value(Kind.BATCH, element.place, node=node, source=element.source, element=element)
        if element.kind in (Kind.MODULE, Kind.PART):
            return Value(Kind.ARRAY, node=node, element=element)
        return UNKNOWN

    def _starred(self, node: ast.Starred) -> Value:
        return self.ev(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.ev(node.value)

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.ev(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        value = self.ev(node.value) if node.value is not None else UNKNOWN
        self.yields.append(self.element(value) if isinstance(node, ast.YieldFrom) else value)
        return UNKNOWN

    def element(self, value: Value) -> Value:
        """What iterating over a value gives, or unpacking it."""
        kind = value.kind
        if value.element is not None:
            return value.element
        if value.items is not None:
            result = value.items[0] if value.items else UNKNOWN
            for item in value.items[1:]:
                result = join(result, item)
            return result
        if kind is Kind.LOADER:
            return Value(
                Kind.BATCH,
                value.place,
                node=value.node,
                source=f"a batch from {value.source}",
                sure=value.sure,
            )
        if kind is Kind.TENSOR:
            return value
        if kind is Kind.ANY:
            return replace(value, identity=0)
        if kind is Kind.BATCH:
            return Value(Kind.TENSOR, value.place, node=value.node, source=value.source, sure=False)
        if kind is Kind.PART or kind is Kind.MODULE:
            return Value(Kind.PART, value.place, value.identity, value.node, sure=value.sure)
        return UNKNOWN


_EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions.call,
    ast.Constant: Expressions._constant,
    ast.JoinedStr: Expressions._joined,
    ast.BinOp: Expressions._binary,
    ast.BoolOp: Expressions._bool,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional,
    ast.Tuple: Expressions._sequence,
    ast.List: Expressions._sequence,
    ast.Set: Expressions._sequence,
    ast.Dict: Expressions._dict,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.Starred: Expressions._starred,
    ast.Await: Expressions._await,
    ast.NamedExpr: Expressions._walrus,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield,
}
