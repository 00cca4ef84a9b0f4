# devfix repair -- python train.py
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(device):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(24, 6, generator=generator).to(device)
    y = (x.sum(1) > 0).long()
    data = TensorDataset(x, y)
    return DataLoader(data, batch_size=8, pin_memory=True)  # planted: pinned on the device


def evaluate(model, loader, device):
    hits = torch.zeros(2, 2)  # planted: accumulator
    for x, y in loader:
        guess = model(x.to(device)).argmax(1)
        hits.index_put_((y.to(device), guess), torch.ones(len(y), device=device), accumulate=True)
    return hits / hits.sum()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.4, 0.6]))  # planted: loss weights
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, begin = load(device), time.time()
    for epoch in range(3):
        for number, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sys.stderr.write(f"\r{number + 1}/3 {time.time() - begin:.2f}s")
        print(f"\nepoch {epoch}: loss {loss.item():.4f}, {time.time() - begin:.6f} s")
    print(evaluate(model, loader, device).numpy().round(3).tolist())


if __name__ == "__main__":
    main()
