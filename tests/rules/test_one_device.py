"""one-device: things on different accelerators, and programs on which nothing is said."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.rules.one_device import OneDevice

RULE = OneDevice()
HEAD = """\
import os
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


"""

FOUND = {
    "a module on another GPU": (
        'def run(x):\n    net = nn.Linear(2, 2).to("cuda:1")\n    x = x.to("cuda:0")\n    return net(x)\n',
        "`x` is on `cuda:0`, but `net` is on `cuda:1`",
    ),
    "by number": (
        "def run(x):\n    net = nn.Linear(2, 2).cuda(1)\n    return net(x.cuda(0))\n",
        "`x.cuda(0)` is on `cuda:0`, but `net` is on `cuda:1`",
    ),
    "DataParallel": (
        'd = torch.device("cuda:1")\nnet = nn.Linear(2, 2)\nnet.to(d)\n'
        "net = nn.DataParallel(net, device_ids=[0, 1])\n",
        "`net` is on `cuda:1`, but `DataParallel` wants it on the first of its `device_ids`, `cuda:0`",
    ),
    "set_device below the move": (
        "def run(rank):\n    net = nn.Linear(2, 2).cuda()\n    torch.cuda.set_device(rank)\n    return net\n",
        "`nn.Linear(2, 2).cuda()` stands above `torch.cuda.set_device(rank)`, "
        "so it is on the first GPU in every process",
    ),
}

CHANGED = {
    "visible devices": (
        'x = torch.ones(2).cuda()\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\nx = torch.ones(2).cuda()\n',
    ),
    "a DDP process without its GPU": (
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    net.cuda()\n"
        "    return DDP(net, device_ids=[local_rank])\n",
        "def run(local_rank):\n    net = nn.Linear(2, 2)\n    torch.cuda.set_device(local_rank)\n"
        "    net.cuda()\n    return DDP(net, device_ids=[local_rank])\n",
    ),
}

SILENT = {
    "one number": "def run(x):\n    net = nn.Linear(2, 2).cuda(1)\n    return net(x.to('cuda:1'))\n",
    "moved on between": (
        'def run(x):\n    a, b = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")\n'
        '    x = a(x.to("cuda:0")).to("cuda:1")\n    return b(x)\n'
    ),
    "a number that is not in view": (
        'def run(x, gpu):\n    net = nn.Linear(2, 2).cuda(gpu)\n    return net(x.to("cuda:1"))\n'
    ),
    "DataParallel on its first": (
        "net = nn.Linear(2, 2)\nnet.cuda(1)\nnet = nn.DataParallel(net, device_ids=[1, 0])\n"
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
    assert fixed(RULE, HEAD + before) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []
