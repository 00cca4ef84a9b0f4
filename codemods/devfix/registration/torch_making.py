"""What torch's own functions and tensor methods make in a constructor."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import reduce

from devfix.flow import torch_api
from devfix.registration import dims
from devfix.registration.classes import ModuleClass
from devfix.registration.made import NO_TENSOR, NOT_KNOWN, Frame, Kind, Made
from devfix.registration.signatures import (
    default_of,
    is_false,
    only_dtype,
    sequence_annotation,
    whole_dtype,
)
from devfix.registration.stores import Method
from devfix.source import Source

_WHOLE_MAKERS = frozenset(
    {
        "LongTensor", "IntTensor", "BoolTensor", "ByteTensor", "ShortTensor", "randperm",
        "tril_indices", "triu_indices", "polar", "complex",
    }
)  # fmt: skip

_CASTS = frozenset({"long", "int", "bool", "short"})


class TorchMaker(ABC):
    """The part of `Maker` that knows torch."""

    source: Source

    @abstractmethod
    def value(self, node: ast.expr, frame: Frame) -> Made:
        """What an expression makes."""

    @abstractmethod
    def frame(self, owner: ModuleClass | None, scope: Method | ast.Module) -> Frame:
        """The frame of a function or of the module body."""

    @abstractmethod
    def _passed(self, name: str, frame: Frame) -> list[ast.expr]:
        """What the calls in sight pass for a parameter; nothing where some do not say."""

    @abstractmethod
    def _combine(self, values: list[Made]) -> Made:
        """What comes of values together."""

    def _method(self, node: ast.Call, function: ast.Attribute, frame: Frame) -> Made:
        base = self.value(function.value, frame)
        name = function.attr
        if base.kind is Kind.PLACED:
            return base
        if base.kind is not Kind.TENSOR:
            return NOT_KNOWN
        if name in torch_api.NOT_TENSOR or name in torch_api.TO_HOST:
            if name == "type":
                return replace(base, whole=False)
            return NO_TENSOR
        if name in ("cuda", "to", "type_as", "pin_memory"):
            if name == "to" and only_dtype(self.source, node):
                return replace(base, whole=whole_dtype(node))
            if name in ("to", "type_as") and self._like_a_plain_one(node, frame):
                return replace(base, whole=False)
            return Made(Kind.PLACED)
        others = [self.value(argument, frame) for argument in node.args]
        if any(other.kind is Kind.PLACED for other in others):
            return Made(Kind.PLACED)
        whole = name in _CASTS or (base.whole and name not in ("float", "double", "half"))
        return replace(base, dim=dims.after(name, base.dim, node, method=True), whole=whole, items=())

    def _torch_call(self, node: ast.Call, name: str, frame: Frame) -> Made:
        last = name.rpartition(".")[2]
        if name in torch_api.PARAMETERS:
            return Made(Kind.PARAMETER)
        if name.startswith("torch.nn.") and last[:1].isupper() and ".utils." not in name:
            return NOT_KNOWN if last == "Buffer" else Made(Kind.MODULE, node=node)
        whole = last in _WHOLE_MAKERS or whole_dtype(node)
        if name in torch_api.LEGACY:
            dim = dims.of_data(node.args[0]) if len(node.args) == 1 else dims.SOME
            return Made(Kind.TENSOR, dims.SOME if dim in (0, dims.ANY) else dim, whole)
        if name == "torch.from_numpy":
            return Made(Kind.TENSOR, dims.SOME, whole)
        if any(k.arg == "requires_grad" and not is_false(k.value) for k in node.keywords):
            return Made(Kind.PARAMETER)
        placed = next((k.value for k in node.keywords if k.arg == "device"), None)
        if placed is not None and not self._default_device(placed, frame):
            return Made(Kind.PLACED)
        if any(k.arg is None for k in node.keywords):
            return NOT_KNOWN  # `**factory_kwargs` mostly has the device
        if name in torch_api.FACTORIES:
            if last in ("tensor", "as_tensor", "asarray", "scalar_tensor"):
                return self._from_data(node, last, whole, frame)
            return Made(Kind.TENSOR, dims.of_factory(last, node), whole)
        if name in torch_api.NOT_TENSOR_CALLS or name.startswith(
            (
                "torch.utils.",
                "torch.cuda.",
                "torch.distributed.",
                "torch.distributions.",
                "torch.jit.",
                "torch.optim.",
            )
        ):
            return NOT_KNOWN
        values: list[Made] = []
        for argument in [*node.args, *(k.value for k in node.keywords if k.arg != "dtype")]:
            made = self.value(argument, frame)
            values.extend(made.items if made.items else [made])
        made = self._combine(values)
        if made.kind is Kind.TENSOR:
            made = replace(
                made, dim=dims.after(last, made.dim, node, method=False), whole=whole or made.whole
            )
        return made

    def _from_data(self, node: ast.Call, last: str, whole: bool, frame: Frame) -> Made:
        if not node.args:
            return NOT_KNOWN
        data = node.args[0]
        made = self.value(data, frame)
        if made.kind in (Kind.PLACED, Kind.TENSOR):
            return replace(made, whole=whole or made.whole)  # `tensor` keeps the device of a tensor, too
        if last in ("as_tensor", "asarray") and made.kind is Kind.UNKNOWN and dims.of_data(data) == dims.ANY:
            return NOT_KNOWN
        dim = 0 if last == "scalar_tensor" else dims.of_data(data)
        if dim == dims.ANY:
            dim = self._data_dim(data, frame)
        return Made(Kind.TENSOR, dim, whole)

    def _data_dim(self, data: ast.expr, frame: Frame) -> int:
        """The dimensions of data known by name: what the name, or a parameter's default, is bound to."""
        made = self.value(data, frame)
        if made.kind is Kind.TENSOR:
            return made.dim
        if not isinstance(data, ast.Name):
            return dims.ANY
        bindings = frame.names.bindings.get(data.id)
        if not bindings and not isinstance(frame.scope, ast.Module):
            return self._data_dim(data, self.frame(None, self.source.tree))
        if not bindings or len(bindings) != 1:
            return dims.ANY
        if bindings[0].value is not None and bindings[0].form == "single":
            return dims.of_data(bindings[0].value)
        if bindings[0].statement is None and not isinstance(frame.scope, ast.Module):
            default = default_of(frame.scope, data.id)
            if isinstance(default, (ast.List, ast.Tuple)):
                return dims.of_data(default)
            if sequence_annotation(frame.scope, data.id):
                return dims.SOME
            passed = [dims.of_data(value) for value in self._passed(data.id, frame)]
            return reduce(dims.either, passed) if passed else dims.ANY
        return dims.ANY

    def _like_a_plain_one(self, node: ast.Call, frame: Frame) -> bool:
        """`.to(other)`, `.to(other.device)`, `.type_as(other)`, where the other is a plain CPU tensor."""
        given = [*node.args, *(k.value for k in node.keywords if k.arg in ("device", "other"))][:1]
        return any(
            self.value(a.value if isinstance(a, ast.Attribute) and a.attr == "device" else a, frame).kind
            is Kind.TENSOR
            for a in given
        )

    def _default_device(self, node: ast.expr, frame: Frame) -> bool:
        """Is a `device=` that of things made a moment ago, or None: the default device?"""
        if self.value(node, frame).kind is Kind.NONE:
            return True
        if isinstance(node, ast.Name) and node.id in frame.arguments:
            return self._default_device(*frame.arguments[node.id])
        if isinstance(node, ast.Attribute) and node.attr == "device":
            if self.value(node.value, frame).kind is Kind.TENSOR:
                return True
        code = self.source.code(node)
        return code.startswith("self.") and code.endswith((".weight.device", ".bias.device"))
