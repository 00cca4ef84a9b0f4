"""`one-device`: things of one program that end up on different accelerators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.bindings import function_around
from devfix.codemod import Codemod, Example
from devfix.findings import DeleteStatement, Edit, Finding, InsertStatement, Related, Safety
from devfix.flow import Flow
from devfix.flow.events import Event, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Place
from devfix.placing import around, bound_before, follows, steady
from devfix.source import Source

_INDEXED = re.compile(r"cuda:(\d+)$")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# Calls after which the driver no longer looks at the environment.
_STARTS = frozenset(
    f"torch.cuda.{name}"
    for name in (
        "set_device", "current_device", "get_device_name", "get_device_properties", "synchronize", "init",
        "get_device_capability", "mem_get_info", "current_stream", "Stream",
    )
)  # fmt: skip
_PARALLEL = ("DataParallel",)
_DISTRIBUTED = ("DistributedDataParallel", "DDP")


@dataclass(frozen=True)
class OneDevice(Codemod):
    """What belongs together is on one accelerator.

    ## What it does
    Finds, where the numbers are in view: a module that is run on tensors on another GPU; a model that
    is wrapped in `DataParallel` but is not on the first of its `device_ids`; a process of a distributed
    program that uses `.cuda()` without `torch.cuda.set_device`, or before it; and
    `CUDA_VISIBLE_DEVICES` set after CUDA has started.

    ## Why is this bad?
    Tensors on `cuda:0` and `cuda:1` cannot be combined; `DataParallel` raises unless the model is on
    `device_ids[0]` (https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html); every process
    that never calls `torch.cuda.set_device` uses the first GPU; and CUDA reads its environment once.

    ## Fix safety
    Unsafe: which GPU was meant is for a person to say. Most findings come without a fix.
    """

    default: ClassVar[bool] = False
    id: ClassVar[str] = "one-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("cuda",), ("torch",))
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "The visible devices are set before CUDA starts",
            """\
import os

import torch

x = torch.ones(3)
if torch.cuda.is_available():
    x = x.cuda()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
print(x.sum().item())
""",
            """\
import os

import torch

x = torch.ones(3)
if torch.cuda.is_available():
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    x = x.cuda()
print(x.sum().item())
""",
            safety=Safety.UNSAFE,
        ),
        Example(
            "Trap: two GPUs on purpose",
            """\
import torch
from torch import nn

y = torch.ones(3, 4)
if torch.cuda.device_count() > 1:
    first, second = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
    y = second(first(y.to("cuda:0")).to("cuda:1"))
print(len(y))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        yield from self._meetings(flow)
        if "DataParallel" in flow.source.text:
            yield from self._wrapped(flow)
        if _VISIBLE in flow.source.text:
            yield from self._visible_late(flow)
        if "set_device" in flow.source.text:
            yield from self._set_late(flow)

    def _meetings(self, flow: Flow) -> Iterator[Finding]:
        """A module on one GPU is run on tensors on another."""
        source = flow.source
        for event in flow.events(What.USE):
            if event.detail != "called" or event.via or event.place is None or event.value.bare:
                continue
            if not isinstance(event.node, ast.Call) or event.value.form == "parallel":
                continue
            own = index_of(flow, event.place)
            if own is None:
                continue
            for argument in event.node.args:
                value = flow.value(argument)
                other = index_of(flow, value.place) if value.kind in (Kind.TENSOR, Kind.ANY) else None
                if other is not None and other != own:
                    yield self.finding(
                        source.span(argument),
                        f"`{source.code(argument)}` is on `cuda:{other}`, "
                        f"but `{event.path}` is on `cuda:{own}`",
                        related=_moved_at(source, event, f"`{event.path}` gets its device here"),
                    )
                    break

    def _wrapped(self, flow: Flow) -> Iterator[Finding]:
        """`DataParallel(model, device_ids=[1, 0])` of a model on `cuda:0`; DDP of one on the default GPU."""
        source = flow.source
        for event in flow.events(What.WRAP):
            call = event.node
            last = event.detail.rpartition(".")[2]
            if not isinstance(call, ast.Call) or event.via or not call.args:
                continue
            ids = next((k.value for k in call.keywords if k.arg == "device_ids"), None)
            if not isinstance(ids, (ast.List, ast.Tuple)) or not ids.elts:
                continue
            place = flow.value(call).place
            first, own = ids.elts[0], index_of(flow, place)
            if last in _PARALLEL and isinstance(first, ast.Constant) and isinstance(first.value, int):
                if own is not None and own != first.value and not place.guarded:
                    yield self.finding(
                        source.span(first),
                        f"`{event.path}` is on `cuda:{own}`, but `DataParallel` wants it on the first of its "
                        f"`device_ids`, `cuda:{first.value}`",
                    )
            elif last in _DISTRIBUTED:
                yield from self._without_set_device(flow, event, call, first, place)

    def _without_set_device(
        self, flow: Flow, event: Event, call: ast.Call, first: ast.expr, place: Place
    ) -> Iterator[Finding]:
        """`model.cuda()` of a DDP process that never says which GPU is its own."""
        source = flow.source
        if any(word in source.text for word in ("set_device", "torch.cuda.device(", _VISIBLE, "spawn_dist")):
            return
        move = place.node
        if not isinstance(move, ast.Call) or not isinstance(move.func, ast.Attribute) or place.guarded:
            return
        indexless = (move.func.attr == "cuda" and not move.args and not move.keywords) or (
            move.func.attr == "to" and [ast.unparse(a) for a in move.args] == ["'cuda'"]
        )
        path = path_of(first)
        if not indexless or not re.search("rank|gpu", path, re.IGNORECASE):
            return
        if function_around(source, move) is not function_around(source, call):
            return
        statement = source.statement(move)
        edits: tuple[Edit, ...] = ()
        if bound_before(source, first, statement) and "torch" in source.imports:
            edits = (InsertStatement(source.span(statement), f"torch.cuda.set_device({path})", before=True),)
        yield self.finding(
            source.span(move),
            f"every process puts `{event.path}` on the first GPU: "
            f"nothing sets the device of process `{path}`",
            title=f"call `torch.cuda.set_device({path})` first" if edits else "",
            edits=edits,
            safety=Safety.UNSAFE,
            related=(Related(source.span(first), f"`{path}` is the GPU of this process"),),
        )

    def _visible_late(self, flow: Flow) -> Iterator[Finding]:
        source = flow.source
        for statement in source.walk():
            if not isinstance(statement, ast.Assign) or not _sets_visible(source, statement):
                continue
            start = next(_started_before(flow, statement), None)
            if start is None:
                continue
            anchor = source.statement(start)
            edits: tuple[Edit, ...] = ()
            if source.block(anchor) is source.block(statement) and _movable(source, statement, anchor):
                span = source.span(statement)
                text = source.text[span.start : span.end]
                if "\n" not in text:
                    edits = (InsertStatement(source.span(anchor), text, before=True), DeleteStatement(span))
            yield self.finding(
                source.span(statement),
                f"`{_VISIBLE}` is set after `{source.code(start)[:60]}` has started CUDA, "
                "which reads it once",
                title="set it before CUDA starts" if edits else "",
                edits=edits,
                safety=Safety.UNSAFE,
                related=(Related(source.span(start), "CUDA starts here"),),
            )

    def _set_late(self, flow: Flow) -> Iterator[Finding]:
        """`torch.cuda.set_device(rank)` below `.cuda()`: what came first is on the first GPU."""
        source = flow.source
        for call in source.calls:
            if source.qualified(call.func) != "torch.cuda.set_device" or not call.args:
                continue
            function = function_around(source, call)
            if function is None or isinstance(call.args[0], ast.Constant):
                continue
            for event in flow.events(What.MOVE):
                move = event.node
                if event.scope.node is not function or event.via or not isinstance(move, ast.Call):
                    continue
                func = move.func
                if not isinstance(func, ast.Attribute) or func.attr != "cuda" or move.args or move.keywords:
                    continue
                above = source.block(source.statement(call))
                if source.statement(move) in above and _is_above(source, move, call):
                    yield self.finding(
                        source.span(call),
                        f"`{source.code(move)}` stands above `{source.code(call)}`, "
                        "so it is on the first GPU in every process",
                        related=(Related(source.span(move), "moved here already"),),
                    )
                    break


def index_of(flow: Flow, place: Place) -> int | None:
    """The number of the GPU that a place certainly is: moved to `"cuda:1"`, or to a name for it."""
    move = place.node
    if not isinstance(move, ast.Call) or place.guarded or not place.on_device:
        return None
    if not isinstance(move.func, ast.Attribute) or move.func.attr not in ("to", "cuda"):
        return None
    given = [*move.args[:1], *[k.value for k in move.keywords if k.arg == "device"]]
    if not given:
        return None
    device = given[0]
    if (
        isinstance(device, ast.Constant)
        and isinstance(device.value, int)
        and not isinstance(device.value, bool)
    ):
        return device.value
    text = flow.value(device).text
    if isinstance(device, ast.Constant) and isinstance(device.value, str):
        text = device.value
    found = _INDEXED.match(text)
    return int(found.group(1)) if found else None


def _moved_at(source: Source, event: Event, message: str) -> tuple[Related, ...]:
    node = event.place.node if event.place is not None else None
    return (Related(source.span(node), message),) if isinstance(node, ast.expr) else ()


def _sets_visible(source: Source, statement: ast.Assign) -> bool:
    target = statement.targets[0]
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == _VISIBLE
        and source.qualified(target.value) == "os.environ"
    )


def _started_before(flow: Flow, statement: ast.stmt) -> Iterator[ast.Call]:
    """Calls in the same scope that have started CUDA when a statement runs, in order."""
    source = flow.source
    scope = function_around(source, statement)
    found: list[ast.Call] = []
    for call in source.calls:
        if not _is_above(source, call, statement) or function_around(source, call) is not scope:
            continue
        if any(
            isinstance(up, (ast.FunctionDef, ast.ClassDef, ast.Lambda)) for up in _up(source, call, scope)
        ):
            continue
        func = call.func
        starts = source.qualified(func) in _STARTS
        if isinstance(func, ast.Attribute) and func.attr == "cuda" and not starts:
            starts = flow.value(call).kind in (Kind.TENSOR, Kind.MODULE)
        if starts and _on_the_way(source, call, statement) and follows(source, call, statement):
            found.append(call)
    yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _on_the_way(source: Source, call: ast.Call, statement: ast.stmt) -> bool:
    """Does everything around a call also enclose the statement: is the call always made before it?"""
    outer = set(around(source, statement)) | {source.statement(call)}
    return all(one in outer for one in around(source, call))


def _up(source: Source, node: ast.AST, scope: ast.AST | None) -> Iterator[ast.AST]:
    up = source.parents.get(node)
    while up is not None and up is not scope:
        yield up
        up = source.parents.get(up)


def _is_above(source: Source, node: ast.AST, other: ast.AST) -> bool:
    return source.span(node).end <= source.span(other).start


def _movable(source: Source, statement: ast.Assign, anchor: ast.stmt) -> bool:
    """May an assignment stand above `anchor`: is all that it needs bound there?"""
    return steady(source, statement.value) and bound_before(source, statement.value, anchor)
