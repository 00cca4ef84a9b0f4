"""What calls in the methods of a module make of values, and where plain tensors meet others in them."""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace

from devfix.flow import torch_api
from devfix.registration import dims
from devfix.registration.classes import ModuleClass
from devfix.registration.making import Maker
from devfix.registration.running import Running
from devfix.registration.signatures import only_dtype, torch_name
from devfix.registration.stores import self_name
from devfix.registration.values import (
    DEVICE,
    LOOSE,
    MAKES,
    NUMBER,
    STRICT_METHODS,
    TENSOR_MEMBERS,
    UNKNOWN,
    Attribute,
    Is,
    Meet,
    Val,
)
from devfix.source import Source


class Calling(Running):
    """The part of `Meetings` that follows calls."""

    source: Source
    maker: Maker
    classes: dict[str, ModuleClass]
    moved: dict[Attribute, Meet]
    _needed: set[str]

    @abstractmethod
    def _own(self, owner: ModuleClass, name: str) -> Val:
        """What `self.<name>` is by now."""

    # --- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Val:
        source, function = self.source, node.func
        name = torch_name(source, function)
        args = [self._eval(argument) for argument in node.args]
        if isinstance(function, ast.Attribute) and not name:
            return self._method_call(node, function, args)
        values = [*args, *(self._eval(k.value) for k in node.keywords)]
        if name.startswith("torch."):
            return self._torch_call(node, name, values)
        if isinstance(function, ast.Name):
            callee = self._run.env.get(function.id)
            if callee is not None:
                if callee.kind is Is.MODULE:
                    return self._module_call(node, callee, args, values)
                return DEVICE if callee.kind is Is.DEVICE else UNKNOWN
            if function.id in self.maker.functions:
                return self._inline(None, self.maker.functions[function.id], node, args, 0)
            if function.id == "enumerate" and args:
                return Val(Is.UNKNOWN, items=(Val(Is.UNKNOWN, items=(NUMBER, self._element(args[0]))),))
            if function.id == "zip" and args:
                return Val(Is.UNKNOWN, items=(Val(Is.UNKNOWN, items=tuple(map(self._element, args))),))
            if function.id in ("len", "int", "float", "bool", "range", "str"):
                return NUMBER
        if isinstance(function, ast.Attribute):
            return UNKNOWN
        if isinstance(function, (ast.Call, ast.Subscript)):
            callee = self._eval(function)
            if callee.kind is Is.MODULE:
                return self._module_call(node, callee, args, values)
        if isinstance(function, ast.Name) and function.id == self_name(self._run.function):
            owner = self._run.owner
            forward = owner.method("forward") if owner is not None else None
            if forward is not None:
                return self._inline(forward[0], forward[1], node, args, 1)
        return UNKNOWN

    def _method_call(self, node: ast.Call, function: ast.Attribute, args: list[Val]) -> Val:
        owner, name = self._run.owner, function.attr
        values = [*args, *(self._eval(k.value) for k in node.keywords)]
        base_node = function.value
        if (
            owner is not None
            and isinstance(base_node, ast.Name)
            and base_node.id == self_name(self._run.function)
        ):
            found = owner.method(name)
            if found is not None:
                return self._inline(found[0], found[1], node, args, 1 if self_name(found[1]) else 0)
            callee = self._own(owner, name)
            if callee.kind is Is.MODULE:
                return self._module_call(node, callee, args, values)
            return UNKNOWN
        if isinstance(base_node, ast.Name) and base_node.id in self.classes:
            named = self.classes[base_node.id].method(name)  # `Tables.angles(x)`, a static method
            if named is not None and not self_name(named[1]):
                return self._inline(named[0], named[1], node, args, 0)
        base = self._eval(base_node)
        if base.kind is Is.MODULE:
            return UNKNOWN
        if base.kind is Is.GIVEN:
            return self._given_call(name, base)
        if base.kind not in (Is.DEVICE, Is.PLAIN):
            return UNKNOWN
        if name in torch_api.TO_HOST or name in torch_api.NOT_TENSOR:
            if name == "type":
                return base
            return NUMBER
        if name == "cpu":
            return UNKNOWN
        if base.kind is Is.PLAIN:
            if name in ("to", "cuda", "type_as"):
                if name == "to" and only_dtype(self.source, node):
                    return base
                for attribute in base.of:
                    self.moved.setdefault(attribute, Meet(node, self._run.function))
                return DEVICE
            if name in STRICT_METHODS:
                return self._meet(node, [base, *values])
            if name.startswith("new_"):
                return UNKNOWN
            return replace(base, dim=dims.after(name, base.dim, node, method=True))
        if name in STRICT_METHODS:
            return self._meet(node, [base, *values])
        return UNKNOWN if name in ("to", "type_as") and self._to_host(node, values) else DEVICE

    def _given_call(self, name: str, base: Val) -> Val:
        """A method of a parameter: a tensor's own ones keep the place."""
        if name in torch_api.TO_HOST or name in torch_api.NOT_TENSOR:
            return NUMBER
        return base if name in TENSOR_MEMBERS or name in STRICT_METHODS else UNKNOWN

    def _need(self, values: list[Val]) -> None:
        """A layer is run on values: if they come from one parameter, it is on the device."""
        for value in values[:1]:
            if value.kind is Is.GIVEN and len(value.given) == 1:
                self._needed |= value.given

    def _to_host(self, node: ast.Call, values: list[Val]) -> bool:
        """Is it moved to the CPU, or to where a plain attribute is?"""
        if any(value.kind is Is.PLAIN for value in values):
            return True
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(argument, ast.Constant) and argument.value == "cpu":
                return True
            if isinstance(argument, ast.Attribute) and argument.attr == "device":
                if self._eval(argument.value).kind is Is.PLAIN:
                    return True
        return False

    def _torch_call(self, node: ast.Call, name: str, values: list[Val]) -> Val:
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.") and last[:1].isupper():
            return Val(Is.MODULE, node=node)
        device = next((k.value for k in node.keywords if k.arg == "device"), None)
        if device is not None:
            given = self._eval(device)
            return (
                DEVICE if isinstance(given.node, ast.Attribute) and given.node.attr == "device" else UNKNOWN
            )
        if last.endswith("_like"):
            return values[0] if values else UNKNOWN
        functional = name.count(".") == 1 or name.startswith(
            ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.")
        )
        if not functional or name in torch_api.NOT_TENSOR_CALLS:
            return UNKNOWN
        if last in LOOSE:
            first = values[0] if values else UNKNOWN
            if last in MAKES:
                return UNKNOWN
            return first if first.kind in (Is.DEVICE, Is.PLAIN) else UNKNOWN
        made = self._meet(node, values)
        if made.kind is Is.PLAIN:
            return replace(made, dim=dims.after(last, made.dim, node, method=False))
        return made

    def _strict(self, module: Val) -> bool:
        """Is it a layer of torch with parameters, so that its inputs must be where they are?"""
        if not isinstance(module.node, ast.Call):
            return False
        name = self.source.qualified(module.node.func)
        return (
            name.startswith("torch.nn.")
            and name not in torch_api.BARE_MODULES
            and name not in torch_api.CONTAINERS
            and name not in torch_api.WEIGHTED_LOSSES
            and not name.endswith("Loss")
        )

    def _module_call(self, node: ast.Call, module: Val, args: list[Val], values: list[Val]) -> Val:
        if self._strict(module):
            self._need(args)
            self._meet(node, [*values, DEVICE])
            return DEVICE
        made = module.node
        if isinstance(made, ast.Call):
            name = self.source.qualified(made.func)
            if name in torch_api.BARE_MODULES or name in torch_api.WEIGHTED_LOSSES:
                return self._meet(node, values)
            info = self.classes.get(made.func.id) if isinstance(made.func, ast.Name) else None
            if info is not None:
                forward = info.method("forward")
                if forward is not None:
                    return self._inline(forward[0], forward[1], node, args, 1)
            elif not name.startswith("torch.nn.") or name in torch_api.CONTAINERS:
                self._need(args)
        return DEVICE if any(value.kind is Is.DEVICE for value in values) else UNKNOWN
