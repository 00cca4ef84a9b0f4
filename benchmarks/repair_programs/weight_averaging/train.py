# devfix repair -- python train.py
import copy
from functools import partial

import torch
from torch import nn


class Averaged:
    def __init__(self, model):
        self.model = copy.deepcopy(model)
        self.count = torch.zeros(())

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        for mean, new in zip(self.model.parameters(), model.parameters()):
            mean += (new - mean) / self.count


def fisher(model, x, y):
    """How much each weight matters, for elastic weight consolidation."""
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    return {
        name: p.grad.detach().cpu() ** 2 for name, p in model.named_parameters()
    }  # planted: copy on the CPU


def consolidation(model, old, matters):
    return sum((matters[n] * (p - old[n]) ** 2).sum() for n, p in model.named_parameters())


def train(model, x, y, averaged, penalty, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y) + penalty(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update(model)
    return loss


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    averaged = Averaged(model)  # planted: copied before the move
    model.to(device)
    tasks = [(torch.randn(20, 4), torch.randint(0, 2, (20,))) for _ in range(2)]
    penalty = lambda model: 0.0
    for x, y in tasks:
        x, y = x.to(device), y.to(device)
        print(f"{train(model, x, y, averaged, penalty).item():.4f}")
        old = {name: p.detach().clone() for name, p in model.named_parameters()}
        penalty = partial(consolidation, old=old, matters=fisher(model, x, y))
    x, y = tasks[0]
    with torch.no_grad():
        print(
            f"{nn.functional.cross_entropy(averaged.model(x.to(device)), y).item():.4f}"
        )  # planted: targets


if __name__ == "__main__":
    main()
