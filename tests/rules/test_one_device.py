"""one-device: things on different accelerators, and programs on which nothing is said."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.rules.one_device import OneDevice

RULE = OneDevice()
HEAD = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


"""

FOUND = {
    "set_device below the move": (
        "def run(rank):\n    net = nn.Linear(2, 2).cuda()\n    torch.cuda.set_device(rank)\n    return net\n",
        "`nn.Linear(2, 2).cuda()` runs before `torch.cuda.set_device(rank)`, "
        "so every process puts it on the first GPU",
    ),
    "objects are gathered over one GPU": (
        'def run(rank, x):\n    dist.init_process_group("nccl", rank=rank)\n    found = [None] * 2\n'
        "    dist.all_gather_object(found, x)\n",
        "`dist.all_gather_object` uses the current GPU, and nothing sets it for each process: "
        "call `torch.cuda.set_device` first",
    ),
    "a global rank in a string": (
        'def device(local_rank):\n    return f"cuda:{dist.get_rank()}"\n',
        "`dist.get_rank()` counts the processes of all machines, but is used as the index of a GPU on this one: "
        "a second machine has no such GPU",
    ),
}

CHANGED = {
    "a module on another GPU": (
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    x = x.to("cuda:0")\n    return net(x)\n',
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    x = x.to("cuda:0")\n'
        '    return net(x.to("cuda:1"))\n',
    ),
    "by number": (
        "def run(x):\n    net = nn.Linear(2, 2).cuda(1)\n    return net(x.cuda(0))\n",
        "def run(x):\n    net = nn.Linear(2, 2).cuda(1)\n    return net(x.cuda(1))\n",
    ),
    "two operands": (
        'def run(a, b):\n    a, b = a.to("cuda:0"), b.to("cuda:1")\n    return a + b\n',
        'def run(a, b):\n    a, b = a.to("cuda:0"), b.to("cuda:1")\n    return a + b.to("cuda:0")\n',
    ),
    "two that are made there": (
        'x = torch.ones(2, device="cuda:0")\ny = torch.cat([x, torch.zeros(2, device="cuda:1")])\n',
        'x = torch.ones(2, device="cuda:0")\ny = torch.cat([x, torch.zeros(2, device="cuda:1").to("cuda:0")])\n',
    ),
    "no number beside a number": (
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    x = x.cuda()\n    return net(x)\n',
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    x = x.cuda()\n    return net(x.to("cuda:1"))\n',
    ),
    "in a function that is given both": (
        "def mixed(a, b):\n    return torch.cat([a, b])\n\n\n"
        'x = torch.ones(2, device="cuda:0")\ny = mixed(x, torch.ones(2, device="cuda:1"))\n',
        'def mixed(a, b):\n    return torch.cat([a, b.to("cuda:0")])\n\n\n'
        'x = torch.ones(2, device="cuda:0")\ny = mixed(x, torch.ones(2, device="cuda:1"))\n',
    ),
    "visible devices": (
        'x = torch.ones(2).cuda()\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\nx = torch.ones(2).cuda()\n',
    ),
    "visible devices after a look whether there are any": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n'
        'if __name__ == "__main__":\n    os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n    print(device)\n',
        None,
    ),
    "visible devices in the main function": (
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n\n\ndef main(gpu):\n'
        '    os.environ.setdefault("CUDA_VISIBLE_DEVICES", gpu)\n    print(device)\n',
        None,
    ),
    "a DDP process without its GPU": (
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    net.cuda()\n"
        "    return DDP(net, device_ids=[local_rank])\n",
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    torch.cuda.set_device(local_rank)\n"
        "    net.cuda()\n    return DDP(net, device_ids=[local_rank])\n",
    ),
    "DDP of a model that is nowhere moved": (
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    return DDP(net, device_ids=[local_rank])\n",
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    net.to(local_rank)\n"
        "    return DDP(net, device_ids=[local_rank])\n",
    ),
    "set_device below the move, with room above": (
        "def run(rank):\n    net = nn.Linear(2, 2)\n    net.cuda()\n    torch.cuda.set_device(rank)\n"
        "    return net\n",
        "def run(rank):\n    net = nn.Linear(2, 2)\n    torch.cuda.set_device(rank)\n    net.cuda()\n"
        "    return net\n",
    ),
    "a process of NCCL that never says which GPU is its own": (
        'def main(local_rank):\n    dist.init_process_group("nccl")\n    net = build(local_rank)\n    net.cuda()\n'
        '\n\nif __name__ == "__main__":\n    main(int(os.environ["LOCAL_RANK"]))\n',
        'def main(local_rank):\n    dist.init_process_group("nccl")\n    torch.cuda.set_device(local_rank)\n'
        "    net = build(local_rank)\n    net.cuda()\n"
        '\n\nif __name__ == "__main__":\n    main(int(os.environ["LOCAL_RANK"]))\n',
    ),
    "a global rank by a local name": (
        "def run(x):\n    local_rank = dist.get_rank()\n    torch.cuda.set_device(local_rank)\n",
        'def run(x):\n    local_rank = int(os.environ.get("LOCAL_RANK", dist.get_rank()))\n'
        "    torch.cuda.set_device(local_rank)\n",
    ),
    "a global rank where a local one is at hand": (
        'def run(net):\n    rank = int(os.environ["RANK"])\n    torch.cuda.set_device(rank)\n'
        '    print(os.environ["LOCAL_RANK"])\n',
        'def run(net):\n    rank = int(os.environ["RANK"])\n'
        '    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))\n'
        '    print(os.environ["LOCAL_RANK"])\n',
    ),
}

SILENT = {
    "no number, and the current GPU is set": (
        'torch.cuda.set_device(1)\ndef run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    return net(x.cuda())\n'
    ),
    "no number, and the first GPU": (
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:0")\n    return net(x.cuda())\n'
    ),
    "on two GPUs in two arms": (
        'def run(x, c):\n    if c:\n        x = x.to("cuda:0")\n    y = torch.ones(2, device="cuda:1")\n'
        "    return x + y\n"
    ),
    "one GPU after the other": (
        'def run(a):\n    x = a.to("cuda:0") * 2\n    y = x.to("cuda:1")\n    return y + y\n'
    ),
    "the rank modulo the GPUs": (
        "def run(x):\n    local_rank = dist.get_rank() % torch.cuda.device_count()\n"
        "    torch.cuda.set_device(local_rank)\n"
    ),
    "the only rank of a program": "def run(x):\n    rank = dist.get_rank()\n    torch.cuda.set_device(rank)\n",
    "a parameter": "def run(local_rank):\n    torch.cuda.set_device(local_rank)\n    print(dist.get_rank())\n",
    "a helper that joins the group": (
        'def init(local_rank):\n    dist.init_process_group("nccl")\n    print(local_rank)\n    dist.barrier()\n'
    ),
    "gloo gathers objects": (
        'def run(x):\n    dist.init_process_group("gloo")\n    dist.all_gather_object([None], x)\n'
    ),
    "a function of another file sets the device": (
        "from common import init_distributed\ndef run(local_rank):\n    init_distributed(local_rank)\n"
        "    net = nn.Linear(2, 2)\n    net.cuda()\n    return DDP(net, device_ids=[local_rank])\n"
    ),
    "DDP on the CPU": "def run(rank):\n    net = nn.Linear(2, 2)\n    return DDP(net)\n",
    "visible devices for others": (
        "def run(n):\n    print(torch.cuda.is_available())\n"
        '    os.environ["CUDA_VISIBLE_DEVICES"] = str(n)\n    subprocess.run(["train"])\n'
    ),
    "objects are gathered by a group of its own": (
        'def run(x, group):\n    dist.init_process_group("nccl")\n'
        "    dist.all_gather_object([None], x, group=group)\n"
    ),
    "visible devices above the look": (
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\n'
    ),
    "visible devices, and a look in a function": (
        'def device():\n    return torch.cuda.is_available()\n\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'
    ),
    "one number": "def run(x):\n    net = nn.Linear(2, 2).cuda(1)\n    return net(x.to('cuda:1'))\n",
    "moved on between": (
        'def run(x):\n    a, b = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")\n'
        '    x = a(x.to("cuda:0")).to("cuda:1")\n    return b(x)\n'
    ),
    "a number that is not in view": (
        'def run(x, gpu):\n    net = nn.Linear(2, 2).cuda(gpu)\n    return net(x.to("cuda:1"))\n'
    ),
    "set_device first": (
        "def run(rank):\n    torch.cuda.set_device(rank)\n    net = nn.Linear(2, 2).cuda()\n"
        "    return DDP(net, device_ids=[rank])\n"
    ),
    "DDP after a move with the rank": (
        "def run(rank):\n    net = nn.Linear(2, 2).cuda(rank)\n    return DDP(net, device_ids=[rank])\n"
    ),
    "visible devices first": 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\nx = torch.ones(2).cuda()\n',
    "visible devices in another function": (
        'def a():\n    return torch.ones(2).cuda()\n\n\ndef b():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'
    ),
    "visible devices after a branch that may not run": (
        'def a(c):\n    if c:\n        x = torch.ones(2).cuda()\n    os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    text, message = FOUND[name]
    found = findings(RULE, HEAD + text)
    assert [(f.message, f.fix) for f in found] == [(message, None)]


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    before, after = CHANGED[name]
    (finding,) = findings(RULE, HEAD + before)
    if after is None:
        assert fixed(RULE, HEAD + before) == HEAD + before and "reads it once" in finding.message
    else:
        assert fixed(RULE, HEAD + before) == HEAD + after
        assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


TWO_TRAINERS = """\
class Base:
    def __init__(self, rank):
        self.local_rank = rank
        dist.init_process_group("nccl", rank=rank)


class First(Base):
    def train(self):
        torch.cuda.set_device(self.local_rank)
        dist.broadcast_object_list([1], 0)


class Second({base}):
    def train(self):
        dist.broadcast_object_list([2], 0)
"""


def test_what_one_class_sets_is_not_said_for_another() -> None:
    text = HEAD + TWO_TRAINERS.format(base="Base")
    call = "        dist.broadcast_object_list([2], 0)\n"
    assert fixed(RULE, text) == text.replace(call, "        torch.cuda.set_device(self.local_rank)\n" + call)
    assert not findings(RULE, HEAD + TWO_TRAINERS.format(base="First"))
