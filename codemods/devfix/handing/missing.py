"""Calls that leave out a device which their caller has, and what they could be given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.device_forms import DeviceForms
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.handing import reasons
from devfix.handing.takers import DEVICE, Taker, Takers, is_own_class
from devfix.loading.calls import is_none_at
from devfix.loading.devices import DevicesInScope

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Callees that are called the same and are many things, or whose device is an affair of other codemods.
_ANYTHING = re.compile(
    r"^(?:to|cuda|cpu|type|dict|partial|print|format|get|set|update|new_\w+|\w+_like|setattr|getattr|train|eval|"
    r"load|run|sample|zeros|ones|full|empty|rand\w*|arange|tensor|as_tensor|eye|linspace|Generator|autocast|"
    r"Tensor|jit|compile|synchronize|Stream|Event|__init__|__new__|add_argument|field|DataLoader|pipeline|"
    r"from_pretrained|Namespace|copy|replace|append|info|warning)$"
)


@dataclass(frozen=True)
class Missing:
    """A call without a device; `device`: what to hand on, `why`: how it is known to be wanted."""

    call: ast.Call
    parameter: str
    device: str
    why: str
    related: ast.AST
    note: str
    keyword: str = ""  # what the callee calls it, if not by the parameter's name


class Missed:
    """The calls of one file that leave out a device."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._source = flow.source
        self._takers = Takers(flow.source)
        self._made: DevicesInScope | None = None
        self._hosts = {scope.node for scope in flow.scopes if scope.host}

    @property
    def _bindings(self) -> Bindings:
        return self._flow.once(Bindings)

    def _at(self, call: ast.Call) -> str:
        """The device in scope at a call; empty where there is none, or it is None there."""
        if self._made is None:
            self._made = DevicesInScope(DeviceForms(self._flow))
        found = self._made.at(call)
        return "" if found and is_none_at(self._source, call, found) else found

    def find(self) -> Iterator[Missing]:
        """All of them, in the order of the text."""
        if not self._takers.found:
            return
        found: dict[ast.Call, Missing] = {}
        defined = self._takers.names
        for call in self._source.calls:
            path = path_of(call.func)
            last = path.rpartition(".")[2]
            function = self._takers.function_of(call) if not last or last in defined else None
            if function is None and "." in path and last in defined:
                function = self._of_object(call, path.rpartition(".")[0], last)
            taker = self._takers.found.get(function) if function is not None else None
            if function is None:
                one = self._same_name(call, last) if last in defined else None
            else:
                one = self._known(call, taker) if taker is not None and taker.left_out(call) else None
            if one is not None:
                found[call] = one
        for call in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
            inside = function_around(self._source, call)
            if inside not in self._hosts and not reasons.falls_back(self._source, call):
                yield found[call]

    # --- functions and classes of the file ------------------------------------------------

    def _of_object(self, call: ast.Call, path: str, name: str) -> FunctionNode | None:
        """`net.sample(..)` where `net = Net()` is all that `net` ever is."""
        owners = set[ast.AST | None]()
        for binding in self._bindings.of(path, call):
            made = self._takers.function_of(binding.value) if isinstance(binding.value, ast.Call) else None
            if made is None or made.name != "__init__":
                return None
            owners.add(self._source.enclosing(made, ast.ClassDef))
        owner = owners.pop() if len(owners) == 1 else None
        return self._takers.method(owner, name) if isinstance(owner, ast.ClassDef) else None

    def _known(self, call: ast.Call, taker: Taker) -> Missing | None:
        source, default = self._source, reasons.chosen(taker.default, self._source)
        if is_own_class(call.func) or self._in_own_class(call, taker):
            return self._rebuilt(call, taker)
        if "super()" in source.code(call.func):
            return None  # the class may well keep a device of its own
        if reasons.excused(source, call, taker, default):
            return None
        device = self._at(call)
        inside = function_around(source, call)
        if device and reasons.same_kind(taker.parameter, device):
            if inside is taker.function:
                return self._missing(call, taker, device, "unlike the call around it")
            literal = default.startswith(("cuda", "cpu"))
            none = default == "None" and not device.startswith("self.") and self._none_is_cpu(taker)
            if not literal and not none:
                return None
            same = frozenset({default, "cpu"})
            if default == "cpu" and device == "self.device" and path_of(call.func).startswith("self."):
                return None  # the class has a device, and its method says "cpu" all the same
            if reasons.is_literal(source, self._bindings, device, call, same):
                return None
            return self._missing(call, taker, device, _instead(default))
        return None

    def _none_is_cpu(self, taker: Taker) -> bool:
        """Does None mean the CPU to a function, without a look at what else it is given?"""
        function, name = taker.function, taker.parameter
        if function.name == "__init__" or reasons.settles_none(self._source, function, name):
            return False
        return reasons.needs(self._source, function, name)

    def _missing(self, call: ast.Call, taker: Taker, device: str, why: str) -> Missing:
        related = next(
            a for a in ast.walk(taker.function.args) if isinstance(a, ast.arg) and a.arg == taker.parameter
        )
        return Missing(call, taker.parameter, device, why, related, "the device that it takes")

    def _rebuilt(self, call: ast.Call, taker: Taker) -> Missing | None:
        """`self.__class__(..)` without the device that `__init__` keeps."""
        name, source = taker.parameter, self._source
        inside = function_around(source, call)
        if inside is None or [a.arg for a in inside.args.args[:1]] != ["self"]:
            return None
        if reasons.settles_none(source, taker.function, name):
            return None  # from what else it is given, which is there already
        for node in source.walk(taker.function):
            if isinstance(node, ast.Assign) and path_of(node.value) == name:
                kept = next((p for t in node.targets if (p := path_of(t)).startswith("self.")), "")
                if kept and inside is not taker.function:
                    return self._missing(call, taker, kept, "unlike the object that it is made from")
        return None

    def _in_own_class(self, call: ast.Call, taker: Taker) -> bool:
        """`Batch(..)` in a method of `Batch`"""
        owner = self._source.enclosing(call, ast.ClassDef)
        return taker.function.name == "__init__" and owner is not None and owner is taker.owner

    # --- callees out of sight --------------------------------------------------------------

    def _same_name(self, call: ast.Call, name: str) -> Missing | None:
        """`x.to_torch()` in `to_torch(x, device)`, which hands its device on elsewhere, or in its own class."""
        source = self._source
        function = function_around(source, call)
        if function is None or function.name != name or not isinstance(call.func, ast.Attribute):
            return None
        taker = self._takers.found.get(function)
        if taker is None or _ANYTHING.match(name) or not _bare(call) or source.qualified(call.func):
            return None
        path = path_of(call.func.value)
        # that a function calls itself with its device says nothing of what its object holds
        given = {a.arg for a in (*function.args.posonlyargs, *function.args.args)} - {"self", "cls"}
        sibling = next(
            (
                other
                for other in source.walk(function)
                if isinstance(other, ast.Call)
                and path_of(other.func).rpartition(".")[2] == name
                and (path in given or self._takers.function_of(other) is not function)
                and any(path_of(value) == taker.parameter for value in _values(other))
            ),
            None,
        )
        if sibling is None and not self._is_own(call, path, taker):
            return None
        if any(path_of(value) == taker.parameter for value in _values(call)):
            return None
        return self._missing(call, taker, taker.parameter, "unlike the call around it")

    def _is_own(self, call: ast.Call, path: str, taker: Taker) -> bool:
        """Is a call's object of the class itself: `isinstance(v, Batch)` in a method of `Batch`?"""
        node: ast.AST = call
        while taker.owner is not None and node in self._source.parents and not isinstance(node, _FUNCTIONS):
            child, node = node, self._source.parents[node]
            if isinstance(node, ast.If) and child in node.body:
                for part in ast.walk(node.test):
                    if (
                        isinstance(part, ast.Call)
                        and path_of(part.func) == "isinstance"
                        and len(part.args) == 2
                    ):
                        if path_of(part.args[0]) == path and path_of(part.args[1]) == taker.owner.name:
                            return True
        return False


def _bare(call: ast.Call) -> bool:
    """Does a call certainly say nothing of a device?"""
    if any(isinstance(value, ast.Starred) for value in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        return False
    return not any("device" in (k.arg or "") or DEVICE.match(k.arg or "") for k in call.keywords) and not any(
        re.search(r"device|\bdev\b|cuda|gpu", ast.unparse(value)) for value in _values(call)
    )


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _instead(default: str) -> str:
    where = "the CPU" if default in ("cpu", "None") else f'"{default}"'
    return f"so that it goes to {where}"
