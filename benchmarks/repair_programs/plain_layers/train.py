# devfix repair -- python train.py
import itertools

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, branches):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.branches = [nn.Linear(width, width) for _ in range(branches)]  # planted: list of modules
        self.mix = torch.softmax(torch.arange(float(branches)), 0)  # planted: buffer

    def forward(self, x):
        outs = torch.stack([branch(self.norm(x)) for branch in self.branches])
        return x + (self.mix[:, None, None] * outs).sum(0)

    def all_parameters(self):
        return itertools.chain(self.parameters(), *(b.parameters() for b in self.branches))


class Tower(nn.Module):
    def __init__(self, depth=3, width=8):
        super().__init__()
        self.blocks = []
        for index in range(depth):
            self.blocks.append(Block(width, 1 + index))  # planted: list of modules
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def run():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tower = Tower().to(device)
    parameters = list(tower.out.parameters())
    for block in tower.blocks:
        parameters.extend(block.all_parameters())
    optimizer = torch.optim.SGD({id(p): p for p in parameters}.values(), lr=0.05)
    x, y = torch.randn(12, 8).to(device), torch.randint(0, 2, (12,)).to(device)
    for _ in range(4):
        loss = nn.functional.cross_entropy(tower(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(round(loss.item(), 4))


run()
