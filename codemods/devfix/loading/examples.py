"""Programs that show what `map-location` does; each runs as it stands."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

_STATE = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save({{"epoch": 3, "model": nn.Linear(4, 2).state_dict()}}, path)


def resume(model, path):
    checkpoint = torch.load(path{0})
    model.load_state_dict(checkpoint["model"])
    return checkpoint["epoch"]


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "checkpoint.pt"
write(path)
model = nn.Linear(4, 2).to(device)
print(resume(model, path), round(model(torch.ones(1, 4, device=device)).sum().item(), 4))
"""
_ITSELF = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save(nn.Linear(4, 2).weight.detach(), path)


def run(path, x, device):
    weight = torch.load(path{0})
    return x.to(device) @ weight.t()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "weight.pt"
write(path)
print(round(run(path, torch.ones(1, 4), device).sum().item(), 4))
"""
_WRAPPER = """\
import pathlib
import tempfile

import torch
from torch import nn


def load_file(path, map_location=None):
    with open(path, "rb") as file:
        return torch.load(file{0})


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "model.pt"
model = nn.Linear(4, 2)
torch.save(model.state_dict(), path)
state = load_file(path, map_location=device)
print(round(torch.nn.functional.linear(torch.ones(1, 4).to(device), state["weight"]).sum().item(), 4))
"""
_GUARDED = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save(nn.Linear(4, 2).state_dict(), path)


def restore(model, path):
    if torch.cuda.is_available():
        state = torch.load(path)
    else:
        state = torch.load(path, map_location="cpu")
    model.load_state_dict(state)


path = pathlib.Path(tempfile.mkdtemp()) / "model.pt"
write(path)
model = nn.Linear(4, 2)
restore(model, path)
print(round(model(torch.ones(1, 4)).sum().item(), 4))
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        "A checkpoint that feeds a model: it is copied to where the model is",
        _STATE.format(""),
        _STATE.format(', map_location="cpu"'),
    ),
    Example(
        "A loaded tensor that is combined with data on the device in scope",
        _ITSELF.format(""),
        _ITSELF.format(", map_location=device"),
        raises="same device|Expected all tensors",
        safety=Safety.UNSAFE,
    ),
    Example(
        "A wrapper that does not pass on its map_location",
        _WRAPPER.format(""),
        _WRAPPER.format(", map_location=map_location"),
        raises="same device|Expected all tensors",
    ),
    Example("Trap: the machine without a GPU is taken care of", _GUARDED),
)
