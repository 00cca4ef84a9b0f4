# devfix repair --devices 2 -- python train.py
"""Two halves of a model on two GPUs."""

import torch
from torch import nn


def devices():
    if torch.cuda.device_count() > 1:
        return torch.device("cuda:0"), torch.device("cuda:1")
    return torch.device("cpu"), torch.device("cpu")


class Pipeline(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.embed = nn.Embedding(20, 12).to(first)
        self.lower = nn.Sequential(nn.Linear(12, 16), nn.ReLU()).to(first)
        self.upper = nn.Sequential(nn.Linear(16, 16), nn.ReLU()).to(second)
        self.head = nn.Linear(16, 20)  # planted: module never moved

    def forward(self, ids):
        x = self.lower(self.embed(ids))
        x = self.upper(x)  # planted: between the stages
        return self.head(x.mean(1))


def main():
    torch.manual_seed(0)
    first, second = devices()
    model = Pipeline(first, second)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randint(0, 20, (5, 8, 6))
    for ids in data:
        ids = ids.to(first)
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0])  # planted: targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
