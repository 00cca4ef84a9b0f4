"""A program with seven strays: six are found in its text, and one by a run only."""

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.emb = nn.Embedding(50, n)
        self.heads = {"a": nn.Linear(n, 4), "b": nn.Linear(n, 2)}
        self.scale = torch.ones(n)
        self.pos = self._positions(8, n)

    def _positions(self, t, n):
        p = torch.arange(t).unsqueeze(1) * torch.ones(n)
        return p / t

    def forward(self, ids, which):
        x = self.emb(ids) * self.scale + self.pos[: ids.shape[1]]
        return self.heads[which](x.mean(1))


class Trainer:
    def __init__(self, cfg):
        self.dev = torch.device(cfg["device"])
        self.net = Net().to(self.dev)
        self.crit = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0, 1.0]))
        self.history = []

    def batches(self):
        g = torch.Generator().manual_seed(0)
        for _ in range(3):
            yield {
                "ids": torch.randint(0, 50, (4, 8), generator=g),
                "y": torch.randint(0, 4, (4,), generator=g),
            }

    def fit(self):
        for b in self.batches():
            loss = self.crit(self.net(b["ids"], "a"), b["y"])
            self.net.zero_grad()
            loss.backward()
            with torch.no_grad():  # by hand: an optimizer takes a second to be imported
                for weight in self.net.parameters():
                    if weight.grad is not None:
                        weight -= 0.1 * weight.grad
            self.history.append(loss.detach())
        print(np.mean([h.numpy() for h in self.history]))


if __name__ == "__main__":
    Trainer({"device": "cuda" if torch.cuda.is_available() else "cpu"}).fit()
