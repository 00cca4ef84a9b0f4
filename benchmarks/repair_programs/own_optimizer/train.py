# devfix repair -- python train.py
import torch
from lion import Lion
from torch import nn


class Normalize:
    def __init__(self, data):
        self.mean = data.mean(0)  # planted: statistics of the CPU's data
        self.std = data.std(0)

    def __call__(self, batch):
        return (batch - self.mean) / self.std


def clip(parameters, limit):
    norm = torch.zeros(1)  # planted: accumulator
    for p in parameters:
        norm += p.grad.norm() ** 2
    norm = norm.sqrt()
    for p in parameters:
        p.grad.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
    return norm


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, target = torch.randn(48, 5) * 3 + 1, torch.randn(48, 1)
    normalize = Normalize(data)
    model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1)).to(device)
    optimizer = Lion(model.parameters(), lr=3e-3, weight_decay=0.1)
    for step in range(5):
        x, y = data.to(device), target.to(device)
        loss = nn.functional.mse_loss(model(normalize(x)), y)
        optimizer.zero_grad()
        loss.backward()
        norm = clip(list(model.parameters()), 1.0)
        optimizer.step()
        print(f"{step} {loss.item():.4f} {norm.item():.4f}")


if __name__ == "__main__":
    main()
