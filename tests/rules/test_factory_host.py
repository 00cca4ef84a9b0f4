"""place-factory: tensors that only meet what is on the CPU, and placeholders that meet nothing."""

from __future__ import annotations

import pytest
from applying import findings
from devfix.findings import Safety
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)


"""
# Both are on the CPU, or they never meet.
HOST = {
    "before": """\
def flip(x):
    idx = torch.arange(x.size(1) - 1, -1, -1)
    return x.index_select(1, idx)


def main(model):
    for (x,) in loader:
        x = flip(x)
        print(model(x.to(device)))


main(nn.Linear(4, 2).to(device))
""",
    "before2": """\
def flip(x):
    idx = torch.arange(x.size(1) - 1, -1, -1)
    return x.index_select(1, idx)


def main(model, batches):
    for batch in batches:
        flipped = flip(batch)
        print(model(flipped.to(device)))


main(nn.Linear(4, 2).to(device), [torch.randn(8, 4)])
""",
    "flags": """\
class Net(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.extra = extra
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if self.extra:
            aux = self.fc(x)
        else:
            aux = torch.zeros(4)
        if self.extra:
            x = x + aux
        return x

    def second(self, x):
        mask = torch.ones(4) if not self.extra else self.fc(x)
        if not self.extra:
            return x
        return x * mask


Net(True).to(device)(torch.ones(2, 4).to(device))
""",
    "placeholders": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x, h):
        n = x.shape[0]
        hs = [torch.zeros(2, 4) for _ in range(n)]
        for t in range(n):
            h = self.cell(x[t], h)
            hs[t] = h
        out = [torch.empty(0)] * (n + 1)
        out[0] = h
        for t, row in enumerate(x):
            out[t + 1] = out[t] + row
        return torch.stack(hs), torch.stack(out)


Net().to(device)(torch.ones(3, 2, 4).to(device), torch.ones(2, 4).to(device))
""",
}
# They meet, and one is on the device.
REAL = {
    "two_loops": """\
def flip(x):
    idx = torch.arange(x.size(1) - 1, -1, -1)
    return x.index_select(1, idx)


def main(model):
    for (x,) in loader:
        x = x.to(device)
        print(model(flip(x)))
    for (x,) in loader:
        x = x.to(device)
        print(model(x))


main(nn.Linear(4, 2).to(device))
""",
    "then": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        d = h - torch.arange(4)
        e = d.sum()
        return d.to(torch.float64), e


Net().to(device)(torch.ones(2, 4).to(device))
""",
    "flags": """\
class Net(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.extra = extra
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        state, first = torch.zeros(4), True
        for _ in range(3):
            if first:
                state = torch.ones(4)
                first = False
            if not first:
                x = x + state
        return self.fc(x)


Net(True).to(device)(torch.ones(2, 4).to(device))
""",
    "placeholders": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        n = x.shape[0]
        hs = [torch.zeros(2, 4)] * n
        for t in range(1, n):
            hs[t] = self.cell(x[t], hs[t - 1])
        return torch.stack(hs)


Net().to(device)(torch.ones(3, 2, 4).to(device))
""",
    "sums": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x):
        n = x.shape[0]
        sums = [torch.zeros(2, 4)] * n
        for t in range(n):
            sums[t] = sums[t] + self.cell(x[t])
        return torch.stack(sums)


Net().to(device)(torch.ones(3, 2, 4).to(device))
""",
}

INDEXED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 4)
        self.names = torch.arange(10)

    def forward(self, x):
        idx = torch.arange(x.shape[1])
        print(self.names[idx])
        return x + self.emb(idx)
"""


@pytest.mark.parametrize("name", HOST)
def test_what_stays_on_the_cpu_is_left_alone(name: str) -> None:
    assert not findings(RULE, HEAD + HOST[name])


@pytest.mark.parametrize("name", REAL)
def test_what_does_meet_is_found(name: str) -> None:
    assert findings(RULE, HEAD + REAL[name])


def test_an_index_of_what_may_be_on_the_cpu_is_unsafe() -> None:
    assert [found.fix.safety for found in findings(RULE, HEAD + INDEXED) if found.fix] == [Safety.UNSAFE]
    without = INDEXED.replace("        print(self.names[idx])\n", "")
    assert [found.fix.safety for found in findings(RULE, HEAD + without) if found.fix] == [Safety.SAFE]


def test_a_method_that_takes_no_device_is_no_meeting() -> None:
    text = (
        "class Net(nn.Module):\n    def forward(self, x):\n        idx = torch.arange(x.size(1) - 1, -1, -1)\n"
        "        return x.index_select(1, idx{})\n"
    )
    assert findings(RULE, HEAD + text.format(""))
    assert not findings(RULE, HEAD + text.format(", device=x.device"))


@pytest.mark.parametrize(
    ("then", "safety"), [("d = d.to(device)", Safety.UNSAFE), ("d = d.abs()", Safety.SAFE)]
)
def test_a_result_that_is_moved_under_its_name_is_unsafe(then: str, safety: Safety) -> None:
    text = f"def f(x: torch.Tensor):\n    print(x.device)\n    d = x - torch.arange(4)\n    {then}\n    return d\n"
    assert [found.fix.safety for found in findings(RULE, HEAD + text) if found.fix] == [safety]


@pytest.mark.parametrize(("then", "number"), [(".to(device)", 0), (".abs()", 1)])
def test_a_result_that_is_moved_at_once_was_made_on_the_cpu(then: str, number: int) -> None:
    text = (
        "def f(x: torch.Tensor):\n    print(x.device)\n"
        f"    return torch.exp(-torch.abs(x - torch.arange(4)) + 1)[:, :2]{then}\n"
    )
    assert len(findings(RULE, HEAD + text)) == number


@pytest.mark.parametrize(
    ("between", "asked", "number"),
    [
        ("pass", "not self.flag", 0),
        ("self.flag = not self.flag", "not self.flag", 1),
        ("pass", "self.flag", 1),
        ("pass", "x", 1),
    ],
)
def test_a_condition_that_is_asked_again(between: str, asked: str, number: int) -> None:
    """What was moved in one of its arms has been moved where the same arm is taken again."""
    text = (
        "class Net(nn.Module):\n    def forward(self, x):\n        x = x @ x\n        y = torch.randn(4)\n"
        "        if not self.flag:\n            y = y * 2\n        else:\n            y = y.to(x.device)\n"
        f"        {between}\n        if {asked}:\n            x = x * 2\n        else:\n            x = x.add(y)\n"
        "        return x\n"
    )
    assert len(findings(RULE, HEAD + text)) == number
