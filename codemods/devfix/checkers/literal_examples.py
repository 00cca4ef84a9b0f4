"""The example programs of `hard-coded-cuda`; each runs as it stands, before and after."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

_FILLER = """\
import torch


def pad(mask: torch.Tensor, width: int) -> torch.Tensor:
    filler = torch.zeros(mask.size(0), width - mask.size(1))
{move}
    return torch.cat([mask.float(), filler], dim=1)


device = "cuda:1" if torch.cuda.device_count() > 1 else "cpu"
print(pad(torch.ones(2, 3, device=device), 5).sum().item())
"""
_WRAPPER = """\
import torch
from torch import nn


class Classifier:
    def __init__(self, device="cpu"):
        self.device = torch.device(device)
        self.model = nn.Linear(2, 2).to(self.device)

    def predict(self, rows):
        if not rows:
            return []
        x = torch.tensor(rows){move}
        return self.model(x).argmax(dim=-1).tolist()


rows = [[1.0, 2.0]] if torch.cuda.is_available() else []
print(len(rows) - len(Classifier().predict(rows)))
"""
_SCRIPT = """\
import torch
from torch import nn
{declared}
torch.manual_seed(0)


def train():
    model = nn.Linear(4, 2){move}
    x = torch.ones(3, 4){move}
    return model(x).sum().item()


if torch.cuda.is_available():
    print(0 * round(train(), 4) + 1.0)
else:
    print(1.0)
"""

EXAMPLES = (
    Example(
        "A helper tensor that is combined with another one, on any GPU",
        _FILLER.format(move="    if mask.is_cuda:\n        filler = filler.cuda()"),
        _FILLER.format(move="    filler = filler.to(mask.device)"),
        raises="same device|Expected all tensors",
    ),
    Example.changed(
        "A tensor made on CUDA is combined with an argument",
        """\
import torch


def mix(data: torch.Tensor, weight: float) -> torch.Tensor:
    order = torch.arange(data.size(0) - 1, -1, -1).cuda()
    return weight * data + (1 - weight) * data[order, :]


device = "cuda:1" if torch.cuda.device_count() > 1 else "cpu"
rows = torch.arange(6.0, device=device).view(3, 2)
print(mix(rows, 0.5).sum().item() if rows.is_cuda else 15.0)
""",
        ("data.size(0) - 1, -1, -1).cuda()", "data.size(0) - 1, -1, -1, device=data.device)"),
        raises="same device|Expected all tensors|indices should be",
    ),
    Example(
        "The class knows its device, and one method does not ask it",
        _WRAPPER.format(move=".cuda()"),
        _WRAPPER.format(move=".to(self.device)").replace(
            "torch.tensor(rows).to(self.device)", "torch.tensor(rows, device=self.device)"
        ),
        safety=Safety.UNSAFE,
        raises="same device|Expected all tensors",
    ),
    Example.changed(
        "By option: one device for a script that is CUDA throughout",
        _SCRIPT.format(declared="", move=".cuda()"),
        (
            "from torch import nn\n",
            'from torch import nn\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n',
        ),
        ("model = nn.Linear(4, 2).cuda()", "model = nn.Linear(4, 2).to(device)"),
        ("x = torch.ones(3, 4).cuda()", "x = torch.ones(3, 4, device=device)"),
        safety=Safety.UNSAFE,
        options=(("declare", "cuda"),),
    ),
    Example.changed(
        "A choice that asks nothing: a function is always true",
        """\
import torch

device = torch.device("cuda" if torch.cuda.is_available else "cpu")
model = torch.nn.Linear(4, 2).to(device)
print(tuple(model(torch.ones(3, 4, device=device)).shape))
""",
        ("is_available else", "is_available() else"),
        raises_on_cpu="CUDA|NVIDIA",
    ),
    Example(
        "Trap: a script that is meant for CUDA, and a choice of the user",
        """\
import torch
from torch import nn


def run(use_cuda):
    model = nn.Linear(4, 2)
    x = torch.ones(3, 4)
    if use_cuda:
        model = model.cuda()
        x = x.cuda()
    return tuple(model(x).shape)


print(run(torch.cuda.is_available()))
""",
    ),
    Example(
        "Trap: the variable is rebound before the move back",
        """\
import torch


def sort_on_host(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:
        x = x.cpu()
        y = x.sort().values
        return y.cuda()
    return x.sort().values


print(sort_on_host(torch.tensor([3.0, 1.0, 2.0])).tolist())
""",
    ),
)
