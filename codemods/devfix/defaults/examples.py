"""Programs that show what `default-device` does; each runs as it stands."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

_GENERATOR = """\
import torch

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator({0})
generator.manual_seed(0)
noise = torch.randn(3, 4, generator=generator)
print(noise.shape[0])
"""
_LOADER = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
rows = TensorDataset(torch.arange(6.0))
total = 0.0
for (x,) in DataLoader(rows, batch_size=2, shuffle=True{0}):
    total += x.sum().item()
print(total)
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        "A generator goes with the default device",
        _GENERATOR.format(""),
        _GENERATOR.format("device=torch.get_default_device()"),
        raises="device type for generator",
    ),
    Example(
        "Shuffling on the default device",
        _LOADER.format(""),
        _LOADER.format(", generator=torch.Generator(device=torch.get_default_device())"),
        raises="device type for generator",
        safety=Safety.UNSAFE,
    ),
    Example(
        "Trap: the CPU is the default, and a generator that is told",
        """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cpu")
generator = torch.Generator().manual_seed(0)
rows = TensorDataset(torch.arange(6.0))
print(sum(x.sum().item() for (x,) in DataLoader(rows, shuffle=True, generator=generator)))
""",
    ),
)
