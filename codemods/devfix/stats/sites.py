"""The placements of a file: every expression that decides where something lives."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.literal_guards import Told, guard_of
from devfix.engine.evidence import may_be_moved_to
from devfix.flow import Flow
from devfix.flow.values import Kind
from devfix.models import torch_api
from devfix.stats.kinds import How, Origin, Site
from devfix.stats.origins import Origins, is_data_type
from devfix.text.callees import argument_of
from devfix.text.names import path_of

_AUTOCAST = ("autocast", "GradScaler")
_SETTERS = frozenset(
    {"torch.cuda.set_device", "torch.set_default_device", "torch.accelerator.set_device_index"}
)
_LIKE = ("_like",)
_ASKED = {Told.AVAILABLE: Origin.AVAILABLE, Told.SAME: Origin.VALUE, Told.CHOSEN: Origin.ARGUMENT}
_CODE = 70  # characters of a placement that are shown


def sites_of(flow: Flow) -> Iterator[Site]:
    """The placements of a file, in no particular order."""
    finder = _Finder(flow)
    for node in flow.source.walk():
        if isinstance(node, ast.Call):
            for how, origin in finder.call(node):
                yield finder.site(node, how, origin)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if finder.is_environment(target):
                    yield finder.site(node, How.PROCESS, finder.origins.of(node.value, index=True))


class _Finder:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.origins = Origins(flow)

    def site(self, node: ast.expr | ast.stmt, how: How, origin: Origin) -> Site:
        code = " ".join(self.source.code(node).split())
        if origin is Origin.NAMED and isinstance(node, ast.expr):
            # Under a condition on devices, CUDA is named only where it was asked for.
            origin = _ASKED.get(guard_of(self.source, node).told, origin)
        return Site(node.lineno, how, origin, code if len(code) <= _CODE else code[: _CODE - 1] + "…")

    def is_environment(self, target: ast.expr) -> bool:
        return (
            isinstance(target, ast.Subscript)
            and self.source.qualified(target.value) == "os.environ"
            and isinstance(target.slice, ast.Constant)
            and target.slice.value == "CUDA_VISIBLE_DEVICES"
        )

    def call(self, node: ast.Call) -> Iterator[tuple[How, Origin]]:
        name = self.source.qualified(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name.rpartition(".")[2]
        device = next((one.value for one in node.keywords if one.arg == "device"), None)
        if name == "torch.device":
            return  # a device, and not yet a placement
        if name in torch_api.FACTORIES or name in torch_api.LEGACY:
            if device is not None:
                yield How.FACTORY, self.origins.of(device, index=True)
            elif not any(one.arg is None for one in node.keywords) and not _keeps(self.flow, node, name):
                yield How.BARE, Origin.DEFAULT
        elif name in torch_api.LEGACY_CUDA:
            yield How.CUDA, Origin.NAMED
        elif _is_like(name, last):
            yield How.LIKE, Origin.VALUE if device is None else self.origins.of(device, index=True)
        elif name in _SETTERS:
            if node.args:
                yield How.PROCESS, self.origins.of(node.args[0], index=True)
        elif last in _AUTOCAST and name.startswith("torch."):
            told = argument_of(node, "device_type" if last == "autocast" else "device", 0)
            if ".cuda." in name:
                yield How.AUTOCAST, Origin.NAMED
            elif told is not None:
                yield How.AUTOCAST, self.origins.of(told)
        elif name == "torch.load":
            told = argument_of(node, "map_location", 1)
            yield How.LOAD, Origin.DEFAULT if told is None else self.origins.of(told)
        elif isinstance(node.func, ast.Attribute) and not name:
            yield from self._method(node, node.func, device)
        elif device is not None:
            yield from self._passed(device)

    def _method(
        self, node: ast.Call, func: ast.Attribute, device: ast.expr | None
    ) -> Iterator[tuple[How, Origin]]:
        if func.attr == "cuda":
            told = node.args[0] if node.args else device
            yield How.CUDA, Origin.NAMED if told is None else _on_cuda(self.origins.of(told, index=True))
        elif func.attr == "cpu" and not node.args and not node.keywords:
            yield How.CPU, Origin.CPU
        elif func.attr == "to":
            told = device or (node.args[0] if node.args else None)
            if told is not None and (told is device or self._is_device(told)):
                yield How.TO, self.origins.of(told, index=True)
        elif device is not None:
            yield from self._passed(device)
        for one in node.keywords:
            if one.arg == "map_location":
                yield How.LOAD, self.origins.of(one.value)

    def _passed(self, device: ast.expr) -> Iterator[tuple[How, Origin]]:
        """`device=` of some other call; None says nothing."""
        if not (isinstance(device, ast.Constant) and device.value is None):
            yield How.PASSED, self.origins.of(device, index=True)

    def _is_device(self, node: ast.expr) -> bool:
        """Does `.to(node)` say where, rather than of which type?"""
        if is_data_type(self.source, node) or isinstance(node, ast.Starred):
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and node.value.partition(":")[0].isalpha()
        if may_be_moved_to(path_of(node).rpartition(".")[2]) or self.origins.of(node) is not Origin.UNKNOWN:
            return True
        return self.flow.value(node).kind in (Kind.DEVICE, Kind.TENSOR)


def _is_like(name: str, last: str) -> bool:
    if name:
        return name.startswith("torch.") and name.endswith(_LIKE)
    return last.startswith("new_") and last in torch_api.TENSOR_ONLY


def _keeps(flow: Flow, node: ast.Call, name: str) -> bool:
    """`torch.as_tensor(x)` of a tensor: where that is."""
    return name in torch_api.KEEP_DATA and bool(node.args) and flow.value(node.args[0]).kind is Kind.TENSOR


def _on_cuda(origin: Origin) -> Origin:
    """`x.cuda(rank)` is on CUDA, wherever the rank comes from."""
    return Origin.NAMED if origin in (Origin.DEFAULT, Origin.CPU, Origin.UNKNOWN) else origin
