"""Programs that show what `restore-after-move` does; each runs as it stands."""

from __future__ import annotations

from devfix.codemod import Example

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
