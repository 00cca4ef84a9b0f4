"""`reorder-to`: a module is moved after its last change, not before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers import late_moves, leaves, surgeries, swaps
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow

_HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
_RAISES = "Expected all tensors to be on the same device"


@dataclass(frozen=True)
class ReorderTo(Codemod):
    """Move a module to its device after its last change, not before.

    ## What it does
    Finds submodules and parameters that are attached to a module after `module.to(device)` or
    `module.cuda()`: `model.head = nn.Linear(...)`, `model.layers[0] = ...`, `setattr`, `add_module`,
    `append`, an `nn.Parameter`, or a function of the file that attaches layers to its argument.
    The fix moves the module once, after the last change and before the first use, and deletes the earlier
    moves. If the model was used in between (run, passed to code that may run it, wrapped, the optimizer's
    state loaded), the earlier moves stay, and a second one follows.

    It also finds moves that come too late: after the module was run on a tensor that is on the device, after
    DistributedDataParallel, or only in one branch of an `if` that has nothing to do with devices. (Those that
    come after the state of the optimizer was loaded are `restore-after-move`'s.) And it finds layers that
    replace old ones, or parameters that a wrapper adds, without regard to the device of the old layer; and
    parameters that are moved after they were made parameters: `self.scale = nn.Parameter(x).to(device)`.

    ## Why is this bad?
    `Module.to` moves the parameters that are there when it is called
    (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to). A layer
    that is attached later stays on the CPU, and the first forward pass on an accelerator raises
    "Expected all tensors to be on the same device".

    ## Fix safety
    Safe where devfix sees attachment, move and use: on the CPU nothing changes. A move is deleted only if
    the new one runs on every path on which it ran, and nothing in between can tell the difference;
    otherwise it stays and a second one is added, or the fix is unsafe. Also unsafe where only its name
    says that a class is a layer, where a move also casts (`.to(device, dtype)`), where the device must
    be taken from the model's first parameter, and for layers that are replaced by a function whose
    callers are out of sight. There is no finding where a framework places the model (accelerate's `prepare`,
    Trainer, Lightning), for layers without parameters, and where the module, or what is attached, is moved
    afterwards.
    """

    id = "reorder-to"
    words = (
        (".to(", ".cuda(", "setattr(", "_modules[", ".weight.data[", "Parameter("),
        ("torch", "nn."),
    )
    examples = (
        Example.changed(
            "The head is replaced after the move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
model.to(device)
for parameter in model.parameters():
    parameter.requires_grad = False
model[2] = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            ("model.to(device)\n", ""),
            ("model[2] = nn.Linear(8, 2)\n", "model[2] = nn.Linear(8, 2)\nmodel.to(device)\n"),
            raises=_RAISES,
        ),
        Example.changed(
            "Used in between: a second move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)).to(device)
x = torch.ones(1, 4, device=device)
print(model(x).sum().item())
model.add_module("head", nn.Linear(8, 2))
print(model(x).sum().item())
""",
            ('head", nn.Linear(8, 2))\n', 'head", nn.Linear(8, 2))\nmodel.to(device)\n'),
            raises=_RAISES,
        ),
        Example.changed(
            "A function of the file attaches layers",
            _HEAD
            + """

class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.low = nn.Linear(base.in_features, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.low(x)


def adapt(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Adapted(child))


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model = model.to(device)
adapt(model)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            ("4, 8), nn.ReLU(), nn.Linear(8, 2))\n", "4, 8), nn.ReLU(), nn.Linear(8, 2))\nadapt(model)\n"),
            ("model = model.to(device)\nadapt(model)\n", "model = model.to(device)\n"),
            raises=_RAISES,
        ),
        Example.changed(
            "A wrapper adds a parameter to a layer that may have been moved",
            _HEAD
            + """

class Scaled(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = nn.Parameter(torch.ones(base.out_features))

    def forward(self, x):
        return self.base(x) * self.scale


class Scaler:
    def __init__(self, **models):
        self.models = models

    def scale(self, name):
        for model in self.models.values():
            setattr(model, name, Scaled(getattr(model, name)))


model = nn.Sequential(nn.Linear(4, 2)).to(device)
Scaler(model=model).scale("0")
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            ("torch.ones(base.out_features))", "torch.ones(base.out_features, device=base.weight.device))"),
            raises=_RAISES,
            safety=Safety.UNSAFE,
        ),
        Example(
            "Trap: moved again, moved by itself, or nothing to move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)).to(device)
model[0] = nn.Linear(4, 8)
model.to(device)
model[1] = nn.GELU()
model[2] = nn.Linear(8, 2).to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        analysis = flow.facts()
        for checker in (surgeries, late_moves, swaps, leaves):
            yield from checker.findings(analysis)
