# devfix repair -- python train.py
import torch
from data import batches
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
        self.center = torch.linspace(-1, 1, 5)  # planted: buffer

    def forward(self, x):
        return self.layers(x - self.center).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = Regressor().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        worst = torch.zeros(())  # planted: accumulator
        for x, y, weight in batches(DEVICE):
            losses = weight * (model(x) - y) ** 2
            loss = losses.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.maximum(worst, losses.detach().max(), out=worst)
        print(f"epoch {epoch} loss {loss.item():.4f} worst {worst.item():.4f}")


if __name__ == "__main__":
    main()
