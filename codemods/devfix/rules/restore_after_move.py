"""`restore-after-move`: optimizer state and averaged weights are made on the model's final device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod, Example
from devfix.findings import Finding
from devfix.flow import Flow

_OPTIMIZER = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def checkpoint():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    return model.state_dict(), optimizer.state_dict()


torch.manual_seed(0)
weights, state = checkpoint()
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model.load_state_dict(weights)
{second}optimizer.load_state_dict(state)
{third}loss = model(torch.ones(3, 4, device=device)).pow(2).mean()
loss.backward()
optimizer.step()
print(round(model.weight.sum().item(), 4))
"""
_AVERAGE = """\
import copy

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
{0}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 4).to(device)).sum().backward()
optimizer.step()
with torch.no_grad():
    for old, new in zip(ema.parameters(), model.parameters()):
        old.mul_(0.9).add_(new, alpha=0.1)
print(round(ema.weight.sum().item(), 4))
"""
_MOVE = "model.to(device)\n"

EXAMPLES: tuple[Example, ...] = (
    Example(
        "The optimizer's state is restored while the model is on the CPU",
        _OPTIMIZER.format(second="", third=_MOVE),
        _OPTIMIZER.format(second=_MOVE, third=""),
        raises="same device|Expected all tensors",
    ),
    Example(
        "An average of the weights that is left behind",
        _AVERAGE.format("ema = copy.deepcopy(model)\nmodel.to(device)"),
        _AVERAGE.format("model.to(device)\nema = copy.deepcopy(model)"),
        raises="same device|Expected all tensors",
    ),
    Example(
        "Trap: an optimizer that is made before the move, and restored after it",
        _OPTIMIZER.format(second=_MOVE, third=""),
    ),
)


@dataclass(frozen=True)
class RestoreAfterMove(Codemod):
    """Move a model before restoring its optimizer's state or copying its weights.

    ## What it does
    Finds `optimizer.load_state_dict(..)`, functions out of sight that are given the optimizer and restore
    it by their name (`restore_checkpoint(..)`), `Adagrad(model.parameters())` and copies of the weights for
    averaging (`ModelEma(model)` of timm, `ExponentialMovingAverage` of torch_ema, `EMAModel` of
    diffusers, classes of the file that clone in `__init__`, and `copy.deepcopy(model)` that a loop over
    `zip(ema.parameters(), model.parameters())` keeps up to date) before the `model.to(device)` of the same
    function, and puts the move first.

    Making an optimizer before the move is fine: the parameters stay the same objects. There is no finding for
    optimizers without state, code that moves the state itself, copies that are moved or given a device,
    and models that come from elsewhere and may be on a device already.

    ## Why is this bad?
    `load_state_dict` copies the state to the device that the parameters are on *at that time*
    (https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html). A later
    `model.to(device)` moves the parameters but not the state, so the first step raises
    "Expected all tensors to be on the same device". A copy of the weights is left behind in the same way.

    ## Fix safety
    Safe where the model is made in sight and nothing in between rebinds it or changes its layers: on the
    CPU the order makes no difference. Unsafe where a function out of sight made the model, where
    something in between reads or runs it, and for classes that are known only by their name. There is no fix
    where the move cannot be put first.
    """

    id = "restore-after-move"
    words = (
        ("torch",),
        ("load_", "restore_", "resume_", "Adagrad(", "EMA", "Ema", "ExponentialMovingAverage(", "deepcopy("),
        (".to(", ".cuda("),
    )
    examples = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        return iter(())  # `checkers/outruns.py` finds them
