"""Frameworks that own placement, as `frameworks.py` lists them, applied to calls."""

from __future__ import annotations

import ast

from devfix.flow import frameworks
from devfix.flow.events import What
from devfix.flow.frame import Arguments, path_of
from devfix.flow.lattice import (
    OWNED,
    UNKNOWN,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
    replace,
)
from devfix.flow.torch_calls import TorchCalls


class Owners(TorchCalls):
    """`accelerator.prepare(...)`, `deepspeed.initialize(...)`, `Trainer(model=...)` and their like."""

    def _owning_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value | None:
        """A call of a framework's function or class; None where it is no business of a framework."""
        if name in frameworks.DEVICE_CALLS:
            place = Place(Where.SYMBOL, self.source.code(node), fresh_identity(), node)
            return Value(Kind.DEVICE, place, node=node, form="object")
        if name in frameworks.OWNING_LOADERS:
            return Value(Kind.LOADER, OWNED, node=node, source="a device loader")
        if name in frameworks.ENGINES:
            return self._engine(node, arguments)
        if frameworks.owns_models(name):
            for argument, value, _ in arguments:
                self._take_over(argument, value, OWNED, always=name in frameworks.OWNING_CALLS)
            if name in frameworks.OWNING_CALLS and arguments and arguments[0][1].kind is Kind.MODULE:
                given = arguments[0][1]
                return replace(given, place=self.state.place(given))
            return Value(Kind.OWNER, node=node, name=name) if name in frameworks.OWNERS else UNKNOWN
        if name in frameworks.OWNERS:
            return Value(
                Kind.OWNER,
                node=node,
                name="" if self._switched_off(name, node) else name,
                form="parallel" if self._scatters(node) else "",
            )
        return None

    def _owner_method(self, node: ast.Call, func: ast.Attribute, base: Value, arguments: Arguments) -> Value:
        """A method of a framework's object, and what it returns."""
        owner, method = frameworks.OWNERS.get(base.name), func.attr
        if owner is None:
            return UNKNOWN
        if method in owner.gives:
            return Value(Kind.LOADER, OWNED, node=node, source=f"`{method}`", sure=False)
        if method in owner.takes:
            for argument, value, _ in arguments:
                self._take_over(argument, value, OWNED, always=True)
            return UNKNOWN
        if method not in owner.places:
            return UNKNOWN
        if self._switched_off(base.name, node):
            return arguments[0][1] if len(arguments) == 1 else UNKNOWN
        place = self._owner_place(node, func.value)
        # DistributedDataParallel moves what its forward is given.
        model_place = OWNED if base.form == "parallel" else place
        given = [(argument, value) for argument, value, _ in arguments if argument in node.args]
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            for argument, value in given:
                for part in value.items or (value,):
                    self._take_over(argument, part, model_place)
            return UNKNOWN
        owned = []
        for argument, value in given:
            self._take_over(argument, value, model_place)
            at = model_place if value.kind is Kind.MODULE else place
            owned.append(
                UNKNOWN
                if value.kind is Kind.UNKNOWN
                else replace(value.at(at), identity=fresh_identity(), sure=False, parameter=-1)
            )
        return owned[0] if len(owned) == 1 else Value(Kind.ARRAY, items=tuple(owned))

    def _owner_place(self, node: ast.Call, owner: ast.expr) -> Place:
        """The device of a framework's object, `accelerator.device`."""
        path = path_of(owner)
        if not path:
            return OWNED
        path = f"{path}.device"
        device = self.state.names.get(path)
        if device is None or device.kind is not Kind.DEVICE:
            device = Value(
                Kind.DEVICE,
                Place(Where.SYMBOL, path, fresh_identity(), node),
                node=node,
                form="object",
                sure=False,
            )
            self.state.put(path, device)
        return replace(device.place, node=node)

    def _take_over(self, argument: ast.expr, value: Value, place: Place, always: bool = False) -> None:
        """A module is handed to a framework, which moves it in place."""
        if value.kind not in (Kind.MODULE, Kind.PART):
            return
        self.emit(What.READ, argument, value, path_of(argument), detail="owned")
        if value.kind is Kind.MODULE and (always or not self.state.place(value).on_device):
            self.state.places[value.identity] = place

    def _engine(self, node: ast.Call, arguments: Arguments) -> Value:
        """`engine, optimizer, loader, scheduler = deepspeed.initialize(model=model, ...)`."""
        model = next((value for _, value, keyword in arguments if keyword in ("", "model")), UNKNOWN)
        place = Place(Where.SYMBOL, "", fresh_identity(), node)
        for argument, value, _ in arguments:
            self._take_over(argument, value, place)
        engine = Value(Kind.MODULE, place, fresh_identity(), node, model.name, sure=False)
        loader = Value(
            Kind.LOADER, self.program.default_place(node), node=node, source="the engine's loader", sure=False
        )
        return Value(Kind.ARRAY, items=(engine, Value(Kind.OPTIMIZER, node=node), loader, UNKNOWN))

    def _scatters(self, node: ast.Call) -> bool:
        """`Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(...)])`: meant for several devices."""
        return "DistributedDataParallelKwargs" in self.source.text and any(
            keyword.arg == "kwargs_handlers" for keyword in node.keywords
        )

    def _switched_off(self, name: str, node: ast.Call) -> bool:
        owner = frameworks.OWNERS[name]
        return any(
            keyword.arg == owner.switch
            and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is True)
            for keyword in node.keywords
            if owner.switch
        )
