"""`register-buffer`: plain tensors that a module needs on its device become buffers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod, Example
from devfix.engine.stores import Kept, kept_by, only_building
from devfix.engine.values import STORE, Link
from devfix.findings import Finding, Related, Safety
from devfix.flow import Flow
from devfix.repair.buffers import as_buffer, is_plain

_MOVES = (".to", ".cuda", ".type_as")


@dataclass(frozen=True)
class RegisterBuffer(Codemod):
    """Register the tensors that a module needs on its device as buffers.

    ## What it does
    Finds attributes of an `nn.Module` that `__init__` fills with a plain CPU tensor and that are combined
    with inputs, parameters or outputs of layers in `forward`, in what `forward` calls, or in other methods
    that run layers on their arguments. The tensor may be a factory's, a position table, a mask or a kernel,
    and come through functions of the file, `cat` and `stack`, tuple targets, branches and methods that
    `__init__` calls. The first assignment on each path becomes
    `self.register_buffer(name, value, persistent=False)`; later writes and assignments stay.

    ## Why is this bad?
    `Module.to` moves parameters and buffers. A tensor that is a plain attribute stays on the CPU, and
    `forward` raises "Expected all tensors to be on the same device"
    (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer).

    ## Fix safety
    Safe where devfix sees that the class derives from `nn.Module`: the buffer is not persistent, so state
    dicts and checkpoints stay as they are, and on the CPU nothing changes. Unsafe where

    - the tensor comes in as an argument or has two names (each then moves a copy of its own);
    - methods assign it again (DistributedDataParallel synchronises buffers);
    - a base class is out of sight, or nothing in the project that uses the class moves anything;
    - it is a floating-point tensor in a file that mentions `.half()`, `.double()` or their dtypes, since
      those casts change buffers too;
    - the program names no device anywhere.

    There is no fix where `super().__init__()` comes later or is out of sight. Tensors in lists and dicts, whose
    elements would need names of their own, are moved where they are used. There is no finding for tensors that
    are moved where they are used, have no dimensions (those may be combined across devices), only index other
    tensors, are trained, may be assigned again before use or from outside the class, or are given a device,
    nor in classes whose own `_apply`, `to` or `cuda` names them, or does not call that of the base.

    ## Options
    - `moved_at_use` (default false): also register tensors that are moved at their uses,
      `x + self.table.to(x.device)`, which works but copies on every call. The move stays: it is
      free once the tensor is there.
    """

    moved_at_use: bool = False

    id = "register-buffer"
    words = (("torch",), ("def forward", "Module"), ("__init__",))
    examples = (
        Example.changed(
            "A position table that is filled after it is made",
            """\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        steps = torch.arange(length).unsqueeze(1)
        self.table = torch.zeros(length, width)
        self.table[:, 0::2] = torch.sin(steps / 10)
        self.table[:, 1::2] = torch.cos(steps / 10)

    def forward(self, x):
        return x + self.table[: x.size(1)]


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Positions(4, 16).to(device)
print(round(model(torch.ones(2, 3, 4, device=device)).sum().item(), 4))
""",
            (
                "        self.table = torch.zeros(length, width)\n",
                '        self.register_buffer("table", torch.zeros(length, width), persistent=False)\n',
            ),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
            "Two tables in one statement, passed to a function",
            """\
import torch
from torch import nn


def tables(length, width):
    angles = torch.outer(torch.arange(length), 1.0 / torch.arange(1, width + 1))
    return torch.cos(angles), torch.sin(angles)


def rotate(x, cos, sin):
    return x * cos + x.flip(-1) * sin


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.cos, self.sin = tables(8, width)

    def forward(self, x):
        return rotate(self.query(x), self.cos, self.sin)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Attention(4).to(device)
print(round(model(torch.ones(2, 8, 4, device=device)).sum().item(), 4))
""",
            (
                "        self.cos, self.sin = tables(8, width)\n",
                '        cos, sin = tables(8, width)\n        self.register_buffer("cos", cos, persistent=False)\n'
                '        self.register_buffer("sin", sin, persistent=False)\n',
            ),
            raises="same device|Expected all tensors",
        ),
        Example(
            "Trap: moved at its use, without dimensions, or only an index",
            """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.shift = torch.arange(4.0)
        self.scale = torch.tensor(0.5)
        self.order = torch.tensor([3, 1, 0, 2])

    def forward(self, x):
        return (self.layer(x) * self.scale + self.shift.to(x.device))[:, self.order]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Head().to(device)
print(round(model(torch.ones(2, 4, device=device)).sum().item(), 4))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        """Those that are moved where they are used; `checkers/mismatches.py` finds the others."""
        if not self.moved_at_use:
            return
        analysis, source = flow.facts(), flow.source
        for owner in analysis.file.all_classes:
            if not analysis.classes.is_module(owner):
                continue
            state, cell = analysis.classes.state(owner), analysis.classes.cell(owner)
            for name, kept in kept_by(source, owner.node).items():
                use = _moved(flow, kept, only_building(owner))
                if use is None or not is_plain(state.attribute(cell, name)):
                    continue
                edits = as_buffer(Link(STORE, analysis.file, kept.stores[0].target, name), analysis)
                if edits:
                    yield self.finding(
                        source.span(kept.stores[0].statement),
                        f"`{name}` stays on the CPU when the module is moved, and is copied on every call",
                        title="register it as a buffer",
                        edits=edits,
                        safety=Safety.UNSAFE,
                        related=(Related(source.span(use), "it is moved here"),),
                        assumes="it should move with the module",
                    )


def _moved(flow: Flow, kept: Kept, building: set[str]) -> ast.Call | None:
    """Where methods move what an attribute holds, which no other method stores but to keep what it has moved."""
    source = flow.source
    for one in kept.stores:
        same = f"{source.code(one.target)}.to("
        if one.method.name not in building and not source.code(one.value or one.target).startswith(same):
            return None
    for load in kept.loads if kept.stores else ():
        call = source.parents[source.parents[load]]
        method = source.enclosing(load, ast.FunctionDef)
        if isinstance(call, ast.Call) and source.code(call.func).endswith(_MOVES):
            if getattr(method, "name", "") not in building and not flow.value(call).place.on_host:
                return call
    return None
