"""Calls into torch: what they make and where, and which of their arguments must be in one place."""

from __future__ import annotations

import ast
from dataclasses import replace

from devfix.factories.meetings import Facts, Meeting, Meetings
from devfix.factories.operations import (
    COLLECTIVES,
    MADE,
    PAIRS,
    PASSING,
    REDUCTIONS,
    STRICT,
    integers,
    is_operation,
    takes_tensor,
)
from devfix.factories.values import HERE, OTHER, UNKNOWN, Anchor, Fact, Form, derived, element, listed
from devfix.flow import torch_api
from devfix.flow.evidence import looks_like_device
from devfix.flow.frame import path_of
from devfix.source import walk

_LITERALS = (ast.List, ast.Tuple, ast.ListComp)
# What is in the list that they take is a tensor.
_JOINED = frozenset({"cat", "stack", "concat", "concatenate", "hstack", "vstack"})


class Making(Meetings):
    """Torch's own functions."""

    def _torch(self, node: ast.Call, name: str, facts: Facts) -> Fact:
        last = name.rpartition(".")[2]
        if name in MADE:
            return self._made(node, name, last, facts)
        if name == "torch.device":
            return Fact(Form.DEVICE, anchor=Anchor(self.source.code(node)))
        if last.endswith("_like") and facts:
            told = next((a for a, _, k in facts if k == "device"), None)
            return self._at(told) if told is not None else replace(facts[0][1], filled=None)
        if name.startswith("torch.distributed."):
            self._collective(node, last, facts)
            return UNKNOWN
        if name.startswith("torch.distributions."):
            return (
                self.combine(node, [(a, f) for a, f, _ in facts]) if _tensors(facts) else self._result(facts)
            )
        if last == "pack_padded_sequence":
            for _, fact, _ in facts[1:]:
                self.hosted |= fact.origins  # it wants the lengths on the CPU
        if last in PASSING and facts:
            argument, fact, _ = facts[0]
            whole = element(fact) if fact.form is Form.LIST else self.tensor(argument, fact)
            return listed((whole,)) if "split" in last else whole
        if not is_operation(name):
            return self._result(facts)
        if last.startswith("sparse_") and last.endswith("_tensor") and not _known(facts):
            return UNKNOWN  # its indices and its values must be in one place, but in which?
        operands = [
            (a, f)
            for at, (a, f, k) in enumerate(facts)
            if k not in ("generator", "device") and not integers(last, at - 1, k)
        ]
        told = next((a for a, _, k in facts if k == "device"), None)
        if told is not None:
            return self._at(told)
        flat: list[tuple[ast.expr, Fact]] = []
        for argument, fact in operands:
            if fact.form is Form.LIST:
                items = [(self._item(argument, at), item) for at, item in enumerate(fact.items)]
                if last in _JOINED and isinstance(argument, (ast.List, ast.Tuple)):
                    items = [(a, self.tensor(_unsliced(a), item)) for a, item in items]
                flat += items
            else:
                flat.append((argument, fact))
        if last == "where" and len(flat) == 1:
            return flat[0][1]
        # With two bounds, one of them a number, a tensor without dimensions counts as a number.
        clamps = last in ("clamp", "clip") and len(facts) == 2
        if takes_tensor(name):
            first = 2 if last in PAIRS else 1
            flat = [(a, self.tensor(a, f)) for a, f in flat[:first]] + flat[first:]
        result = self.combine(node, flat, last in STRICT or clamps)
        if result.form is not Form.TENSOR:
            return self._result(facts)
        if last in _JOINED:
            return replace(result, flat=False)
        if last in ("meshgrid", "sort", "topk", "unique"):
            return listed((replace(result, flat=False),))
        if last in REDUCTIONS:
            return replace(result, flat=True if len(facts) == 1 else None)
        if len(flat) > 1 and result.flat is None and last not in ("matmul", "dot"):
            return result
        return result

    def _collective(self, node: ast.Call, last: str, facts: Facts, at: str = "") -> None:
        """`all_reduce(torch.tensor(..))`: NCCL takes tensors of the GPU only."""
        if last not in COLLECTIVES or ("gloo" in self.source.text and "nccl" not in self.source.text):
            return
        for _argument, fact, _ in facts:
            for item in fact.items if fact.form is Form.LIST else (fact,):
                if item.stray and not self.moved_then(node):
                    known = item.anchor.text if item.anchor is not None else ""
                    anchor = Anchor(at or known, False)
                    self.meetings.append(
                        Meeting(item.origins, node, anchor, last, "is sent by", certain=False)
                    )

    def _item(self, node: ast.expr, at: int) -> ast.expr:
        if isinstance(node, (ast.List, ast.Tuple)) and at < len(node.elts):
            return node.elts[at]
        return node

    def _at(self, device: ast.expr) -> Fact:
        """A tensor that is told where to be."""
        known = self.ev(device)
        if isinstance(device, ast.Constant):
            if device.value == "cpu" or device.value is None:
                return Fact(Form.TENSOR)
            return Fact(Form.TENSOR, anchor=Anchor(self.source.code(device)))
        code = self.source.code(device)
        if code.replace("'", '"') == 'torch.device("cpu")':
            return Fact(Form.TENSOR)
        if isinstance(device, ast.Attribute) and device.attr == "device":
            base = self.ev(device.value)
            if base.form is Form.TENSOR and (base.anchor is None or base.origins):
                return Fact(Form.TENSOR, base.origins, base.anchor)
        elif known.form is Form.TENSOR or known.form is Form.OTHER:
            return Fact(Form.TENSOR)
        if known.form is Form.DEVICE or looks_like_device(code):
            return Fact(Form.TENSOR, anchor=Anchor(code, self._writable(device)))
        return Fact(Form.TENSOR)

    def _writable(self, node: ast.expr) -> bool:
        return bool(path_of(node))

    def _made(self, node: ast.Call, name: str, last: str, facts: Facts) -> Fact:
        keywords = {k: a for a, _, k in facts if k}
        device = keywords.get("device")
        if device is not None and not (isinstance(device, ast.Constant) and device.value is None):
            return replace(self._at(device), flat=self._flat(node, last, facts))
        if {"**", "out", "generator", "pin_memory"} & set(keywords) or not self.default:
            return Fact(Form.TENSOR)
        if any(isinstance(a, ast.Starred) for a in node.args) and last not in (
            "zeros",
            "ones",
            "empty",
            "rand",
            "randn",
        ):
            return Fact(Form.TENSOR)
        doubted = of_tensors = False
        if last in ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer") or name in torch_api.LEGACY:
            data = facts[0][1] if facts else OTHER
            doubted = name in torch_api.LEGACY and len(facts) == 1 and _tensorial(data)
            # Of a list of tensors it takes those without dimensions only.
            of_tensors = data.form is Form.LIST and any(
                _tensorial(i) and i.flat is not True for i in data.items
            )
            if doubted and (data.placed or self._computed(node.args[0])):
                return Fact(Form.TENSOR)  # it refuses a tensor of another device before anything can move it
            if data.form is Form.TENSOR:
                return data
            if data.form in (Form.MAYBE, Form.UNKNOWN) and last in ("as_tensor", "asarray"):
                return UNKNOWN  # what is a tensor already stays where it is
        flat = self._flat(node, last, facts)
        origin = self.origin(node, name, self.writable())
        if doubted or of_tensors:
            self.doubted.add(origin)
        dtype = keywords.get("dtype")
        if isinstance(dtype, ast.Attribute) and flat is False:
            like = self.ev(dtype.value)
            if like.placed and like.anchor is not None and not like.anchor.weak:
                self.kept.append((origin, like.anchor, dtype.value, "follows the type of"))
        return Fact(Form.TENSOR, frozenset({origin}), flat=flat)

    def _computed(self, node: ast.expr) -> bool:
        """Is it a tensor rather than a list, a size or an array, as `x == 0` and `~x` are of a tensor `x`?"""
        if isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp)):
            names = [part for part in walk(node) if isinstance(part, ast.Name)]
            return any(self.ev(one).form is Form.TENSOR or self.uses.tensor(one.id) for one in names)
        return self.uses.tensor(path_of(node))

    def writable(self) -> dict[str, Fact]:
        """What tells of devices here."""
        found = self.names.telling()
        if self.owner is None:
            return found
        if self.owner.device:
            found.setdefault("self.device", Fact(Form.DEVICE, anchor=Anchor("self.device")))
        if self.owner.weights:
            text = "next(self.parameters()).device"
            found.setdefault(text, Fact(Form.DEVICE, anchor=Anchor(text)))
        return found

    def _flat(self, node: ast.Call, last: str, facts: Facts) -> bool | None:
        """Has the tensor no dimension?"""
        if last in ("tensor", "as_tensor", "asarray", "scalar_tensor"):
            if last == "scalar_tensor" or not node.args:
                return True
            data = node.args[0]
            if isinstance(data, _LITERALS):
                return False
            fact = facts[0][1]
            if fact.form is Form.LIST or (fact.form is Form.OTHER and fact.flat is False):
                return False
            if isinstance(data, ast.BinOp) and isinstance(data.right, _LITERALS):
                return False  # `rows + [[1, 2]]`
            if isinstance(data, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Compare)):
                return True
            if isinstance(data, ast.Call) and path_of(data.func) in ("list", "sorted", "range"):
                return False
            return None
        if last in ("zeros", "ones", "empty", "full", "rand", "randn"):
            first = node.args[0] if node.args else None
            return isinstance(first, (ast.Tuple, ast.List)) and not first.elts
        return False

    def _result(self, facts: Facts) -> Fact:
        """What something out of sight makes of parameters may be a tensor where they are."""
        return derived(*(item for _, fact, _ in facts for item in (fact.items or (fact,))))


def _known(facts: Facts) -> bool:
    """Is it known where the indices of a sparse tensor are?"""
    indices = next((f for a, f, k in facts if k == "indices"), facts[0][1] if facts else UNKNOWN)
    if indices.placed and indices.anchor is not None:
        return indices.anchor.sure
    return indices.stray or indices.form in (Form.LIST, Form.OTHER)


def _tensors(facts: Facts) -> bool:
    return any(fact.form is Form.TENSOR for _, fact, _ in facts)


def _unsliced(node: ast.expr) -> ast.expr:
    """`x[0]` of `x[0][:n]`, which is written as it is."""
    while isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Slice, ast.Tuple)):
        node = node.value
    return node


def _tensorial(data: Fact) -> bool:
    """May it be a tensor of another device?"""
    if data.form is Form.TENSOR:
        return not data.stray
    return data.form is Form.MAYBE or (data.form is Form.UNKNOWN and data != HERE)
