"""What was judged wrong or harmful on the public repositories of draw 57, as made-up programs."""

from __future__ import annotations

import pytest
from snippets import CHOSEN, codemods

LOSSES = """
def start(kind):
    if kind == "a":
        return nn.CrossEntropyLoss()
    if kind == "b":
        return nn.CTCLoss()
    return nn.NLLLoss()
def step(x, y, kind):
    net, loss = nn.Linear(4, 5).to(device), start(kind)
    out = net(x.to(device)).log_softmax(-1)
    if kind == "b":
        return loss(out, y.to(device), torch.tensor([3, 2]), torch.tensor([1, 2]))
    return loss(out, y.to(device))
step(torch.ones(3, 2, 4), torch.ones(2, 2), input())
"""


def test_one_of_several_losses_takes_lengths_on_the_cpu() -> None:
    assert not codemods(CHOSEN + LOSSES)
    assert codemods(CHOSEN + LOSSES.replace("nn.CTCLoss()", "nn.MSELoss()"))
