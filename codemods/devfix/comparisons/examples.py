"""Programs that show what `device-comparison` does; each runs as it stands."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

_BRANCH = """\
import torch
from torch import nn


def decode(vae: nn.Module, latents: torch.Tensor):
    if {0}:
        vae.to(latents.device)
    return vae(latents)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(round(decode(nn.Linear(4, 2), torch.ones(1, 4).to(device)).sum().item(), 4))
"""
_PRECISION = """\
import torch
from torch import nn


def run(model: nn.Module, x: torch.Tensor):
    if x.device{0}:
        torch.cuda.synchronize()
    return model(x)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(round(run(nn.Linear(4, 2).to(device), torch.ones(1, 4).to(device)).sum().item(), 4))
"""
_ASSERT = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.ones(1, 4).to(device)
assert {0}
print(round(model(x).sum().item(), 4))
"""
_ELSEWHERE = """\
import torch


class Worker:
    def __init__(self, device="cpu"):
        self.device = device

    def describe(self):
        return 1 if self.device == "cpu" else 2


x = torch.ones(2)
y = torch.ones(2).to(x.device)
same = (x.device == y.device, x.device.type == "cpu", str(x.device) == "cpu", x.device.type in ("cpu", "mps"))
print(Worker().describe(), sum(same))
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        "A move that was never made: a torch.device never equals a string",
        _BRANCH.format('vae.weight.device == "cpu"'),
        _BRANCH.format('vae.weight.device.type == "cpu"'),
        raises="same device|Expected all tensors",
    ),
    Example(
        "A tensor's device has an index",
        _ASSERT.format("x.device == device"),
        _ASSERT.format("x.device.type == device.type"),
        raises="AssertionError",
    ),
    Example(
        "A branch that begins to run",
        _PRECISION.format(' == torch.device("cuda")'),
        _PRECISION.format('.type == "cuda"'),
        safety=Safety.UNSAFE,
    ),
    Example("Trap: strings with strings, devices with devices, types with types", _ELSEWHERE),
)
