"""`module-never-moved`: a module is run on tensors on a device, and nothing moves it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow


@dataclass(frozen=True)
class ModuleNeverMoved(Codemod):
    """Move a module to the device of the tensors it is run on.

    ## What it does
    Finds a module with weights or buffers that is made on the CPU, run on tensors that were moved to a
    device, and never moved itself: a second network, a loss with class weights, a metric or resampler, a
    copy of a model. The fix moves it to the device of those tensors where it is made or, if layers are
    attached or state is loaded later, after that. It also finds a module that is passed together with a
    device to a function that computes with it (`calc_loss(model, batch, device)`), the arm of an `if`
    that forgets the move, and the entry of a dict of networks that is set to `eval()` and run, but not
    moved as the others are; and a network that goes to the CPU to be saved (`torch.save(net.cpu(), path)`) and is
    run on the device afterwards: the fix moves it there again.

    Where neither the class nor a run is in sight, the surrounding code may show it: a network from a
    function out of sight that is given no device (`net = resnet18()`, `net.parameters()`, `net(x.cuda())`);
    one that a loss makes for each call; an entry or submodule without the `.to(device)` that all others
    next to it have; a function that maps weights to its `device` but returns the model on the CPU; a method
    that moves its inputs to `self.device` and runs `self.model`, which only other methods move.

    ## Why is this bad?
    A module stays where it was made until something moves it. If its weights and inputs are on different
    devices, its first layer raises "Expected all tensors to be on the same device"
    (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to).

    ## Fix safety
    Safe where devfix sees what the module is made of and the move of a tensor that it is run on: on the
    CPU the move does nothing. Unsafe where the class of the module is out of sight, or where the module is
    made in one function and run in another: code out of sight might move it. For a class out of sight, only
    its name and its uses (`parameters()`, `eval()`) suggest that it has weights at all. There is no finding
    for modules that another module moves, that are passed to code out of sight before they are run, or that
    a framework places.
    """

    id = "module-never-moved"
    words = ((".to(", ".cuda(", "device", "Module"), ("torch",))
    examples = (
        Example.changed(
            "A second network and a loss with class weights",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = nn.Linear(4, 3).to(device)
head = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
inputs, labels = torch.randn(5, 4), torch.arange(5) % 3
inputs, labels = inputs.to(device), labels.to(device)
loss = criterion(head(encoder(inputs)), labels)
loss.backward()
print(round(loss.item(), 4))
""",
            ("Sequential(nn.Linear(3, 3), nn.ReLU())", "Sequential(nn.Linear(3, 3), nn.ReLU()).to(device)"),
            ("weight=torch.tensor([1.0, 2.0, 3.0]))", "weight=torch.tensor([1.0, 2.0, 3.0])).to(device)"),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
            "A teacher that an object keeps next to its model",
            """\
import torch
from torch import nn


class Trainer:
    def __init__(self, device):
        self.device = device
        self.student = nn.Linear(4, 2).to(device)
        self.teacher = nn.Linear(4, 2)

    def step(self, x):
        x = x.to(self.device)
        return nn.functional.mse_loss(self.student(x), self.teacher(x)).item()


torch.manual_seed(0)
trainer = Trainer("cuda" if torch.cuda.is_available() else "cpu")
print(round(trainer.step(torch.ones(3, 4)), 4))
""",
            ("self.teacher = nn.Linear(4, 2)", "self.teacher = nn.Linear(4, 2).to(self.device)"),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
            "A function that moves its data, and not the model that it is given",
            """\
import torch
from torch import nn


def evaluate(model, x, y):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = x.to(device), y.to(device)
    return nn.functional.mse_loss(model(x), y).item()


torch.manual_seed(0)
net = nn.Linear(4, 2)
print(round(evaluate(net, torch.ones(3, 4), torch.ones(3, 2)), 4))
""",
            ('else "cpu")\n', 'else "cpu")\n    model.to(device)\n'),
            safety=Safety.UNSAFE,
            raises="same device|Expected all tensors",
        ),
        Example.changed(
            "One branch moves the model, the other does not",
            """\
import torch
from torch import nn


class Net(nn.Linear):
    pass


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
state = nn.Linear(4, 2).state_dict()
if state:
    model = Net(4, 2)
    model.load_state_dict(state)
else:
    model = Net(4, 2).to(device)
print(round(model(torch.ones(3, 4).to(device)).sum().item(), 4))
""",
            ("    model = Net(4, 2)\n", "    model = Net(4, 2).to(device)\n"),
            safety=Safety.UNSAFE,
            raises="same device|Expected all tensors",
        ),
        Example(
            "Trap: a teacher that stays on the CPU on purpose, and a loss without weights",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
student = nn.Linear(4, 2).to(device)
teacher = nn.Linear(4, 2)
criterion = nn.MSELoss()
x = torch.ones(3, 4).to(device)
print(round(criterion(student(x), teacher(x.cpu()).to(device)).item(), 4))
""",
        ),
        Example(
            "Trap: a layer that its parent module moves",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layer = nn.Linear(4, 2)
model = nn.Sequential(layer, nn.ReLU()).to(device)
x = torch.ones(3, 4).to(device)
print(round((model(x) + layer(x)).sum().item(), 4))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        return iter(())  # `checkers/mismatches.py` and `checkers/siblings.py` find them
