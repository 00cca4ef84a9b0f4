# devfix repair -- python train.py
import torch
from torch import nn


class Augment:
    """The same noise for the same seed."""

    def __init__(self, scale, seed):
        self.scale = scale
        self.generator = torch.Generator().manual_seed(seed)  # planted: generator

    def __call__(self, x):
        keep = torch.empty(x.shape, device=x.device).bernoulli_(0.99, generator=self.generator)
        return x * keep


def shuffled(x, y, generator):
    order = torch.randperm(len(x), generator=generator)
    return x[order], y[order]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(40, 8).to(device)
    y = torch.randint(0, 3, (40,))  # planted: targets
    model = nn.Linear(8, 3).to(device)
    augment = Augment(0.1, seed=11)
    order = torch.Generator().manual_seed(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        xs, ys = shuffled(x, y, order)
        total = torch.tensor(0.0)
        for a, b in zip(xs.split(10), ys.split(10)):
            loss = nn.functional.cross_entropy(model(augment(a)), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"{epoch} {total.item() / 4:.3f}")


if __name__ == "__main__":
    main()
