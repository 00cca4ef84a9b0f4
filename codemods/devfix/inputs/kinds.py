"""What expressions make of a followed argument: see `traced`.

The marks of a value: T, it is the argument or made of it; F, a number or an element of it, which may be a
tensor without dimensions; D, on the device of the module; M, a submodule or a container of them.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from devfix.flow import torch_api
from devfix.inputs.classes import Method, Written
from devfix.inputs.operations import FOREIGN, MADE, REDUCTIONS, integers, names_device
from devfix.placing import dotted
from devfix.source import Source, children

if TYPE_CHECKING:
    from devfix.inputs.traced import Seen

Marks = frozenset[str]
NOTHING: Marks = frozenset()
_DEVICE: Marks = frozenset({"D"})
_MODULE: Marks = frozenset({"M"})
_WALKED = frozenset(
    {
        "enumerate",
        "zip",
        "list",
        "tuple",
        "reversed",
        "sorted",
        "iter",
        "next",
        "dict",
        "set",
        "map",
        "filter",
    }
)
_COUNTED = frozenset(
    {"len", "int", "range", "float", "bool", "str", "isinstance", "print", "hasattr", "type", "max", "min", "repr",
     "sum", "round", "abs", "id", "getattr", "slice"}
)  # fmt: skip
_COLLECTED = frozenset({"append", "add", "extend", "insert", "update", "setdefault", "pop", "remove"})
# Counts of time steps and their like: packed sequences want them on the CPU.
COUNTS = re.compile(r"(?:^|_)(?:x_|y_)?(?:len|lens|lengths?|sizes?|counts?)$|_(?:len|lens|lengths?)(?:_|$)")


class Operations(ABC):
    """Expressions of one method."""

    owner: Written
    source: Source
    names: dict[str, Marks]
    seen: Seen

    @abstractmethod
    def enter(self, owner: Written, found: Method, node: ast.Call) -> Marks | None: ...

    @abstractmethod
    def truth(self, test: ast.expr) -> bool | None: ...

    @abstractmethod
    def assign(self, target: ast.expr, value: Marks, made: ast.expr | None) -> None: ...

    def meet(self, operands: list[Marks]) -> Marks:
        """Values that must be in one place; what comes out of it."""
        for at, one in enumerate(operands):
            others = operands[:at] + operands[at + 1 :]
            if any("D" in other for other in others):
                self.seen.met = self.seen.met or "T" in one
                self.seen.kept = self.seen.kept or "F" in one
        every = frozenset[str]().union(*operands) - _MODULE
        return _DEVICE if "D" in every else every

    def ev(self, node: ast.expr) -> Marks:
        handler = getattr(self, f"_x_{type(node).__name__.lower()}", None)
        if handler is not None:
            marks: Marks = handler(node)
            return marks
        every = NOTHING
        for child in children(node):
            if isinstance(child, ast.expr):
                every |= self.ev(child)
        return every

    def _x_constant(self, node: ast.Constant) -> Marks:
        return NOTHING

    _x_joinedstr = _x_lambda = _x_constant

    def _x_name(self, node: ast.Name) -> Marks:
        return self.names.get(node.id, NOTHING)

    def _x_attribute(self, node: ast.Attribute) -> Marks:
        path = dotted(node)
        if path in self.names:
            return self.names[path]
        if path.startswith("self.") and path.count(".") == 1:
            return self._own(node.attr)
        base = self.ev(node.value)
        if node.attr in torch_api.NOT_TENSOR or node.attr in ("device", "is_sparse"):
            return NOTHING
        if "M" in base and node.attr in ("weight", "bias"):
            return _DEVICE
        return base

    def _own(self, name: str) -> Marks:
        """What an attribute of the module is."""
        if name in self.owner.buffers:
            return _DEVICE
        made = self.owner.made.get(name)
        if made is None:
            return NOTHING if self.owner.complete else _MODULE
        marks = NOTHING
        for owner, value in made:
            if isinstance(value, ast.Call):
                called = owner.source.qualified(value.func)
                if called.endswith("Parameter"):
                    return _DEVICE
                if not called.startswith("torch.") or called.startswith("torch.nn."):
                    marks |= _MODULE
            elif isinstance(value, (ast.Name, ast.ListComp)):
                marks |= _MODULE  # given to it
        return marks

    def _x_subscript(self, node: ast.Subscript) -> Marks:
        base, at = self.ev(node.value), self.ev(node.slice)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        sliced = any(
            isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value in (None, ...))
            for part in parts
        )
        if "D" in base:
            return base  # any index of the CPU will do
        if "T" in base and not sliced:
            if "D" in at:
                self.seen.met = True
                return _DEVICE
            return (base - {"T"}) | {"F"} if not all(isinstance(p, ast.Constant) for p in parts) else base
        return base

    def _x_slice(self, node: ast.Slice) -> Marks:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.ev(part)
        return NOTHING

    def _x_binop(self, node: ast.BinOp) -> Marks:
        return self.meet([self.ev(node.left), self.ev(node.right)])

    def _x_compare(self, node: ast.Compare) -> Marks:
        operands = [self.ev(part) for part in (node.left, *node.comparators)]
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return NOTHING
        return self.meet(operands)

    def _x_unaryop(self, node: ast.UnaryOp) -> Marks:
        value = self.ev(node.operand)
        return NOTHING if isinstance(node.op, ast.Not) else value

    def _x_ifexp(self, node: ast.IfExp) -> Marks:
        holds = self.truth(node.test)
        self.ev(node.test)
        if holds is not None:
            return self.ev(node.body if holds else node.orelse)
        return self.ev(node.body) | self.ev(node.orelse)

    def _x_namedexpr(self, node: ast.NamedExpr) -> Marks:
        value = self.ev(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _x_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Marks:
        saved = dict(self.names)
        for part in node.generators:
            self.iterate(part.target, part.iter)
            for test in part.ifs:
                self.ev(test)
        value = self.ev(node.elt)
        self.names = saved
        return value

    _x_generatorexp = _x_setcomp = _x_listcomp

    def iterate(self, target: ast.expr, over: ast.expr) -> None:
        """Bind the target of a loop to what iterating gives: of a tensor with one dimension, numbers."""
        name = over.func.id if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
        if isinstance(over, ast.Call) and isinstance(target, ast.Tuple) and not over.keywords:
            if name == "zip" and len(over.args) == len(target.elts):
                for one, argument in zip(target.elts, over.args, strict=True):
                    self.iterate(one, argument)
                return
            if name == "enumerate" and len(target.elts) == 2 and over.args:
                self.assign(target.elts[0], NOTHING, None)
                self.iterate(target.elts[1], over.args[0])
                return
        value = self.ev(over)
        self.assign(target, (value - {"T"}) | {"F"} if "T" in value else value, None)

    # --- calls ---------------------------------------------------------------------------

    def _x_call(self, node: ast.Call) -> Marks:
        func = node.func
        name = self.source.qualified(func) if not self._local(func) else ""
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            return self._of_self(node, func.attr)
        operands = self._operands(node, 1 if name.startswith("torch.") else None)
        every = frozenset[str]().union(*operands)
        if name.startswith("torch."):
            return self._torch(node, name, operands)
        if name.startswith(("numpy.", "math.")):
            self.seen.host = self.seen.host or bool(every & {"T", "F"})
            return NOTHING
        if isinstance(func, ast.Name) and func.id in _WALKED:
            return every
        if isinstance(func, ast.Name) and func.id in _COUNTED:
            return _MODULE if func.id == "getattr" else NOTHING
        if isinstance(func, ast.Call):
            made = self.source.qualified(func.func)
            if made.startswith("torch.nn.") and _bare(made):
                return self.meet(operands)
            if made.startswith("torch.nn."):
                return self._run(every, node)
        if isinstance(func, ast.Attribute):
            return self._method(node, func, operands, every)
        if "M" in self.ev(func):
            return self._run(every, node)
        return self._unseen(every)

    def _local(self, func: ast.expr) -> bool:
        """Is the root of what is called a name of this method, whatever was imported under it?"""
        path = dotted(func)
        return path.partition(".")[0] in self.names

    def _operands(self, node: ast.Call, first: int | None = None) -> list[Marks]:
        """The arguments; of an operation over tensors, from the `first` on, those that are numbers are nothing."""
        found: list[Marks] = []
        name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        pairs = [(a, "") for a in node.args] + [(k.value, k.arg or "") for k in node.keywords]
        for at, (argument, keyword) in enumerate(pairs):
            if first is not None and at >= first and integers(name, at - first, keyword):
                self.ev(argument)
                found.append(NOTHING)
            elif isinstance(argument, (ast.List, ast.Tuple)):
                found += [self.ev(item) for item in argument.elts]
            else:
                found.append(self.ev(argument))
        return found

    def _unseen(self, every: Marks) -> Marks:
        self.seen.unseen = self.seen.unseen or bool(every & {"T", "F"})
        return every - _MODULE

    def _run(self, every: Marks, node: ast.Call) -> Marks:
        """Handed to a submodule: its inputs must be where it is; but of counts nobody knows."""
        if every & {"T", "F"}:
            given = [
                a
                for a in (*node.args, *(k.value for k in node.keywords))
                if self.ev(a) & {"T", "F"} and not COUNTS.search(dotted(a))
            ]
            if given:
                self.seen.met = True
            else:
                self.seen.unseen = True
        return _DEVICE

    def _of_self(self, node: ast.Call, name: str) -> Marks:
        """`self.layer(x)`, `self.method(x)`."""
        found = self.owner.method(name)
        operands = self._operands(node)
        every = frozenset[str]().union(*operands)
        if found is not None:
            inner = self.enter(self.owner, found, node) if every else NOTHING
            return self._unseen(every) if inner is None else inner
        made = self.owner.made.get(name, [])
        kinds = [(owner, value) for owner, value in made if isinstance(value, ast.Call)]
        results = NOTHING
        for owner, value in kinds:
            assert isinstance(value, ast.Call)
            called = owner.source.qualified(value.func)
            if called.startswith("torch.nn.") and _bare(called):
                limit = 2 if "CTC" in called else len(operands)
                results |= self.meet(operands[:limit])
                continue
            if called.startswith("torch.nn.") and _weighted(called):
                self.seen.met = self.seen.met or bool(every & {"T", "F"})
                results |= _DEVICE
                continue
            part = owner.find(value.func)
            forward = part.method("forward") if part is not None else None
            inner = None
            if part is not None and forward is not None:
                inner = self.enter(part, forward, node)
            results |= self._run(every, node) if inner is None else inner | _DEVICE
        if not kinds:
            return self._run(every, node) if made else self._unseen(every)
        return results

    def _torch(self, node: ast.Call, name: str, operands: list[Marks]) -> Marks:
        last = name.rpartition(".")[2]
        every = frozenset[str]().union(*operands)
        if name in MADE or name in ("torch.device", "torch.Size"):
            return NOTHING
        if any(keyword.arg == "device" for keyword in node.keywords):
            return _DEVICE  # it is told where to be
        if last.endswith("_like"):
            return operands[0] if operands else NOTHING
        if last == "pack_padded_sequence":
            self.seen.host = self.seen.host or bool(frozenset[str]().union(*operands[1:]) & {"T", "F"})
            return operands[0] if operands else NOTHING
        if last in torch_api.NOT_TENSOR or last.startswith("is_") or last == "isinstance":
            return NOTHING
        if "checkpoint" in name and "M" in every:
            return self._run(every - _MODULE, node)
        if last in REDUCTIONS and len(operands) == 1 and "T" in every:
            return frozenset({"F"})
        if name in ("torch.autograd.Variable", "torch.Tensor") or last in FOREIGN:
            return every
        return self.meet(operands)

    def _method(self, node: ast.Call, func: ast.Attribute, operands: list[Marks], every: Marks) -> Marks:
        base, method = self.ev(func.value), func.attr
        if isinstance(func.value, ast.Call) and dotted(func.value.func) == "super":
            return self._unseen(every)
        if "M" in base:
            return self._run(every, node) if method not in _COLLECTED else NOTHING
        operands = self._operands(node, 0)
        every = frozenset[str]().union(*operands)
        if not base & {"T", "F", "D"}:
            path = dotted(func.value)
            if method in _COLLECTED:
                if path:
                    self.names[path] = self.names.get(path, NOTHING) | every
                return NOTHING
            return self._unseen(every)
        if method in torch_api.TO_HOST or method == "cpu":
            self.seen.host = self.seen.host or (method == "numpy" and bool(base & {"T", "F"}))
            return NOTHING
        if method in torch_api.NOT_TENSOR:
            return NOTHING
        if method in ("to", "cuda", "type_as"):
            codes = [self.source.code(a) for a in (*node.args, *(k.value for k in node.keywords))]
            moved = method == "cuda" or "D" in every or any(names_device(c) or "device" in c for c in codes)
            return _DEVICE if moved else base
        if method.startswith("new_"):
            return base
        if method in REDUCTIONS and not operands and "T" in base:
            return (base - {"T"}) | {"F"}
        if method in FOREIGN:
            return base
        return self.meet([base, *operands])


def _weighted(name: str) -> bool:
    """Has a module of torch parameters of its own, which whatever it is given meets?"""
    others = torch_api.CONTAINERS | torch_api.WRAPS | torch_api.MODULE_BASES
    return name not in others and name.rpartition(".")[2][:1].isupper()


def _bare(name: str) -> bool:
    return name in torch_api.BARE_MODULES or name in torch_api.WEIGHTED_LOSSES or name.endswith("Loss")
