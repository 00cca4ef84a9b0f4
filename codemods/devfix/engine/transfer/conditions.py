"""What a test tells: whether it is decided, the conditions that hold on each side, and what names are then."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from devfix.engine.evidence import IS_TENSOR
from devfix.engine.files import Class
from devfix.engine.places import CPU, LITERAL, OF_MACHINE, ON_CPU, Condition, on_cuda
from devfix.engine.state import either
from devfix.engine.transfer.devices import Devices
from devfix.engine.values import (
    A_NUMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    LOADER,
    MODULE,
    NONE,
    NOTHING,
    NUMBER,
    OBJECT,
    SEQUENCE,
    SLICE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Value,
)
from devfix.models import torch_api

_TRUE_KINDS = frozenset({MODULE, FUNCTION, CLASS, LOADER, OBJECT, DEVICE})
_SOMETHING = frozenset({MODULE, TENSOR, BATCH, DEVICE, FUNCTION, CLASS, LOADER, NUMBER, TEXT, OBJECT, ARRAY})


@dataclass
class Test:
    """`decided`: the outcome where it is known; else what holds, and what names are, on either side."""

    decided: bool | None = None
    if_true: list[Condition] = field(default_factory=list)
    if_false: list[Condition] = field(default_factory=list)
    true_names: dict[str, Value] = field(default_factory=dict)
    false_names: dict[str, Value] = field(default_factory=dict)

    def negated(self) -> Test:
        decided = None if self.decided is None else not self.decided
        return Test(decided, self.if_false, self.if_true, self.false_names, self.true_names)

    @property
    def condition(self) -> object:
        """What is asked, where it is one thing; None if it is not."""
        if len(self.if_true) == 1 and len(self.if_false) == 1:
            return self.if_true[0][0] if self.if_true[0][1] else self.if_false[0][0]
        return None

    @property
    def is_negative(self) -> bool:
        """Does that hold where the test fails?"""
        return self.condition is not None and not self.if_true[0][1]


class Conditions(Devices):
    def test(self, node: ast.expr, depth: int = 0) -> Test:
        """Interpret a test: everything in it is evaluated once."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.test(node.operand, depth + 1).negated()
        if isinstance(node, ast.BoolOp) and depth < 6:
            return self._several(node, depth)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._told(node, self._decide(self._comparison(node)))
        value = self.eval(node)
        if isinstance(node, ast.Call):
            found = self._instance(node)
            if found is not None:
                return self._told(node, self._decide(found))
        known = truth(value)
        known = self.counters.holds(node, value, ast.NotEq, 0) if known is None else known
        if known is not None:
            return Test(known)
        return self._told(node, self._decide(self._one(self.key_of(node, value))))

    def _told(self, node: ast.expr, test: Test) -> Test:
        """With what the test says of the form of a device."""
        told = self.told(node)
        if told is not None:
            name, yes, no = told
            test.true_names[name], test.false_names[name] = yes, no
        return test

    def _several(self, node: ast.BoolOp, depth: int) -> Test:
        every = isinstance(node.op, ast.And)
        made = Test()
        before = self.state.names
        parts = []
        for one in node.values:
            part = self.test(one, depth + 1)
            if part.decided is (not every):
                made.decided = not every
                break
            if part.decided is None:
                parts.append(part)
            names = part.true_names if every else part.false_names
            if names:  # `x is not None and x.y`: what follows knows
                self.state.names = self.state.names.and_also(names)
        if before is not self.state.names:
            # What was bound on the way stays bound; what a test told does not.
            told = {name for part in parts for name in (part.true_names if every else part.false_names)}
            self.state.names = self.state.names.and_also(
                {name: before[name] for name in told if name in before}
            )
        if made.decided is not None:
            return made
        if not parts:
            return Test(every)
        for part in parts:
            if every:
                made.if_true += part.if_true
                made.true_names.update(part.true_names)
            else:
                made.if_false += part.if_false
                made.false_names.update(part.false_names)
        if len(parts) == 1:
            return parts[0]
        if len(parts) == len(node.values):
            self._otherwise(made, parts, every)
        return made

    def _otherwise(self, made: Test, parts: list[Test], every: bool) -> None:
        """`d is not None and not isinstance(d, C)` fails: what its parts say then of the forms of a device."""
        told = [part.false_names if every else part.true_names for part in parts]
        names = made.false_names if every else made.true_names
        for name in told[0]:
            if all(name in one for one in told) and any(one[name].forms for one in told):
                value = told[0][name]
                for one in told[1:]:
                    value = either(self.state, value, one[name])
                names[name] = value

    def key_of(self, node: ast.expr, value: Value) -> object:
        """What a test asks, the same wherever it is asked."""
        text = self.file.source.code(node)
        if text in OF_MACHINE:
            return text
        key = value.place.key if value.place.is_named and value.role != "given" else None
        # All that `forward` is given is where the module is.
        of_module = isinstance(key, tuple) and key[0] == "self"
        if value.kind in (UNKNOWN, NUMBER, TEXT) and key is not None and not of_module:
            return key
        asked = next((one for one in OF_MACHINE if one in text), "")
        if asked:
            return asked
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and (self.function is None or root.id not in self.state.names):
            return "global", self.file.path, text
        return id(self.function), text

    def _one(self, key: object, holds: bool = True) -> Test:
        return Test(None, [(key, holds)], [(key, not holds)])

    def _decide(self, test: Test) -> Test:
        """Decided by what holds on this path."""
        if test.decided is None and test.if_true and test.if_false:
            if all(one in self.state.path for one in test.if_true):
                test.decided = True
            elif any((key, not holds) in self.state.path for key, holds in test.if_true):
                test.decided = False
        return test

    def _comparison(self, node: ast.Compare) -> Test:
        left, right = self.eval(node.left), self.eval(node.comparators[0])
        op = node.ops[0].__class__
        if op in (ast.Is, ast.IsNot, ast.Eq, ast.NotEq) and NONE in (left.kind, right.kind):
            made = self._none(
                node.left if right.kind == NONE else node.comparators[0],
                left if right.kind == NONE else right,
            )
            return made.negated() if op in (ast.IsNot, ast.NotEq) else made
        known = _compared(left, op, right)
        known = self.counters.holds(node.left, left, op, right.const) if known is None else known
        if known is not None:
            return Test(known)
        self.compared(node, left, right)
        if op in (ast.Eq, ast.NotEq):
            found = self._type_of_device(left, right) or self._type_of_device(right, left)
            if found is not None:
                return found.negated() if op is ast.NotEq else found
        if op in (ast.NotEq, ast.NotIn, ast.IsNot):
            source = self.file.source
            positive = {ast.NotEq: "==", ast.NotIn: "in", ast.IsNot: "is"}[op]
            text = f"{source.code(node.left)} {positive} {source.code(node.comparators[0])}"
            return self._one((id(self.function), text), False)
        return self._one(self.key_of(node, Value(OBJECT)))

    def _type_of_device(self, device: Value, wanted: Value) -> Test | None:
        """`x.device.type == "cuda"`, `x.device == torch.device("cpu")`."""
        if device.role != "type" and device.kind != DEVICE:
            return None
        name = "cpu" if wanted.place == ON_CPU else wanted.const
        if name not in ("cpu", "cuda") or (device.kind == DEVICE and name == "cuda"):
            return None
        asked = on_cuda(self.state.resolve(device.place))
        if asked is None:
            return None
        test = Test(asked) if isinstance(asked, bool) else self._one(asked)
        return test.negated() if name == "cpu" else test

    def compared(self, node: ast.Compare, left: Value, right: Value) -> Value:
        """Tensors that are compared must be together; the result."""
        self.device_compared(node, left, right)
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return A_NUMBER
        self.left_behind(node, [(left, node.left), (right, node.comparators[0])], "the comparison")
        if left.kind in (TENSOR, BATCH) or right.kind in (TENSOR, BATCH):
            left, right = self.as_tensor(left), self.as_tensor(right)
        if left.kind not in (TENSOR, BATCH) or right.kind not in (TENSOR, BATCH):
            tensor, rest = (left, right) if left.kind in (TENSOR, BATCH) else (right, left)
            if tensor.kind not in (TENSOR, BATCH):
                return A_NUMBER
            plain = rest.kind in (NUMBER, TEXT, NONE) or not self.where(tensor).on_host
            return tensor.but(kind=TENSOR, role="") if plain else Value(TENSOR, rank=tensor.rank)
        return self.together(node, [(left, node.left), (right, node.comparators[0])], "the comparison")

    def _none(self, node: ast.expr, value: Value) -> Test:
        if value.kind == NONE:
            return Test(True)
        known = value.kind == OBJECT and value.ref is not None and bool(value.links)
        if value.kind in _SOMETHING and (known or not isinstance(node, ast.Name) or self._is_computed(node)):
            return Test(False)
        told = value.kind == DEVICE and value.place.kind in (LITERAL, CPU)
        if self.called is not None and (told or value.const not in (..., None)):
            return Test(False)  # what this call passes is not None
        if _is_made_where_missing(node, value):
            return Test(False)
        key = ("none", self.key_of(node, value))
        if value.place.kind == "choice":
            return self._one(key)
        made = self._one(key)
        if isinstance(node, ast.Name):
            made.true_names[node.id] = NOTHING
        return made

    def _is_computed(self, node: ast.Name) -> bool:
        """Does the call that is run pass a sum or a product for a parameter, which is not bound again above?"""
        if self.called is None or self.function is None:
            return False
        given = (one.value for one in self.called[0].keywords if one.arg == node.id)
        if not isinstance(next(given, None), ast.BinOp):
            return False
        names = self.file.source.names(self.function.node).get(node.id, ())
        return not any(isinstance(one.ctx, ast.Store) and one.lineno < node.lineno for one in names)

    def _instance(self, node: ast.Call) -> Test | None:
        """`isinstance(x, torch.Tensor)`, `torch.is_tensor(x)`, `hasattr(x, "to")`."""
        dotted = self.file.dotted(node.func)
        movable = dotted == "hasattr" and self._asks_for_move(node)
        tensor = movable or dotted == "torch.is_tensor"
        if not node.args or not (tensor or dotted == "isinstance"):
            return None
        at = node.args[0]
        value = self.lookup(at.id) if isinstance(at, ast.Name) else self.eval(at)
        if value is None:
            return None
        if dotted == "isinstance" and len(node.args) == 2:
            classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [self.file.dotted(one) for one in classes]
            if value.const is not ... and _TYPES.keys() >= set(names):
                return Test(any(isinstance(value.const, _TYPES[one]) for one in names))
            tensor = all(one.endswith("Tensor") for one in names)
            if not tensor:
                if not isinstance(at, ast.Name):
                    return None
                made = self._one((id(self.function), self.file.source.code(node)))
                owner = self.file.definition(classes[0]) if len(classes) == 1 else None
                if names == ["torch.nn.Module"] and value.kind == UNKNOWN:
                    made.true_names[at.id] = value.but(kind=MODULE)
                elif isinstance(owner, Class) and value.kind == UNKNOWN:
                    kind = MODULE if self.analysis.class_kind(owner) == "module" else OBJECT
                    made.true_names[at.id] = value.but(kind=kind, bound=Value(CLASS, ref=owner))
                elif value.kind in (UNKNOWN, TENSOR, BATCH) and not any(
                    one.endswith("Tensor") for one in names
                ):
                    made.true_names[at.id] = _of_classes(names) if value.kind != BATCH else value
                return made
        if value.kind == BATCH or (movable and value.kind in (TENSOR, MODULE)):
            return Test(True)  # what else is among its elements has no place
        if not tensor or not isinstance(at, ast.Name):
            return None
        own = self.function is not None and value.place.key == ("parameter", id(self.function.node), at.id)
        if value.kind == TENSOR and not value.assumed and not own:
            return Test(True)  # else an annotation says so, of which the function itself is not sure
        made = self._one((id(self.function), f"{IS_TENSOR}{at.id}"))
        if value.kind == UNKNOWN:
            made.true_names[at.id] = value if movable else value.but(kind=TENSOR)
        elif value.kind in (NUMBER, TEXT, NONE, MODULE) or self._is_plain_object(value):
            return Test(False)
        made.false_names[at.id] = Value(UNKNOWN)
        return made

    def _is_plain_object(self, value: Value) -> bool:
        """Is it of a class in view that derives from nothing that could be a tensor?"""
        owner = value.bound.ref if value.kind == OBJECT and value.bound is not None else None
        return isinstance(owner, Class) and all(base in torch_api.PLAIN_BASES for base in owner.outside)

    def _asks_for_move(self, node: ast.Call) -> bool:
        """`hasattr(x, "to")`"""
        return len(node.args) == 2 and self.eval(node.args[1]).const in _MOVES

    def assume(self, conditions: list[Condition], names: dict[str, Value]) -> None:
        """Go on where these conditions hold."""
        if conditions:
            self.state.path = self.state.path | set(conditions)
            for key, holds in conditions:
                self.state.names.assume(key, holds)
        for name, value in names.items():
            self.state.names[name] = value


def _compared(left: Value, op: type[ast.cmpop], right: Value) -> bool | None:
    """How two values compare, where both are constants, or one is and the other has nothing but such."""
    one, other = left.const, right.const
    if op in (ast.In, ast.NotIn) and right.items and right.rest is None:
        other = [item.const for item in right.items]
        other = ... if ... in other else other
    if one is ... or other is ...:
        return None
    if op in (ast.Is, ast.IsNot):
        return (one is other) is (op is ast.Is) if isinstance(one, bool) else None
    try:
        return bool(OPERATORS[op](one, other))
    except TypeError:
        return None


def _is_made_where_missing(node: ast.expr, value: Value) -> bool:
    """`if x is None: x = torch.ones(2)` above: is it there on both paths?"""
    place, name = value.place, getattr(node, "id", getattr(node, "attr", ""))
    if place.kind != "choice" or place.then is None or not isinstance(place.key, tuple):
        return False
    what, asked = place.key[0], place.key[-1]
    return place.then.on_host and what == "none" and isinstance(asked, tuple) and asked[-1] == name


def _of_classes(names: list[str]) -> Value:
    """What an instance of any of these classes is."""
    if names == [SLICE]:
        return Value(UNKNOWN, role=SLICE)
    kinds = {_CLASSES.get(one.rpartition(".")[2], UNKNOWN) for one in names}
    return Value(kinds.pop()) if len(kinds) == 1 else ANYTHING


_MOVES = ("to", "cuda")
OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, other: one in other, ast.NotIn: lambda one, other: one not in other,
}  # fmt: skip
# What a constant may be asked for: it is no tensor, and no array.
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "bool": (bool,), "str": (str,), "list": (), "tuple": (), "dict": (),
    "torch.Tensor": (), "torch.nn.Module": (), "torch.device": (), "numpy.ndarray": (),
}  # fmt: skip
_CLASSES = {
    "list": SEQUENCE, "tuple": SEQUENCE, "ndarray": ARRAY, "int": NUMBER, "float": NUMBER, "bool": NUMBER, "str": TEXT,
}  # fmt: skip


def truth(value: Value) -> bool | None:
    """Whether a value is true, where that is known."""
    if value.const is not ...:
        return bool(value.const)
    if value.kind in _TRUE_KINDS:
        return True
    return None
