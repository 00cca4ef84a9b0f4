"""What was judged wrong or harmful on the public repositories of draw 58, as made-up programs."""

from __future__ import annotations

import pytest
from snippets import CHOSEN, alone, codemods  # noqa: F401

ALTERNATIVES = """
class Base(nn.Module):
    def __init__(self, device, n):
        super().__init__()
        self.place, self.fc = lambda x: PLACED, nn.Linear(n, n)
    def forward(self, x):
        return self.fc(self.place(x))
class One(Base):
    pass
class Two(Base):
    def __init__(self, device, width):
        super().__init__(device, width)
def main(kind, rows):
    made = One if kind == "one" else Two
    net = made(device=device, n=3).to(device)
    for x, y in torch.utils.data.DataLoader(rows, batch_size=2):
        net(x).sum().backward()
"""


def test_an_alternative_that_cannot_be_made_is_none() -> None:
    assert not codemods(CHOSEN + ALTERNATIVES.replace("PLACED", "x.to(device)"))
    assert codemods(CHOSEN + ALTERNATIVES.replace("PLACED", "x * 2")) == ["move-inputs"]


PARTS = """
class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x):
        return self.fc(x), x
class Trainer:
    def __init__(self, training=True, device="cpu"):
        self.gen = Gen()
        self.training = training
        if self.training:
            self.part = nn.Linear(2, 2)
        self.setup(device)
    def setup(self, device):
        self.gen.to(device)
        if TEST:
            self.part.to(device)
    def train(self, x):
        a, b = self.gen(x)
        return self.part(a)
"""


@pytest.mark.parametrize("test", ["self.training", "not self.training", "self.eager"])
def test_a_part_that_is_made_on_one_path_is_moved_on_that_path(test: str) -> None:
    found = codemods(PARTS.replace("TEST", test))
    assert ("module-never-moved" in found) is (test != "self.training")
