"""Inputs in the arms of one condition: what cannot meet the moved module is left alone."""

from __future__ import annotations

import pytest
from applying import findings
from devfix.findings import Safety
from devfix.rules.move_inputs import MoveInputs

RULE = MoveInputs()
HEAD = """\
import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

"""
# The input runs only where the module has not been moved.
HOST = {
    "early": """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)


def run(data):
    x = torch.from_numpy(data)
    if torch.cuda.is_available():
        return model(x.cuda())
    return model(x)
""",
    "args": """\
parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")
args = parser.parse_args([])
args.cuda = args.cuda and torch.cuda.is_available()
model = nn.Linear(4, 2)
if args.cuda:
    model.cuda()


def run(data):
    x = torch.from_numpy(data)
    return model(x.cuda()) if args.cuda else model(x)


print(run(np.ones((2, 4), dtype=np.float32)))
""",
    "self": """\
class Runner:
    def __init__(self):
        self.use_gpu = torch.cuda.is_available()
        self.model = nn.Linear(4, 2)
        if self.use_gpu:
            self.model.cuda()

    def run(self, data):
        x = torch.from_numpy(data)
        if self.use_gpu:
            x = x.cuda()
            return self.model(x)
        else:
            return self.model(x)

    def other(self, data):
        x = torch.from_numpy(data)
        if not self.use_gpu:
            return self.model(x)
        return self.model(x.cuda())


print(Runner().run(np.ones((2, 4), dtype=np.float32)), Runner().other(np.ones((2, 4), dtype=np.float32)))
""",
    "continue": """\
use_gpu = torch.cuda.is_available()
model = nn.Linear(4, 2)
if use_gpu:
    model.cuda()
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
for (x,) in loader:
    if use_gpu:
        print(model(x.cuda()))
        continue
    print(model(x))
""",
    "cpuarg": """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
if device.type == "cpu":
    print(model(x))
else:
    print(model(x.to(device)))
""",
}
# The condition says nothing of where the module is, or not any more.
REAL = {
    "loopflag": """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
model = nn.Linear(4, 2)
first = True
for (x,) in loader:
    if first:
        model.to(device)
        first = False
    if not first:
        print(model(x).shape)
""",
    "train": """\
train = len(input()) > 3
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
if train:
    out = model(x.to(device))
else:
    out = model(x)
""",
    "count": """\
model = nn.Linear(4, 2)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model).cuda()
else:
    model = model.cuda()
x = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
if torch.cuda.device_count() > 1:
    out = model(x.cuda())
else:
    out = model(x)
""",
    "rebound": """\
use_gpu = False
model = nn.Linear(4, 2)
if use_gpu:
    pass
else:
    use_gpu = True
    model.cuda()


def run(data):
    global use_gpu
    use_gpu = True
    x = torch.from_numpy(data)
    if use_gpu:
        return model(x)
    return None
""",
    "none": """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)


def run(x=None, device=None):
    y = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
    if device is not None:
        y = y.to(device)
    return y


x = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
print(model(x))
""",
}


@pytest.mark.parametrize("name", HOST)
def test_the_arm_of_the_cpu_is_left_alone(name: str) -> None:
    assert not findings(RULE, HEAD + HOST[name])


@pytest.mark.parametrize("name", REAL)
def test_another_condition_keeps_nothing_apart(name: str) -> None:
    assert [found.fix.safety for found in findings(RULE, HEAD + REAL[name]) if found.fix] == [Safety.SAFE]
