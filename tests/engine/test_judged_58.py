"""What was judged wrong or harmful on the public repositories of draw 58, as made-up programs."""

from __future__ import annotations

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
