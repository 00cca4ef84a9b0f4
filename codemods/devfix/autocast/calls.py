"""Calls that want a device type: autocast and GradScaler in every spelling, and what forwards to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from devfix.bindings import FunctionNode, function_around
from devfix.device_forms import DeviceForms, argument_of
from devfix.flow import torch_api
from devfix.flow.frame import path_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MORE = {"torch.GradScaler": "torch.amp.GradScaler"}
# Take a device type as their first argument, but switch nothing.
_ASKING = frozenset(
    {
        "torch.is_autocast_enabled",
        "torch.set_autocast_enabled",
        "torch.get_autocast_dtype",
        "torch.set_autocast_dtype",
        "torch.amp.is_autocast_available",
        "torch.amp.autocast_mode.is_autocast_available",
        "torch.amp.custom_fwd",
        "torch.amp.custom_bwd",
    }
)
# Parameters of torch.cuda.amp.autocast and torch.cpu.amp.autocast, in order.
_OLD_PARAMETERS = ("enabled", "dtype", "cache_enabled")
_NEW_PARAMETERS = ("device_type", "dtype", "enabled", "cache_enabled")


class Api(Enum):
    AUTOCAST = auto()  # torch.autocast(device_type, dtype, enabled, cache_enabled)
    CUDA_AUTOCAST = auto()  # torch.cuda.amp.autocast(enabled, dtype, cache_enabled): no device at all
    SCALER = auto()  # torch.amp.GradScaler(device)
    ASKING = auto()  # torch.get_autocast_dtype(device_type)
    WRAPPER = auto()  # something that hands its argument to torch.autocast


@dataclass(frozen=True, eq=False)
class AutocastCall:
    """One such call.

    `name` is what messages call it, `argument` the device type as written and None where there
    is none, `partial` says that the call is `partial(torch.autocast, ...)`, `decorated` is the
    function whose decorator it is.
    """

    node: ast.Call
    api: Api
    name: str
    argument: ast.expr | None
    enabled: ast.expr | None = None
    partial: bool = False
    decorated: FunctionNode | None = None


class AutocastCalls:
    """The autocast calls of one file."""

    def __init__(self, forms: DeviceForms) -> None:
        self._forms = forms
        self._source = forms.source
        self._slots: dict[FunctionNode, tuple[str, int]] = {}

    def find(self) -> list[AutocastCall]:
        """In the order of the text; wrappers of this file come with the calls of them."""
        nodes = list(self._source.calls)
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
        found = [call for call in map(self._direct, nodes) if call is not None]
        known = list(found)
        while known:  # a wrapper may be wrapped again
            known = [call for function in self._forwarding(known) for call in self._calls_of(function, found)]
            found += known
        return sorted(found, key=lambda call: (call.node.lineno, call.node.col_offset))

    # --- torch's own ---------------------------------------------------------------------

    def _name(self, node: ast.expr) -> str:
        """The qualified name of what is called; local aliases such as `ac = torch.autocast` are followed."""
        name = self._source.qualified(node)
        if name:
            return torch_api.AUTOCAST.get(name) or _MORE.get(name, name)
        path = path_of(node)
        if path:
            values = {
                b.value and self._source.qualified(b.value) for b in self._forms.bindings.of(path, node)
            }
            if len(values) == 1:
                name = values.pop() or ""
                return torch_api.AUTOCAST.get(name) or _MORE.get(name, "")
        return ""

    def _direct(self, node: ast.Call) -> AutocastCall | None:
        if isinstance(self._source.enclosing(node, ast.JoinedStr), ast.JoinedStr):
            return None  # positions inside of f-strings cannot be relied on
        name, arguments = self._name(node.func), node.args
        partial = name in ("functools.partial", "partial") and bool(arguments)
        if partial:
            name, arguments = self._name(node.args[0]), node.args[1:]
        api = _api(name)
        if api is None:
            return None if partial else self._foreign(node)
        call = ast.Call(node.func, arguments, node.keywords) if partial else node
        if api is Api.CUDA_AUTOCAST:
            argument, enabled = None, argument_of(call, "enabled", 0)
        elif api is Api.SCALER:
            argument, enabled = argument_of(call, "device", 0), argument_of(call, "enabled", 5)
        else:
            argument, enabled = argument_of(call, "device_type", 0), argument_of(call, "enabled", 2)
        return AutocastCall(node, api, name, argument, enabled, partial, self._decorated(node))

    def _decorated(self, node: ast.Call) -> FunctionNode | None:
        parent = self._source.parents.get(node)
        if isinstance(parent, _FUNCTIONS) and node in parent.decorator_list:
            return parent
        return None

    def _foreign(self, node: ast.Call) -> AutocastCall | None:
        """A wrapper from elsewhere: it is called something with autocast and has a `device_type=`."""
        path = path_of(node.func) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        name = path.rpartition(".")[2]
        if "autocast" not in name.lower() or self._forms.function_of(node) is not None:
            return None
        argument = argument_of(node, "device_type", -1)
        if argument is None:
            return None
        return AutocastCall(node, Api.WRAPPER, name, argument, argument_of(node, "enabled", -1))

    # --- wrappers of this file -----------------------------------------------------------

    def _forwarding(self, calls: list[AutocastCall]) -> Iterator[FunctionNode]:
        """Functions whose parameter is handed over as it is; they are entered into the slots."""
        for call in calls:
            function = function_around(self._source, call.node)
            if function is None or function in self._slots:
                continue
            slot = self._slot(call, function)
            if slot is not None:
                self._slots[function] = slot
                yield function

    def _slot(self, call: AutocastCall, function: FunctionNode) -> tuple[str, int] | None:
        plain = [*function.args.posonlyargs, *function.args.args]
        names = [argument.arg for argument in plain]
        skip = 1 if names[:1] in (["self"], ["cls"]) else 0
        if isinstance(call.argument, ast.Name):
            name = call.argument.id
            bindings = self._forms.bindings.within(function, name)
            # A parameter called `device` is put right inside the function instead.
            if len(bindings) == 1 and bindings[0].parameter and names_a_type(name):
                return name, names.index(name) - skip if name in names else -1
        elif call.argument is None and call.api is not Api.CUDA_AUTOCAST:
            rest = function.args.vararg
            starred = [a.value for a in call.node.args if isinstance(a, ast.Starred)]
            if rest is not None and any(isinstance(a, ast.Name) and a.id == rest.arg for a in starred):
                return "device_type", len(plain) - skip
            doubled = [k.value for k in call.node.keywords if k.arg is None]
            extra = function.args.kwarg
            if extra is not None and any(isinstance(a, ast.Name) and a.id == extra.arg for a in doubled):
                return "device_type", -1
        return None

    def _calls_of(self, function: FunctionNode, found: list[AutocastCall]) -> Iterator[AutocastCall]:
        owner = self._source.parents[function]
        name = (
            owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        )
        keyword, position = self._slots[function]
        have = {call.node for call in found}
        for node in self._forms.calls.get(name, ()):
            if node not in have and self._forms.function_of(node) is function:
                argument = argument_of(node, keyword, position)
                if argument is not None:
                    yield AutocastCall(node, Api.WRAPPER, name, argument)


def names_a_type(path: str) -> bool:
    """Does a name say of itself that it holds a device type, not a device?"""
    last = path.rpartition(".")[2].lower()
    return "type" in last or "autocast" in last or "amp" in last or "backend" in last


def _api(name: str) -> Api | None:
    if name in _ASKING:
        return Api.ASKING
    if name == "torch.cuda.amp.autocast":
        return Api.CUDA_AUTOCAST
    if name == "torch.amp.GradScaler":
        return Api.SCALER
    if name in torch_api.AUTOCAST and name.endswith("autocast") and not name.startswith("torch.cpu"):
        return Api.AUTOCAST
    return None


def keyword_arguments(call: ast.Call, api: Api) -> list[tuple[str, ast.expr]] | None:
    """All arguments by their keyword, for a call of torch's own; None where stars hide them."""
    names = _OLD_PARAMETERS if api is Api.CUDA_AUTOCAST else _NEW_PARAMETERS
    if len(call.args) > len(names) or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    found = list(zip(names, call.args, strict=False))
    return found + [(keyword.arg or "", keyword.value) for keyword in call.keywords]
