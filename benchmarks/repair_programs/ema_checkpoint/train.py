# devfix repair -- python train.py
import os
import tempfile

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def update(self, model):
        for name, value in model.state_dict().items():
            self.shadow[name].mul_(self.decay).add_(value.detach(), alpha=1 - self.decay)

    def load(self, shadow):
        self.shadow = shadow


def save(path, model, ema, optimizer, best):
    torch.save(
        {"model": model.state_dict(), "ema": ema.shadow, "optimizer": optimizer.state_dict(), "best": best},
        path,
    )


def resume(path, model, ema, optimizer):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    ema.load(checkpoint["ema"])  # planted: checkpoint
    return checkpoint["best"]  # planted: checkpoint


def build(device):
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)).to(device)
    return model, EMA(model), torch.optim.Adam(model.parameters(), lr=0.01)


def fit(model, ema, optimizer, x, y, best, steps=4):
    for _ in range(steps):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        best = torch.minimum(best, loss.detach())
    return best


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(32, 6).to(device), torch.randn(32, 1).to(device)
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    model, ema, optimizer = build(device)
    best = torch.tensor(float("inf")).to(device)
    save(path, model, ema, optimizer, fit(model, ema, optimizer, x, y, best))

    model, ema, optimizer = build(device)
    best = fit(model, ema, optimizer, x, y, resume(path, model, ema, optimizer))
    print(f"best {best.item():.5f}")
    print(f"ema {sum(v.abs().sum() for v in ema.shadow.values()).item():.4f}")


if __name__ == "__main__":
    main()
