"""What every part of the interpreter shares: the state, events, and devices as values."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from devfix.flow import frameworks, torch_api
from devfix.flow.events import Event, Scope, What
from devfix.flow.lattice import (
    OWNED,
    UNPLACED,
    Kind,
    Named,
    Place,
    State,
    Value,
    Where,
    replace,
)
from devfix.source import Source

if TYPE_CHECKING:
    from devfix.flow.program import Program

# Of a call: each argument with its value and its keyword, "" where it is positional, "**" unpacked.
Arguments = list[tuple[ast.expr, Value, str]]


def path_of(node: ast.AST) -> str:
    """`model`, `self.model.head`, `batch["x"]`, `layers[0]`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        value = node.value
        if isinstance(value, ast.Name):  # by far the most common
            return f"{value.id}.{node.attr}"
    elif not isinstance(node, ast.Subscript):
        return ""
    tail: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            tail.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            index = node.slice
            if not isinstance(index, ast.Constant) or not isinstance(index.value, (str, int)):
                return ""
            tail.append(f"[{index.value!r}]")
            node = node.value
        elif isinstance(node, ast.Name):
            tail.append(node.id)
            return "".join(reversed(tail))
        else:
            return ""


class Frame(ABC):
    """One scope under interpretation; the classes above it add statements, expressions and calls."""

    program: Program
    source: Source
    scope: Scope
    state: State
    statement: ast.stmt
    values: dict[ast.expr, Value]
    yields: list[Value]

    @abstractmethod
    def ev(self, node: ast.expr) -> Value:
        """The value of an expression at this point."""

    @abstractmethod
    def element(self, value: Value) -> Value:
        """What iterating over a value gives, or unpacking it."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        """Bind a target to a value, made by `node`."""

    @abstractmethod
    def _call_value(self, node: ast.Call, callee: Value, arguments: Arguments, name: str) -> Value:
        """Call something that is known."""

    @abstractmethod
    def _call_unknown(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        """Call something out of sight."""

    @abstractmethod
    def _call_function(
        self, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None = None
    ) -> Value:
        """Call a function of this file."""

    @abstractmethod
    def _construct(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        """Make an instance of a class of this file."""

    def held(self, wrap: Value) -> Value | None:
        """`DataParallel(net).module`: the net, where it was moved before it was wrapped."""
        return wrap.held if wrap.held is not None and self.state.place(wrap.held).on_device else None

    # --- events --------------------------------------------------------------------------

    def emit(self, what: What, node: ast.expr, value: Value, path: str = "", **more: Any) -> Event:
        event = Event(what, node, self.statement, self.scope, value, path, **more)
        event.order = len(self.scope.events)
        self.scope.events.append(event)
        return event

    def devices(self) -> tuple[Named, ...]:
        """The device expressions that may be written here."""
        return self.state.devices()

    def as_device(self, value: Value) -> Value | None:
        """A value read as a device: strings that name one included; None if it is none."""
        if value.kind is Kind.DEVICE:
            return value
        if value.kind is Kind.STRING and value.text:
            literal = torch_api.device_literal(value.text)
            if literal:
                where = Where.CPU if literal == "cpu" else Where.ACCELERATOR
                place = Place(where, f'"{value.text}"', 0, value.node)
                return Value(Kind.DEVICE, place, node=value.node, form="string", text=value.text)
        return None

    def device_of(self, node: ast.expr, base: Value) -> Value:
        """`x.device`: a torch.device, wherever x is."""
        place = self.state.place(base)
        text = self.source.code(node)
        if place.on_device:
            found = replace(place, text=text)
        else:
            where = place.where if place.where is Where.CPU else Where.OF
            found = Place(where, text, base.identity or id(base), node)
        form = "object" if base.sure or base.kind is Kind.TENSOR else ""
        return Value(Kind.DEVICE, found, node=node, form=form)

    def device_argument(self, call: ast.Call) -> Place | None:
        """Where a constructor is told to put what it makes: `device=` or an argument that is a device."""
        for keyword in call.keywords:
            if keyword.arg in ("device", "device_id", "rank", "map_location"):
                value = self.values.get(keyword.value) or self.ev(keyword.value)
                device = self.as_device(value)
                if device is not None:
                    return self._target(device, keyword.value, call)
                if isinstance(keyword.value, ast.Constant) and keyword.value.value is None:
                    return None
                return UNPLACED
            if keyword.arg in frameworks.OWNING_ARGUMENTS:
                return OWNED
        for argument in call.args:
            known = self.values.get(argument)
            if known is not None and known.kind is Kind.DEVICE:
                return self._target(known, argument, call)
        return None

    def _target(self, device: Value, node: ast.expr, call: ast.Call) -> Place:
        """The place that a move to `device`, written as `node`, ends in."""
        place = device.place
        if place.where is Where.UNKNOWN:
            return Place(Where.SYMBOL, self.source.code(node), 0, call)
        if place.where is Where.OF:
            return replace(place, text=self.source.code(node), node=call)
        return Place(place.where, self.source.code(node), place.key, call)

    def callee_name(self, func: ast.expr) -> str:
        """Qualified name of what is called, where imports tell; else the name as written."""
        if isinstance(func, ast.Name):
            path = root = func.id
        else:
            path = path_of(func)
            root = path.partition(".")[0].partition("[")[0]
        imported = self.source.imports.get(root)
        if imported is None or root in self.state.names:
            return path
        return imported if path is root else self.source.qualified(func) or path

    def _imported(self, func: ast.expr) -> bool:
        node = func
        while isinstance(node, ast.Attribute):
            node = node.value
        return (
            isinstance(node, ast.Name) and node.id in self.source.imports and node.id not in self.state.names
        )

    def _arguments(self, node: ast.Call) -> Arguments:
        found = [(argument, self.ev(argument), "") for argument in node.args]
        found += [(k.value, self.ev(k.value), k.arg or "**") for k in node.keywords]
        return found

    def _device_keyword(self, node: ast.Call, arguments: Arguments) -> Place | None:
        for argument, value, keyword in arguments:
            if keyword == "device":
                if isinstance(argument, ast.Constant) and argument.value is None:
                    return None
                device = self.as_device(value)
                return UNPLACED if device is None else self._target(device, argument, node)
            if keyword == "**":
                return UNPLACED
        return None


def on_the_host(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.Constant]:
    """Parameters that default to None or "cpu": left out, they are on no device of the caller's."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[::-1], arguments.defaults[::-1], strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    return {a.arg: d for a, d in pairs if isinstance(d, ast.Constant) and d.value in (None, "cpu")}
