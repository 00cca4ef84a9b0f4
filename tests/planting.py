"""Small training programs, made at random: right ones, and ones with a device bug planted in them."""

from __future__ import annotations

import random
from dataclasses import dataclass

_DEVICES = (
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    'device = "cuda" if torch.cuda.is_available() else "cpu"',
    'device = torch.device("cpu")\nif torch.cuda.is_available():\n    device = torch.device("cuda")',
)
_MOVES = ("model.to(device)", "model = model.to(device)", "model.to(device=device)  # onto the GPU")
_SURGERIES = (
    "model.head = nn.Linear(4, 3)",
    'setattr(model, "head", nn.Linear(4, 3))',
    'model.add_module("head", nn.Linear(4, 3))',
    "model.body[0] = nn.Linear(4, 4)",
    "replace_head(model)",
    "model.scale = nn.Parameter(torch.ones(3))",
)
_NOISE = (
    "# a comment of its own",
    "losses = []",
    "for parameter in model.parameters():\n    parameter.requires_grad_(True)",
    "text = 'naïve — ünïcode'",
    "",
    "count = 0; rate = 0.1",
)


@dataclass(frozen=True)
class Planted:
    """A program, and the bug in it: "" (none), "surgery", "inputs" or "one input"."""

    text: str
    bug: str


def plant(seed: int) -> Planted:
    """The program of a seed. Every one of them prints numbers and runs on the CPU."""
    rng = random.Random(seed)
    bug = rng.choice(("", "surgery", "inputs", "one input"))
    setup = [rng.choice(_DEVICES), "model = Net()"]
    surgery, move = rng.choice(_SURGERIES), rng.choice(_MOVES)
    order = [move, surgery] if bug == "surgery" else [surgery, move]
    for step in order:
        setup += rng.choices(_NOISE, k=rng.randint(0, 2))
        setup.append(step)
    setup += rng.choices(_NOISE, k=rng.randint(0, 2))
    setup.append("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    setup.append("loader = DataLoader(TensorDataset(torch.randn(6, 4), torch.arange(6) % 3), batch_size=3)")
    if rng.random() < 0.5:
        body = [*setup, *_loop(rng, bug)]
        if rng.random() < 0.5:
            body = ["def main():", *_indented(body), "", "", 'if __name__ == "__main__":', "    main()"]
        functions: list[str] = []
    else:
        functions = ["def train(model, loader, optimizer, device):", *_indented(_loop(rng, bug)), "", ""]
        body = [*setup, "train(model, loader, optimizer, device)"]
    return Planted("\n".join([*_HEAD, *functions, *body]) + "\n", bug)


_HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.head = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


def replace_head(net):
    net.head = nn.Linear(4, 3)

""".splitlines()


def _loop(rng: random.Random, bug: str) -> list[str]:
    header = rng.choice(("for x, y in loader:", "for step, (x, y) in enumerate(loader):"))
    if bug == "inputs":
        moves: list[str] = []
    elif bug == "one input":
        moves = [rng.choice(("x = x.to(device)", "y = y.to(device)"))]
    else:
        moves = rng.choice((["x, y = x.to(device), y.to(device)"], ["x = x.to(device)", "y = y.to(device)"]))
    comment = rng.choice(([], ["# one step"]))
    steps = [
        *moves,
        *comment,
        "loss = nn.functional.cross_entropy(model(x), y)",
        "optimizer.zero_grad()",
        "loss.backward()",
        "optimizer.step()",
        'print(f"{loss.item():.4f}")',
    ]
    return [header, *_indented(steps)]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line if line else "" for block in lines for line in block.split("\n")]
