"""`place-factory`: tensors are made on the device of the tensors they are combined with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod, Example
from devfix.findings import Finding
from devfix.flow import Flow
from devfix.models.torch_api import FACTORIES, LEGACY

_NAMES = {*FACTORIES, *LEGACY, "torch.from_numpy", "torch.frombuffer", "torch.normal", "Tensor.cpu"}
_MADE = tuple(sorted({f"{name.rpartition('.')[2]}(" for name in _NAMES} | {"Generator(", "sample("}))


@dataclass(frozen=True)
class PlaceFactory(Codemod):
    """Make tensors on the device of the tensors they are combined with.

    ## What it does
    Finds `torch.zeros`, `ones`, `arange`, `linspace`, `eye`, `tensor`, ... and `torch.LongTensor` and the like
    without a device, whose result is combined with a tensor on another device: a parameter of the function
    or what was computed from it, a parameter of the module, or what was moved to a device. devfix follows the
    new tensor through assignments, views, lists, loops, branches and the functions of the file to the
    operation that fails. It also finds tensors that take their type from another one (`dtype=x.dtype`) but
    stay on the CPU; state that a module keeps in the size of its input; state that a class other than a module
    keeps for its methods; what is sent to other processes; what is made again under a check of devices; and
    inputs made up to trace a model or count its operations; and what a method gives, where the others of its
    object make theirs on `self.device`. Three calls raise by themselves: an old constructor that is given an
    accelerator as its device, `pin_memory=True` where there is no CUDA, and a loader, sampler or split that gets
    a `torch.Generator` of a device, since it draws its numbers on the CPU.

    The device is that of the other tensor (`x.device`), written with the name that the function already has
    for it (`device`); where it is combined with a layer only, that of the module's parameters. Calls that take
    no `device=` get `.to(...)`, and so do calls of functions of the file that make the tensor but get no
    argument that has a device. Old constructors become `torch.tensor(..., dtype=..., device=...)`. A tensor made
    before the one it is combined with is moved next to the others that are, or where they are combined.

    ## Why is this bad?
    Factories make CPU tensors, so the function works until its input is on an accelerator, and then raises
    "Expected all tensors to be on the same device"
    (https://pytorch.org/docs/stable/tensor_attributes.html#torch.device).

    ## Fix safety
    Safe where the device is that of the very tensor it is combined with, and the file shows that this tensor
    may be on an accelerator: the `forward` of a module gets it, the function moves it or asks for its device
    and is given no other, or a call in the file passes a tensor on one. On the CPU nothing changes then.
    Unsafe where the only evidence is a tensor parameter, since all callers may be on the CPU; where nobody
    names the function, or nothing in the project is moved; behind an option that no call in the file sets;
    where only its use says that a value is a tensor, or it may be None; where a program next to it sets the
    default device; where nothing fails but the result would stay on the CPU; and where the tensor is sent,
    rebuilt, kept by a class, made up for a model, or made before the one it is combined with.
    There is no finding for tensors without dimensions in arithmetic, a CPU index into a tensor, code that
    prepares data or builds modules, and programs, notebooks and test files that name no device.
    """

    id = "place-factory"
    words = (("torch",), _MADE)
    examples = (
        Example.changed(
            "A mask from positions, in a function that is given a tensor",
            """\
import torch


def length_mask(lengths, size):
    return torch.arange(size).unsqueeze(0) < lengths.unsqueeze(1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(length_mask(torch.tensor([1, 3], device=device), 4).sum().item())
""",
            ("torch.arange(size).unsqueeze(0) ", "torch.arange(size, device=lengths.device).unsqueeze(0) "),
            raises="same device",
        ),
        Example.changed(
            "Positions for an embedding, in a module",
            """\
import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(10, 4)
        self.positions = nn.Embedding(8, 4)

    def forward(self, ids):
        count = ids.shape[1]
        return self.tokens(ids) + self.positions(torch.arange(count))


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Embedder().to(device)
print(round(model(torch.ones(2, 3, dtype=torch.long, device=device)).sum().item(), 3))
""",
            ("self.positions(torch.arange(count)", "self.positions(torch.arange(count, device=ids.device)"),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
            "An accumulator, and an old constructor; the function has a name for the device",
            """\
import torch


def total(x):
    device = x.device
    result = torch.zeros(1)
    for row in x.unbind():
        result += (row * torch.FloatTensor([2.0, 3.0])).sum()
    return result + torch.ones(1, device=device)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(total(torch.ones(3, 2, device=device)).item())
""",
            ("result = torch.zeros(1)", "result = torch.zeros(1, device=device)"),
            ("torch.FloatTensor([2.0, 3.0]", "torch.tensor([2.0, 3.0], dtype=torch.float32, device=device"),
            raises="same device",
        ),
        Example.changed(
            "A default for an argument",
            """\
import torch


def weighted_mean(values: torch.Tensor, mask=None):
    if mask is None:
        mask = torch.ones(values.shape[0], 1)
    return (values * mask).sum() / mask.sum()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(weighted_mean(torch.ones(2, 3, device=device)).item())
""",
            ("torch.ones(values.shape[0], 1)", "torch.ones(values.shape[0], 1, device=values.device)"),
            raises="same device",
        ),
        Example(
            "Trap: a tensor without dimensions in arithmetic, and a CPU index into a tensor",
            """\
import torch


def scaled(x):
    first = x.detach()[torch.tensor([0, 1])]
    return first * torch.sqrt(torch.tensor(4.0))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(scaled(torch.ones(3, device=device)).sum().item())
""",
        ),
        Example(
            "Trap: a tensor that is moved later",
            """\
import torch


def shifted(x):
    positions = torch.arange(x.size(0)).unsqueeze(1)
    return x + positions.to(x.device) + torch.ones(x.size(0), 1).type_as(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(shifted(torch.ones(3, 2, device=device)).sum().item())
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        return iter(())  # the engine's checkers serve it: mismatches, refusals, siblings, collectives
