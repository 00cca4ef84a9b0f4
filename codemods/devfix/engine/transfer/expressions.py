"""Expressions: names, attributes, operators, containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from devfix.engine.files import Function
from devfix.engine.forms import as_text, begun, joined
from devfix.engine.frame import Lambda
from devfix.engine.joins import join, sequence
from devfix.engine.places import APART, OF, OF_MACHINE, ON_CPU, VAR, Place, choose, literal, relate
from devfix.engine.state import either, merge
from devfix.engine.transfer.attributes import Attributes
from devfix.engine.transfer.requirements import is_loaded
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANYTHING,
    ARRAY,
    BATCH,
    DEVICE,
    FUNCTION,
    INDEX,
    MAPPING,
    NONE,
    NOTHING,
    NUMBER,
    NUMBERED,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Value,
    constant,
)


class Expressions(Attributes):
    def eval(self, node: ast.expr) -> Value:
        handler = HANDLERS.get(node.__class__)
        return handler(self, node) if handler is not None else ANYTHING

    def _constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def _name(self, node: ast.Name) -> Value:
        found = self.state.names.get(node.id)
        if found is None:
            found = self.lookup(node.id)
            if found is None:
                found = self.named(node.id, node)
        if self.analysis.entered:
            self.in_autocast(found, self.where(found), name=node.id)
        if found.kind == FUNCTION and isinstance(found.ref, Function):
            self.analysis.may_call(self, found.ref)  # as whoever it is handed to
        return found

    # --- operators -----------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Value:
        chain = [node]  # a long sum nests to the left: Python's stack is no place for it
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.eval(chain[-1].left)
        for one in reversed(chain):
            left = self.operate(one, left, self.eval(one.right), one.left, one.right, one.op)
        return left

    def operate(
        self, node: ast.AST, left: Value, right: Value, at: ast.AST, other: ast.AST, op: ast.operator
    ) -> Value:
        kinds = (left.kind, right.kind)
        if left.kind == TEXT and (numbered := begun(left.const)):
            return Value(DEVICE, Place(VAR, id(node)), forms=numbered)  # "cuda:%d" % i, "cuda:" + str(i)
        if UNKNOWN in kinds:
            self.left_behind(node, [(left, at), (right, other)], _sign(op))
            if is_loaded(left) or is_loaded(right):
                left, right = self.as_tensor(left), self.as_tensor(right)
                left, right = self.as_loaded(left, at, right), self.as_loaded(right, other, left)
                kinds = (left.kind, right.kind)
        apart = left.role == right.role == "moved" and relate(left.place, right.place) == APART
        if TENSOR not in kinds and BATCH not in kinds and not apart:
            return self._plain(left, right, op)
        left, right = (
            self.as_tensor(left, surely=_has_size_of(right, left)),
            self.as_tensor(right, surely=_has_size_of(left, right)),
        )
        if left.kind in (TENSOR, BATCH) and right.kind in (TENSOR, BATCH):
            # A tensor of the CPU is not changed in place by one of a device, however many dimensions it has.
            changed = isinstance(node, ast.AugAssign) and self.where(left).on_host
            strict = isinstance(op, ast.MatMult) or changed
            return self.together(node, [(left, at), (right, other)], _sign(op), strict=strict)
        tensor, rest = (left, right) if left.kind in (TENSOR, BATCH) else (right, left)
        if isinstance(op, ast.Mod) and left.kind in (TEXT, UNKNOWN):
            return A_TEXT if left.kind == TEXT else ANYTHING  # "%.2f" % loss
        if rest.kind in (NUMBER, TEXT, NONE):
            return tensor.but(kind=TENSOR, role="item" if tensor.role == "item" else "")
        if rest.kind == SEQUENCE and left is rest:
            return rest
        if rest.kind == ARRAY and rest.rank == 1:
            self.on_host(node, tensor, at if tensor is left else other, f"numpy.{_sign(op)}", (TENSOR,))
        if tensor.rank != 1 and self.where(tensor).on_host:
            return Value(TENSOR, rank=tensor.rank)  # the other may be a tensor elsewhere
        return tensor.but(kind=TENSOR, role="")

    def _plain(self, left: Value, right: Value, op: ast.operator) -> Value:
        if left.kind == UNKNOWN and left.like is not None and left.like is right.like:
            return Value(UNKNOWN, left.place, like=left.like)  # of one module, or object
        if left.kind == right.kind == MAPPING and isinstance(op, ast.BitOr):
            return left.but(
                fields={**(left.fields or {}), **(right.fields or {})}, rest=right.rest or left.rest
            )
        if isinstance(op, ast.Mult) and SEQUENCE in (left.kind, right.kind):
            many = left if left.kind == SEQUENCE else right
            if many.items is not None and all(_is_placeholder(one) for one in many.items):
                return Value(SEQUENCE, items=())  # something else is put in their places
            return Value(SEQUENCE, rest=self.any_of(many), links=many.links)
        if isinstance(op, ast.Add) and left.kind == SEQUENCE and right.kind == SEQUENCE:
            parts = left.items, right.items
            if parts[0] is not None and parts[1] is not None and left.rest is right.rest is None:
                return sequence([*parts[0], *parts[1]])
            one, other = self.any_of(left), self.any_of(right)
            return Value(SEQUENCE, rest=self.with_element(one, other) if other is not None else one)
        if (
            isinstance(op, ast.Add)
            and SEQUENCE in (left.kind, right.kind)
            and UNKNOWN in (left.kind, right.kind)
        ):
            return Value(SEQUENCE, rest=ANYTHING)  # to a list only lists are added
        if left.kind == NUMBER and right.kind == NUMBER:
            return A_NUMBER
        if isinstance(op, ast.Mod) and left.kind == TEXT:
            return A_TEXT
        for one, other in ((left, right), (right, left)):
            if one.kind == UNKNOWN and one.place.kind == OF and not one.role and other.kind == UNKNOWN:
                return Value(UNKNOWN, one.place)  # where that is, if it is a tensor
            if one.kind == UNKNOWN and one.role == "moved" and other.kind == NUMBER:
                return one
        if ARRAY in (left.kind, right.kind):
            return Value(ARRAY, rank=1 if 1 in (left.rank, right.rank) else None)
        return ANYTHING

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            return A_NUMBER
        if (
            value.kind == NUMBER
            and isinstance(node.op, ast.USub)
            and isinstance(value.const, (int, float))
            and not isinstance(value.const, bool)
        ):
            return Value(NUMBER, const=-value.const)
        return value.but(const=...) if value.kind == NUMBER else value

    def _bool(self, node: ast.BoolOp) -> Value:
        found: Value | None = None
        kept = self.state.path
        for one in node.values:
            value = self.eval(one)
            if isinstance(node.op, ast.Or) and value.kind == NONE:
                continue
            if found is not None and found.kind == NUMBER != value.kind and isinstance(node.op, ast.And):
                found = None if found.const is True else NOTHING  # a flag: what is used is the last one
            device = found and self._device_of(node, found, value)
            found = device or (value if found is None else either(self.state, found, value))
        self.state.path = kept
        return found or ANYTHING

    def _device_of(self, node: ast.AST, one: Value, other: Value) -> Value | None:
        """`device or "cuda"`, and arms of a choice: a device that is decided here; None where one names no device."""
        places = [
            literal(value.const) if isinstance(value.const, str) else value.place
            for value in (one, other)
            if isinstance(value.const, str) or value.kind == DEVICE
        ]
        if (
            len(places) != 2
            or None in places
            or (isinstance(one.const, str) and isinstance(node, ast.BoolOp))
        ):
            return None
        if places[0] == places[1] and one.kind == other.kind == DEVICE:
            return one
        assumed = one.assumed | other.assumed
        return Value(DEVICE, Place(VAR, id(node)), forms=joined(one.forms, other.forms), assumed=assumed)

    def _compare(self, node: ast.Compare) -> Value:
        left = self.eval(node.left)
        made = A_NUMBER
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self.eval(other)
            one = (
                ast.copy_location(ast.Compare(node.left, [op], [other]), node) if len(node.ops) > 1 else node
            )
            made = self.compared(one, left, right)
            left = right
        return made

    def _conditional(self, node: ast.IfExp) -> Value:
        test = self.test(node.test)
        if test.decided is not None:
            return self.eval(node.body if test.decided else node.orelse)
        names, before = self.state.names, self.state.copy()
        arms = []
        for conditions, told, part in (
            (test.if_true, test.true_names, node.body),
            (test.if_false, test.false_names, node.orelse),
        ):
            self.state.take(before.copy())
            self.assume(conditions, told)
            arms.append((self.eval(part), self.state.copy()))
        if test.is_negative:
            arms.reverse()
        (one, first), (other, second) = arms
        self.state.take(merge(first, second, test.condition))
        self.state.names = names  # what the test told of them holds in one arm only
        if test.condition in OF_MACHINE:
            self.analysis.asked.add(id(node))
        chosen = self._choice(node, one, other)
        if chosen is None:
            return either(self.state, one, other, test.condition)
        if (
            DEVICE in (one.kind, other.kind)
            and test.condition is not None
            and test.condition not in OF_MACHINE
        ):
            then, rest = (ON_CPU if arm.const == "cpu" else chosen.place for arm in (one, other))
            return chosen.but(place=choose(test.condition, then, rest))
        return chosen

    def _choice(self, node: ast.IfExp, one: Value, other: Value) -> Value | None:
        """`"cuda" if ... else "cpu"`: a device that is decided here, or where something is."""
        found = self._device_of(node, one, other)
        if found is not None and self._asks_where(node.test):  # on the CPU, or there
            return next((value for value in (one, other) if value.place.is_named), None)
        return found

    def _asks_where(self, test: ast.expr) -> bool:
        """`x.get_device() >= 0`, `x.is_cuda`."""
        if isinstance(test, ast.Compare):
            return self.eval(test.left).role == INDEX
        return isinstance(test, ast.Attribute) and test.attr == "is_cuda"

    # --- containers ----------------------------------------------------------------------

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items: list[Value] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                inner = self.eval(one.value)
                if inner.items is None or inner.rest is not None:
                    rest = self.iterate(inner, one)
                    for other in (
                        *items,
                        *(self.eval(x) for x in node.elts if not isinstance(x, ast.Starred)),
                    ):
                        rest = join(rest, other)
                    return Value(SEQUENCE, rest=rest)
                items += inner.items
            else:
                items.append(self.eval(one))
        made = sequence(items)
        return made

    def _dict(self, node: ast.Dict) -> Value:
        fields: dict[Any, Value] = {}
        rest: Value | None = None
        for key, one in zip(node.keys, node.values, strict=True):
            value = self.eval(one)
            if key is None:
                fields.update(value.fields or {})
                if value.rest is not None:
                    rest = value.rest if rest is None else join(rest, value.rest)
                continue
            known = self.eval(key).const
            if known is not ... and known.__class__ in (str, int):
                fields[known] = value
            else:
                rest = self.with_element(rest, value)
        return Value(MAPPING, fields=fields, rest=rest)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        names, path = self.state.names, self.state.path
        self.state.names = names.copy()
        made = self._each(node)
        if made is not None:
            self.state.names = names
            return made
        for one in node.generators:
            self.bind(one.target, self.iterate(self.eval(one.iter), one.iter), one.iter)
            for condition in one.ifs:
                test = self.test(condition)
                self.assume(test.if_true, test.true_names)
        if isinstance(node, ast.DictComp):
            role = NUMBERED if self.eval(node.key).kind == NUMBER else ""
            made = Value(MAPPING, rest=self.eval(node.value), role=role)
        else:
            made = Value(SEQUENCE, rest=self.eval(node.elt))
        self.state.names, self.state.path = names, path
        return made

    def _each(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value | None:
        """A comprehension over a few known elements, one by one; None where it is none."""
        first = node.generators[0]
        if len(node.generators) > 1 or first.ifs or isinstance(node, ast.DictComp):
            return None
        over = self.eval(first.iter)
        if over.kind != SEQUENCE or over.rest is not None or not over.items or len(over.items) > 4:
            return None
        found = []
        for one in over.items:
            self.bind(first.target, one, first.iter)
            found.append(self.eval(node.elt))
        return sequence(found)

    def _lambda_value(self, node: ast.Lambda) -> Value:
        self.analysis.frames[id(self)] = self
        self.of_lambda(node)
        return Value(FUNCTION, ref=Lambda(node, id(self)))

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.bind(node.target, value, node.value)
        return value

    def _text(self, node: ast.JoinedStr) -> Value:
        first = node.values[0] if node.values else None
        parts = [
            (self.eval(one.value), one.value) for one in node.values if isinstance(one, ast.FormattedValue)
        ]
        head = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        if len(parts) == 1 and head == "cuda:" and parts[0][0].role == INDEX:
            return Value(DEVICE, parts[0][0].place, forms=begun(head))
        if head.endswith(":") and literal(head[:-1]) is not None:
            numbered = self.numbered(node, *parts[0]) if len(parts) == 1 else None
            return Value(DEVICE, numbered or Place(VAR, id(node)), forms=begun(head))
        if isinstance(first, ast.FormattedValue) and len(node.values) == 1 and first.format_spec is None:
            inner = self.eval(first.value)
            if inner.forms:
                return Value(TEXT, inner.place, forms=as_text(inner.forms), role="str", bound=inner)
        return A_TEXT

    def _inner(self, node: Any) -> Value:
        return self.eval(node.value) if node.value is not None else ANYTHING

    def _yield(self, node: ast.Yield) -> Value:
        self.yields.append(self.eval(node.value) if node.value is not None else NOTHING)
        return ANYTHING

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        self.yields.append(self.iterate(self.eval(node.value), node))
        return ANYTHING

    def _slice(self, node: ast.Slice) -> Value:
        for one in filter(None, (node.lower, node.upper, node.step)):
            self.eval(one)
        return A_NUMBER


def _is_placeholder(value: Value) -> bool:
    """Is it a tensor without elements: `torch.empty(0)`?"""
    made = value.links[0].node if value.kind == TENSOR and value.links else None
    sizes = [ast.unparse(one) for one in made.args] if isinstance(made, ast.Call) else []
    return sizes == ["0"] and value.links[0].name.endswith((".empty", ".zeros", ".Tensor"))


def _has_size_of(made: Value, value: Value) -> bool:
    """Was the size of a new tensor read from a value?"""
    size = made.like.like if made.like is not None and made.like.kind == NUMBER else None
    return size is not None and value.kind == UNKNOWN and size.place == value.place


def _sign(op: ast.operator) -> str:
    return _SIGNS.get(op.__class__, "an operator")


_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**", ast.Mod: "%",
    ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
HANDLERS: dict[type[ast.expr], Callable[[Any, Any], Value]] = {
    ast.Constant: Expressions._constant, ast.Name: Expressions._name, ast.Attribute: Expressions._attribute,
    ast.Call: Expressions.call, ast.Subscript: Expressions.subscript, ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary, ast.BoolOp: Expressions._bool, ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional, ast.Tuple: Expressions._sequence, ast.List: Expressions._sequence,
    ast.Set: Expressions._sequence, ast.Dict: Expressions._dict, ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension, ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension, ast.Lambda: Expressions._lambda_value, ast.NamedExpr: Expressions._walrus,
    ast.JoinedStr: Expressions._text, ast.Starred: Expressions._inner, ast.Await: Expressions._inner,
    ast.Yield: Expressions._yield, ast.YieldFrom: Expressions._yield_from, ast.Slice: Expressions._slice,
}  # fmt: skip
