# devfix repair -- python train.py
import torch
from schedule import Schedule
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, size=2, width=32, steps=50):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.inp = nn.Linear(size, width)
        self.out = nn.Linear(width, size)

    def forward(self, x, t):
        return self.out(torch.relu(self.inp(x) + self.time(t)))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    schedule = Schedule()
    model = Denoiser().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    data = torch.randn(64, 2) * 0.3 + torch.tensor([1.0, -1.0])
    for epoch in range(3):
        for x in data.split(16):
            x = x.to(device)
            t = torch.randint(0, schedule.steps, (x.shape[0],))  # planted: factory
            noise = torch.randn(x.shape)  # planted: factory
            loss = (model(schedule.add_noise(x, noise, t), t) - noise).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    with torch.no_grad():
        x = torch.ones(8, 2)  # planted: factory
        for t in reversed(range(schedule.steps)):
            x = schedule.step(model, x, t)
    print(f"mean {x.mean().item():.4f}")


if __name__ == "__main__":
    main()
