"""`one-device`: things of one program that end up on different accelerators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.checkers import processes
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow
from devfix.flow.events import What
from devfix.ranks import indexes, visible
from devfix.remarks import Remark

_PARALLEL = ("DataParallel",)
_OF_PROCESSES = ("distributed", "Distributed", "local_rank", "LOCAL_RANK", "set_device")
_TWO = """\
import torch
from torch import nn

missing = 0
if torch.cuda.device_count() > 1:
    head = nn.Linear(4, 2).to("cuda:1")
    x = torch.ones(3, 4).to("cuda:0")
    missing = 3 - len(head({0}))
print(missing)
"""


@dataclass(frozen=True)
class OneDevice(Codemod):
    """What belongs together is on one accelerator.

    ## What it does
    Finds, where the numbers are in view: a module that is run on tensors on another GPU, and tensors on
    two GPUs in one operation, `"cuda"` without a number next to `"cuda:1"` among them; a model that is
    wrapped in `DataParallel` but is not on the first of its `device_ids`, or in
    `DistributedDataParallel` but still on the CPU; a process of a distributed program that uses
    `.cuda()` or gathers objects without `torch.cuda.set_device`, or before it; the rank among all
    processes as the number of a GPU of this machine; and `CUDA_VISIBLE_DEVICES` set after CUDA has
    started.

    Nothing is said where the number is not in view, and of a process whose device a function of another
    file may set.

    ## Why is this bad?
    Tensors on `cuda:0` and `cuda:1` cannot be combined; `DataParallel` raises unless the model is on
    `device_ids[0]` (https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html); every process
    that never calls `torch.cuda.set_device` uses the first GPU; and CUDA reads its environment once.

    ## Fix safety
    Unsafe: which GPU was meant is for a person to say. What is moved goes to the GPU of the module, or of
    the first operand; `LOCAL_RANK`, which torchrun sets, falls back to the rank as it was.
    """

    id: ClassVar[str] = "one-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("cuda", "nccl", "DistributedDataParallel", "DDP("),
        ("torch",),
    )
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "A module and its input are on two GPUs",
            _TWO.format("x"),
            _TWO.format('x.to("cuda:1")'),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example(
            "The visible devices are set before CUDA starts",
            """\
import os

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
print(torch.ones(3).to(device).sum().item())
""",
            """\
import os

import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "0"
device = "cuda" if torch.cuda.is_available() else "cpu"
print(torch.ones(3).to(device).sum().item())
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
        for remark in self._remarks(flow):
            yield remark.finding(self)

    def _remarks(self, flow: Flow) -> Iterator[Remark]:
        text = flow.source.text
        yield from indexes.meetings(flow)
        if "DataParallel" in text:
            yield from self._wrapped(flow)
        if visible.VISIBLE in text:
            yield from visible.set_late(flow)
        if any(word in text for word in _OF_PROCESSES):
            yield from processes.remarks(flow.facts())

    def _wrapped(self, flow: Flow) -> Iterator[Remark]:
        for event in flow.events(What.WRAP):
            call = event.node
            last = event.detail.rpartition(".")[2]
            if not isinstance(call, ast.Call) or event.via or not call.args:
                continue
            place = flow.value(call).place
            if last in _PARALLEL:
                yield from indexes.wrapped(flow, event, call, place)
