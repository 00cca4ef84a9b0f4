# devfix repair --devices 0 -- python train.py
import torch
from settings import SETTINGS
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, width=6, code=3, device="cuda"):  # planted: default
        super().__init__()
        self.encode = nn.Linear(width, code, device=device)
        self.decode = nn.Linear(code, width, device=device)
        self.noise = torch.full((code,), 0.01, device=device)

    def forward(self, x):
        return self.decode(torch.tanh(self.encode(x)) + self.noise)


def batches():
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):
        yield torch.randn(8, 6, generator=generator)


def main():
    torch.manual_seed(0)
    model = Autoencoder()
    weights = torch.linspace(0.5, 1.5, 6).to(SETTINGS["device"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batch in enumerate(batches()):
        x = batch.cuda(non_blocking=True)  # planted: .cuda()
        loss = (weights * (model(x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()  # planted: synchronize
        print(f"{step} {loss.item():.4f}")


if __name__ == "__main__":
    main()
