"""`register-buffer`: plain tensors that a module needs on its device become buffers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.engine.evidence import is_cpu_program, trains_on_cpu
from devfix.findings import Finding, Related, Safety
from devfix.flow import Flow
from devfix.registration.buffer_edits import register
from devfix.registration.buffers import Candidate, candidates, safe
from devfix.text.source import Source, remembered

# What a method makes on the CPU is where the plain tensors are, so the buffer may come to be alone.
_MADE = re.compile(r"\btorch\.(?:tensor|from_numpy|as_tensor)\((?![^\n]{0,400}device)")


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
    - the program names no device anywhere, or sets the default device.

    There is no fix where `super().__init__()` comes later or is out of sight, and for lists and dicts of
    tensors, whose elements need names of their own. There is no finding for tensors that are moved where they
    are used, have no dimensions (those may be combined across devices), only index other tensors, are trained,
    may be assigned again before use or from outside the class, or are given a device, nor for what an
    override of `_apply`, `to` or `cuda` handles.

    ## Options
    - `moved_at_use` (default false): also register tensors that are moved at their uses,
      `x + self.table.to(x.device)`, which works but copies on every call. The move stays: it is
      free once the tensor is there.
    """

    moved_at_use: bool = False

    id: ClassVar[str] = "register-buffer"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("torch",), ("def forward", "Module"), ("__init__",))
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
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
            """\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        steps = torch.arange(length).unsqueeze(1)
        self.register_buffer("table", torch.zeros(length, width), persistent=False)
        self.table[:, 0::2] = torch.sin(steps / 10)
        self.table[:, 1::2] = torch.cos(steps / 10)

    def forward(self, x):
        return x + self.table[: x.size(1)]


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Positions(4, 16).to(device)
print(round(model(torch.ones(2, 3, 4, device=device)).sum().item(), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
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
        cos, sin = tables(8, width)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x):
        return rotate(self.query(x), self.cos, self.sin)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Attention(4).to(device)
print(round(model(torch.ones(2, 8, 4, device=device)).sum().item(), 4))
""",
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
        source = flow.source
        every = candidates(flow)
        reported: set[tuple[str, str]] = set()
        stored = _stored(every)
        for number, candidate in enumerate(every):
            key, meet = (candidate.owner.node.name, candidate.name), candidate.met
            moved = meet is None and self.moved_at_use
            if moved and (candidate.moves_itself or not candidate.later):
                meet = candidate.moved_at_use()
            if meet is None or key in reported:
                continue
            group = _together(number, every, stored)
            reported |= {(c.owner.node.name, c.name) for c in group}
            done = register(source, group)
            sure = all(safe(source, c) for c in group) and not is_cpu_program(source, flow.path)
            sure = sure and not flow.project.sets_default() and not trains_on_cpu(source)
            sure = sure and flow.project.runs_moved(candidate.owner.node.name) is not False
            sure = sure and not _makes(source, meet.method)
            one = len(group) == 1
            they, them = ("it", "it") if one else ("they", "them")
            names = " and ".join(f"`self.{c.name}`" for c in group)
            use = "moves" if moved else "needs"
            where = "on every call" if moved else "on the device of its inputs"
            yield self.finding(
                source.span(candidate.stores[0].statement),
                f"{names} of `{candidate.owner.node.name}` {'is' if one else 'are'} not "
                f"{'a buffer' if one else 'buffers'}: `.to(device)` leaves {them} on the CPU, "
                f"and `{meet.method.name}` {use} {them} {where}"
                f"{f' ({done.why_not})' if done.why_not else ''}",
                title=f"register {names} as {'a buffer' if one else 'buffers'}",
                edits=done.edits,
                safety=Safety.SAFE if sure else Safety.UNSAFE,
                related=(Related(source.span(meet.node), f"{they} {'is' if one else 'are'} used here"),),
                assumes=f"{they} should move with the module",
            )


@remembered
def _makes(source: Source, method: ast.AST) -> bool:
    return _MADE.search(source.code(method)) is not None


def _stored(every: list[Candidate]) -> dict[ast.stmt, list[int]]:
    """The numbers of the attributes that each statement assigns."""
    found: dict[ast.stmt, list[int]] = {}
    for number, one in enumerate(every):
        for statement in dict.fromkeys(store.statement for store in one.stores):
            found.setdefault(statement, []).append(number)
    return found


def _together(first: int, every: list[Candidate], stored: dict[ast.stmt, list[int]]) -> list[Candidate]:
    """The attributes that are assigned in the same statements."""
    group = {first: None}
    todo = [first]
    for item in todo:  # grows on the way
        beside = {number for store in every[item].stores for number in stored[store.statement]}
        new = sorted(beside - group.keys())
        group.update(dict.fromkeys(new))
        todo += new
    return [every[number] for number in sorted(group)]
