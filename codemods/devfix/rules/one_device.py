"""`one-device`: parts of one program that end up on different accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers import gpu_numbers, processes, visible_gpus
from devfix.codemod import Codemod, Example
from devfix.engine.visible import VISIBLE
from devfix.findings import Finding, Safety
from devfix.flow import Flow

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
_RANK = """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
local_rank = {0}
device = f"cuda:{{local_rank}}" if torch.cuda.is_available() else "cpu"
print(torch.ones(3, device=device).sum().item())
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class OneDevice(Codemod):
    """Keep tensors, modules and processes on the GPU they belong to.

    ## What it does
    Where the numbers of the GPUs are in sight, it finds a module that is run on tensors on another GPU;
    tensors on two GPUs in one operation, `"cuda"` without a number next to `"cuda:1"` included; a model that is
    wrapped in `DistributedDataParallel` but still on the CPU; and `CUDA_VISIBLE_DEVICES` set after CUDA has
    started.

    In distributed programs, it finds

    - a process that joins a group whose backend works on accelerators only (`"nccl"`: given, by default or
      by a condition) and knows its own number (`LOCAL_RANK`, `args.local_rank`, what `mp.spawn` passes, the
      rank modulo the number of GPUs), but never calls `torch.cuda.set_device`: neither in the function nor
      in those that it calls or its callers, or only in another arm or launcher; not where all is placed by
      that number, and no objects are gathered;
    - a process that uses `.cuda()` before it sets its device;
    - the rank among all processes (`dist.get_rank()`, `RANK`) used as the number of a GPU of this machine.

    It leaves alone programs where the number is not in sight, whose processes a framework starts
    (Lightning, Accelerate, DeepSpeed, ...), that show each process one device only, or that call a function
    out of sight that may set it; and processes on one machine that place everything by number.

    ## Why is this bad?
    Tensors on `cuda:0` and `cuda:1` cannot be combined. Every process that never calls
    `torch.cuda.set_device` uses the first GPU
    (https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html). On a
    second machine, global ranks are larger than the numbers of its GPUs
    (https://pytorch.org/docs/stable/elastic/run.html). And CUDA reads its environment only once.

    ## Fix safety
    Unsafe: only a person can say which GPU was meant. Tensors are moved to the GPU of the module, or of the
    first operand. `torch.cuda.set_device` gets the number that is in scope. The rank is replaced by the
    local number that the program knows, or else by `LOCAL_RANK`, which torchrun sets, with the rank as the
    fallback.
    """

    id = "one-device"
    words = (
        ("cuda", "nccl", "DistributedDataParallel", "DDP("),
        ("torch",),
    )
    examples = (
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
            "The global rank is not the number of a GPU",
            _RANK.format("dist.get_rank()"),
            _RANK.format('int(os.environ.get("LOCAL_RANK", dist.get_rank()))'),
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
        text = flow.source.text
        yield from gpu_numbers.meetings(flow.facts())
        if VISIBLE in text:
            yield from visible_gpus.set_late(flow.source)
        if any(word in text for word in _OF_PROCESSES):
            yield from processes.findings(flow.facts())
