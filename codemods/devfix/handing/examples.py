"""Programs that show what `hand-on-device` does; each runs as it stands."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

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

EXAMPLES: tuple[Example, ...] = (
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
