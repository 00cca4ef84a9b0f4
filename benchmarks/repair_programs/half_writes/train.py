# devfix repair -- python train.py
"""Mixed precision; on the CPU autocast is off."""

import torch
from torch import nn


class Experts(nn.Module):
    """Each row goes through one of several experts."""

    def __init__(self, width=8, count=3):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = chosen == index
            out[rows] = expert(x[rows])  # planted: type under autocast
        return out


def main():
    torch.manual_seed(0)
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    model = nn.Sequential(nn.Linear(5, 8), Experts(), nn.Linear(8, 1)).to(device)
    criterion = nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 5)
    y = (x.sum(1, keepdim=True) > 0).float()
    for step in range(4):
        with torch.autocast("cuda", enabled=use_cuda):
            out = torch.sigmoid(model(x.to(device)))
            loss = criterion(out, y)  # planted: targets, loss under autocast
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
