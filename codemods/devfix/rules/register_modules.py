"""`register-modules`: submodules in plain lists and dicts become a ModuleList or ModuleDict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow


@dataclass(frozen=True)
class RegisterModules(Codemod):
    """Register submodules that are kept in plain lists and dicts.

    ## What it does
    Finds lists, tuples, dicts and comprehensions of submodules that `__init__` stores in an attribute
    of an `nn.Module` and whose elements other methods run, also if they are built with `append`, in
    branches, as a sum or as lists of lists, are copied, or are returned by functions of the file and
    methods of the class. The value becomes an `nn.ModuleList` or `nn.ModuleDict`, written with the file's
    name for `torch.nn`, and so does each list in it.

    ## Why is this bad?
    A module only registers submodules that are attributes or elements of such containers. Those in a
    plain list stay on the CPU when the model moves, are not trained, since `parameters()` misses them,
    and are not saved, since `state_dict()` misses them
    (https://pytorch.org/docs/stable/generated/torch.nn.ModuleList.html).

    ## Fix safety
    Always unsafe: `parameters()` and `state_dict()` now include the submodules, so the model trains
    differently, and older checkpoints do not load strictly. There is no fix where the container is sliced,
    concatenated, passed on or used in another way that a ModuleList or ModuleDict does not allow, where its
    keys may not be strings, or where only their use says that the elements are modules. There is no finding
    in classes that are containers themselves, and where the elements are also registered (attributes,
    `nn.Sequential(*layers)`, `add_module`), moved or trained one by one, left out on purpose (teachers,
    frozen networks, `[module]` with a comment), or have no parameters.
    """

    id = "register-modules"
    words = (("torch",), ("def forward", "Module"), ("__init__",))
    examples = (
        Example.changed(
            "A list of layers",
            """\
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(depth)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Stack(2).to(device)
print(round(model(torch.ones(2, 4, device=device)).sum().item(), 4))
""",
            (
                "        self.layers = [nn.Linear(4, 4) for _ in range(depth)]\n",
                "        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])\n",
            ),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example.changed(
            "A dict of heads",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"mean": nn.Linear(4, 1), "scale": nn.Linear(4, 1)}

    def forward(self, x):
        return sum(head(x) for head in self.heads.values())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Heads().to(device)
print(round(model(torch.ones(2, 4, device=device)).sum().item(), 4))
""",
            (
                '        self.heads = {"mean": nn.Linear(4, 1), "scale": nn.Linear(4, 1)}\n',
                '        self.heads = nn.ModuleDict({"mean": nn.Linear(4, 1), "scale": nn.Linear(4, 1)})\n',
            ),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example(
            "Trap: a list of modules that are already registered",
            """\
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.layers = [self.first, self.second]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Stack().to(device)
print(round(model(torch.ones(2, 4, device=device)).sum().item(), 4))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        return iter(())  # `checkers/plain_containers.py` finds them
