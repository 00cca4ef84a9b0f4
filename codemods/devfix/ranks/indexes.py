"""GPUs by number: what is on which, and where two of them meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import AppendCall, Edit, Related, ReplaceExpression
from devfix.flow import Flow
from devfix.flow.events import Event, What
from devfix.flow.lattice import Kind, Place
from devfix.remarks import Remark

_INDEXED = re.compile(r"cuda:(\d+)$")
# Two numbers in one file, or a number and none.
# (Several plain patterns: each is found faster than one for all of them.)
_NUMBERS = (
    re.compile(r"cuda:(\d+)"),
    re.compile(r"\.cuda\((\d+)\)"),
    re.compile(r"device\s*=\s*(\d+)\s*[,)]"),
    re.compile(r"\.to\((\d+)\s*[,)]"),
)
_PLAIN = re.compile(r"\.cuda\(\)|[\"']cuda[\"']")
# Says which GPU is meant by "cuda" without a number.
_CURRENT = ("set_device(", "cuda.device(", "CUDA_VISIBLE_DEVICES", "device_of(")
_MANY = 8  # operands of one call that are looked at


@dataclass(frozen=True)
class Gpu:
    """The GPU that a value is on: its number, or None for the current one."""

    index: int | None

    @property
    def name(self) -> str:
        return "cuda" if self.index is None else f"cuda:{self.index}"


def meetings(flow: Flow) -> Iterator[Remark]:
    """Modules and tensors on different GPUs that come together."""
    text = flow.source.text
    numbers = {number for pattern in _NUMBERS for number in pattern.findall(text)}
    current = any(sign in text for sign in _CURRENT)
    if len(numbers) < 2 and (current or numbers <= {"0"} or not _PLAIN.search(text)):
        return
    known = _Gpus(flow, current)
    yield from _modules(known)
    yield from _operands(known)


class _Gpus:
    """Where the values of one file are; without a number only if nothing sets the current GPU."""

    def __init__(self, flow: Flow, current: bool) -> None:
        self.flow = flow
        self.current = current

    def of(self, place: Place) -> Gpu | None:
        found = gpu_of(self.flow, place)
        return None if found is None or (found.index is None and self.current) else found

    def of_value(self, node: ast.expr) -> Gpu | None:
        value = self.flow.value(node)
        return self.of(value.place) if value.kind in (Kind.TENSOR, Kind.ANY) else None


def _apart(one: Gpu | None, other: Gpu | None) -> bool:
    """Are two GPUs certainly different? Without a number it is the first, unless something sets it."""
    if one is None or other is None:
        return False
    return (one.index or 0) != (other.index or 0)


def _modules(known: _Gpus) -> Iterator[Remark]:
    """A module on one GPU is run on tensors on another."""
    flow, source = known.flow, known.flow.source
    for event in flow.events(What.USE):
        if event.detail != "called" or event.via or event.place is None or event.value.bare:
            continue
        if not isinstance(event.node, ast.Call) or event.value.form == "parallel":
            continue
        own = known.of(event.place)
        if own is None:
            continue
        for argument in event.node.args:
            other = known.of_value(argument)
            if other is not None and _apart(own, other):
                yield Remark(
                    source.span(argument),
                    f"`{source.code(argument)}` is on `{other.name}`, but `{event.path}` is on `{own.name}`",
                    f"move it to `{own.name}`",
                    (_moved(flow, argument, own),),
                    related=_moved_at(flow, event, f"`{event.path}` gets its device here"),
                )
                break


def _operands(known: _Gpus) -> Iterator[Remark]:
    """Tensors on two GPUs are combined."""
    flow, source = known.flow, known.flow.source
    for node in source.walk():
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.Call) and source.qualified(node.func).startswith("torch."):
            if flow.value(node).kind is Kind.TENSOR and not source.qualified(node.func).startswith(
                "torch.cuda"
            ):
                operands = list(node.args[:_MANY])
                if operands and isinstance(operands[0], (ast.List, ast.Tuple)):
                    operands[:1] = operands[0].elts[:_MANY]
        placed = [(one, gpu) for one in operands if (gpu := known.of_value(one)) is not None]
        for one, gpu in placed[1:]:
            first, own = placed[0]
            if not _apart(own, gpu):
                continue
            yield Remark(
                source.span(one),
                f"`{source.code(one)}` is on `{gpu.name}`, but is combined with `{source.code(first)}` on `{own.name}`",
                f"move it to `{own.name}`",
                (_moved(flow, one, own),),
            )
            break


def _moved(flow: Flow, node: ast.expr, gpu: Gpu) -> Edit:
    """A value on another GPU: where it is moved right there, by the other number."""
    source = flow.source
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        told = node.args[0]
        if node.func.attr in ("to", "cuda") and isinstance(told, ast.Constant):
            number = isinstance(told.value, int) and gpu.index is not None
            return ReplaceExpression(source.span(told), str(gpu.index) if number else f'"{gpu.name}"')
    return AppendCall(source.span(node), f'.to("{gpu.name}")')


def gpu_of(flow: Flow, place: Place) -> Gpu | None:
    """The GPU that a place certainly is: moved to `"cuda:1"` or to a name for it, or made there."""
    node = place.node
    if not isinstance(node, ast.Call) or place.guarded or not place.on_device:
        return None
    told = [k.value for k in node.keywords if k.arg == "device"]
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        given = [*node.args[:1], *told]
        if not given and node.func.attr == "cuda":
            return Gpu(None)
    else:
        given = told
    return _gpu(flow, given[0]) if given else None


def _gpu(flow: Flow, device: ast.expr) -> Gpu | None:
    if isinstance(device, ast.Constant):
        if isinstance(device.value, int) and not isinstance(device.value, bool):
            return Gpu(device.value)
        text = device.value if isinstance(device.value, str) else ""
    else:
        text = flow.value(device).text
    if text == "cuda":
        return Gpu(None)
    found = _INDEXED.match(text)
    return Gpu(int(found.group(1))) if found else None


def _moved_at(flow: Flow, event: Event, message: str) -> tuple[Related, ...]:
    node = event.place.node if event.place is not None else None
    return (Related(flow.source.span(node), message),) if isinstance(node, ast.expr) else ()
