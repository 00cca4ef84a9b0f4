# devfix repair -- python train.py
"""Adapters are put into a model that is on its device already."""

import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.scaling = torch.tensor(alpha / rank).expand(base.out_features)  # planted: buffer

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scaling


def add_lora(model, rank):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRALinear(child, rank))
        else:
            add_lora(child, rank)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 3)))
    model.to(device)
    add_lora(model, rank=2)  # planted: surgery after the move
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.02)
    x, y = torch.randn(24, 6), torch.randint(0, 3, (24,))
    for _ in range(4):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss={loss.item():.5f}")
    merged = model[0].b @ model[0].a
    print(f"delta={merged.detach().norm().item():.5f}")


if __name__ == "__main__":
    main()
