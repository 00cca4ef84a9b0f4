"""`pytest --simulate-cuda --keep-going --place all`: a suite that never asks for CUDA, run on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from ran import Ran

PACKAGE = """import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.factor = torch.ones(n)

    def forward(self, x):
        return self.linear(x) * self.factor


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"a": nn.Linear(2, 2)}

    def forward(self, x):
        return self.heads["a"](x)


def mask(x):
    return x.masked_fill(torch.arange(x.shape[-1]) > 1, 0)


def spread(x):
    return x.numpy().std()


def build(n):
    return Scale(n)


class Runner:
    def __init__(self):
        self.net = nn.Linear(2, 2)

    def run(self, x):
        return self.net(x)


def right(x):
    return x + torch.ones(x.shape, device=x.device)


HALVES = torch.full((4,), 0.5)


class Sizes(tuple):
    def __len__(self):
        raise NotImplementedError

    def example(self, n):
        return torch.rand(n) + 1


def halves():
    return HALVES * 1


@torch.jit.script
def scripted(x):
    return x * 2 + 1


@torch.jit.script
def hidden(x, y):
    return x * 2 + y


class Doubled(nn.Module):
    def forward(self, x, y):
        return hidden(x, y) + torch.ones(4, device=x.device)


def both(x, y):
    return x + y


def told(x, y, device="cpu"):
    return x + torch.ones(len(y), device=device)


def by_name(x, y):
    return x + torch.zeros(len(y), device="cpu")


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.ones(4))

    def draw(self):
        return torch.rand(4, device=self.level.device) * self.level


class Table:
    def __init__(self, index):
        self.index, self.size = index, index.shape[0]

    def take(self, x):
        return x[self.index.view(-1)] + torch.stack([self.index.view(-1), x.long()[: self.size]])[0]


class Sampler:
    def __init__(self, net):
        self.net = net

    def draw(self, n):
        return self.net(torch.ones(1, n))
"""
# A test file by its folder.
HELPER = """import torch

TABLE = torch.arange(4.0)
"""
TESTS = """import unittest

import numpy as np
import package
import pytest
import torch
from tests.tables import TABLE


@pytest.fixture
def net():
    return package.Scale(3)


def test_fixture(net):
    assert net(torch.ones(2, 3)).shape == (2, 3)
    assert net.linear.weight.is_cuda
    assert torch.equal(net.factor, torch.ones(3))


def test_built():
    assert package.build(3)(torch.ones(2, 3)).shape == (2, 3)


def test_parts():
    part = package.Scale(2)
    assert part(torch.ones(1, 2)).is_cuda
    whole = torch.nn.Sequential(part, package.build(2))
    assert whole[1].linear(torch.ones(1, 2)).is_cuda


def test_heads():
    assert package.Heads()(torch.ones(1, 2)).shape == (1, 2)


def test_mask():
    assert package.mask(TABLE).sum() == 1


def test_spread():
    assert package.spread(TABLE) > 1


def test_right():
    assert package.Table(torch.LongTensor([0, 1])).take(TABLE).is_cuda
    assert package.Noise().draw().is_cuda and package.right(TABLE).is_cuda
    array = torch.from_numpy(np.ones(4, "f"))
    assert package.right(array).is_cpu and package.right(torch.Tensor([1, 2])).is_cpu
    assert (TABLE * array * torch.Tensor([1, 2, 3, 4])).numpy().sum() == 20


def test_not_placed():
    net = torch.nn.Linear(2, 2).cpu()
    assert net(torch.ones(2, device="cpu")).is_cpu
    assert torch.rand(2, generator=torch.Generator().manual_seed(0)).is_cpu
    assert package.Runner().run(torch.ones(2)).shape == (2,)


def test_example():
    made = package.Sizes([4]).example(4)
    assert made.is_cpu and (package.right(made).log() + TABLE).is_cuda
    assert (package.halves() + TABLE).is_cuda
    unknown = package.scripted(torch.from_numpy(np.ones(4, "f")))
    assert package.both(TABLE, unknown).is_cuda
    package.Doubled()(torch.from_numpy(np.ones(4, "f")), TABLE)
    assert package.told(TABLE, torch.from_numpy(np.ones(4, "f"))).is_cuda


def test_by_name():
    assert package.by_name(TABLE, torch.from_numpy(np.ones(4, "f"))).is_cuda


def test_sampler():
    net = torch.nn.Linear(2, 2)
    assert package.Sampler(net).draw(2).is_cuda


class Unit(unittest.TestCase):
    def setUp(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 2), package.Scale(2))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def test_it(self):
        self.net(torch.ones(1, 2)).sum().backward()
        self.opt.step()
        assert self.net[0].weight.grad.is_cuda
"""


def line(text: str) -> int:
    return next(number for number, one in enumerate(PACKAGE.splitlines(), 1) if text in one)


def test_the_errors_of_a_package_whose_tests_name_no_device(
    tmp_path: Path, suites: Callable[..., Ran]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "package.py").write_text(PACKAGE)
    (tmp_path / "test_package.py").write_text(TESTS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "tables.py").write_text(HELPER)
    done = suites(tmp_path, "--simulate-cuda=1", "--keep-going")
    code, said = done.code, done.text
    assert code == 1 and "7 failed, 5 passed" in said  # those that say `is_cuda`
    assert "= device errors =" not in said
    done = suites(tmp_path, "--simulate-cuda=1", "--keep-going", "--place", "all", "--junitxml=junit.xml")
    code, said = done.code, done.text
    assert code == 1 and "12 passed" in said, said
    report = said.partition("= device errors =")[2]
    told = re.findall(r"^(\w+\.py:\d+): (\w+): ", report, re.MULTILINE)
    assert told == [
        (f"package.py:{line('* self.factor')}", "mul"),
        (f"package.py:{line('heads[')}", "linear"),
        (f"package.py:{line('masked_fill')}", "masked_fill"),
        (f"package.py:{line('numpy()')}", "numpy"),
        (f"package.py:{line('torch.zeros')}", "add"),
        (f"package.py:{line('self.net(torch')}", "linear"),
    ]
    tests = "in test_package.py::test_fixture, test_package.py::test_built, test_package.py::test_parts and 1 more"
    assert tests in report and "in test_package.py::test_spread" in report
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    with_errors = {
        str(case.get("name")): [one.get("name") for one in case.iter("property")] for case in cases
    }
    clean = ("test_right", "test_not_placed", "test_example")
    names = ("fixture", "built", "heads", "mask", "spread", "it", "parts", "sampler", "by_name")
    wrong = tuple(f"test_{name}" for name in names)
    assert with_errors == {name: ["device_error"] * (name in wrong) for name in (*wrong, *clean)}


def test_place_needs_keep_going(tmp_path: Path, suites: Callable[..., Ran]) -> None:
    done = suites(tmp_path, "--simulate-cuda=1", "--place", "all")
    assert done.code == 4 and "--place is for --keep-going" in done.err
