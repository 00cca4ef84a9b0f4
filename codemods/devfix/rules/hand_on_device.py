"""`hand-on-device`: a function that knows the device passes it to those that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.left_out import findings
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow

_SCORES = """\
import torch


def positions(n, device="cpu"):
    return torch.arange(n, device=device) + 1.0


def scores(x, device):
    return x.to(device) * {0}


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(scores(torch.ones(4), device).sum().item())
"""
_NESTED = """\
import torch


def to_torch(data, device="cpu"):
    if isinstance(data, dict):
        return {{key: to_torch(value{0}) for key, value in data.items()}}
    return torch.tensor(data, device=device)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
batch = to_torch({{"x": [1.0, 2.0], "more": {{"y": [3.0, 4.0]}}}}, device=device)
print((batch["more"]["y"] + torch.ones(2, device=device)).sum().item())
"""
_COPY = """\
import torch


class Steps:
    def __init__(self, sizes, device="cpu"):
        self.sizes = sizes
        self.device = device

    def head(self, n):
        return self.__class__(self.sizes[:n]{0})

    def times(self, x):
        return x * torch.tensor(self.sizes, device=self.device)


device = "cuda" if torch.cuda.is_available() else "cpu"
steps = Steps([0.5, 0.25, 0.125], device=device).head(2)
print(steps.times(torch.ones(2, device=device)).sum().item())
"""
_SETTLED = """\
import torch


def mask(x, device=None):
    if device is None:
        device = x.device
    return torch.ones(x.shape, device=device)


def masked(x, device):
    x = x.to(device)
    return x * mask(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(masked(torch.ones(4), device).sum().item())
"""


@dataclass(frozen=True)
class HandOnDevice(Codemod):
    """Pass the device on to functions that take one.

    ## What it does
    Finds calls that leave out the `device` that the callee takes:

    - the callee is in view, here or in another file; its device defaults to "cuda", and the caller has a
      device of its own: a parameter, a variable, `self.device`;
    - the same, and the device defaults to "cpu" (or to None, which torch takes for the CPU), and what the
      call gives is combined with a tensor on another device;
    - a function with a device calls itself, or a method with its own name, without it;
    - a function never reads its device, and makes one call that takes one with the same default;
    - `self.__class__(..)` leaves out the device that `__init__` keeps.

    It also finds a chosen device that is overwritten before anything reads it: a parameter by
    `device = "cuda" if ... else "cpu"`, an option of the command line by `device = "cpu"`.

    It leaves alone callees that take the device from another argument, results that are moved, functions
    whose name says that they work on the CPU (load, save, convert, export), data sets, tests, and what is
    tried after an error.

    ## Why is this bad?
    The callee works on another device than its caller, and the first operation on both results raises
    "Expected all tensors to be on the same device". Without a GPU, a default of "cuda" raises at once.
    Where nothing raises, work that was meant for the GPU is done on the CPU.

    ## Fix safety
    Unsafe: only the surrounding code suggests it, and what used to be on the default device is now on
    another one.
    """

    id = "hand-on-device"
    words = (
        ("torch",),
        ("device=", "device =", "device:", "device,", "device)", "dev=", "dev =", "dev:", "dev,", "dev)"),
    )
    examples = (
        Example(
            "A helper is left to its default, the CPU",
            _SCORES.format("positions(x.shape[0])"),
            _SCORES.format("positions(x.shape[0], device=device)"),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example(
            "A function that calls itself without its device",
            _NESTED.format(""),
            _NESTED.format(", device=device"),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example(
            "An object makes another one of its class without its device",
            _COPY.format(""),
            _COPY.format(", device=self.device"),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example("Trap: without the argument it takes the device of its input", _SETTLED),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        yield from findings(flow.facts())
