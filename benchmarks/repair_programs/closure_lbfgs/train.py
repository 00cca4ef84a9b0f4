# devfix repair -- python train.py
"""Fits a sum of sines with L-BFGS, whose closure evaluates the model again and again."""

import torch
from torch import nn


class Sines(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.amplitude = nn.Parameter(torch.ones(count))
        self.phase = nn.Parameter(torch.linspace(0, 1, count))
        self.frequency = torch.arange(1.0, count + 1)  # planted: buffer

    def forward(self, x):
        return (self.amplitude * torch.sin(x[:, None] * self.frequency + self.phase)).sum(-1)


def fit(model, steps=3):
    x = torch.linspace(0, 6, 50)  # planted: closure
    y = torch.sin(2 * x) + 0.5 * torch.cos(x)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
    penalty = torch.tensor([1e-3, 1e-3, 1e-2, 1e-2])  # planted: closure

    def closure():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean() + (penalty * model.amplitude**2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        print(f"{optimizer.step(closure).item():.5f}")
    return x, y


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Sines().to(device)
    x, y = fit(model)
    worst = (model(x) - y).abs().max().detach().cpu().numpy()
    print(f"worst {worst:.4f}")
