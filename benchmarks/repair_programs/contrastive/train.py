# devfix repair -- python train.py
import copy

import torch
import torch.nn.functional as F
from torch import nn


class MoCo(nn.Module):
    def __init__(self, encoder, size=8, queue=32, momentum=0.9, temperature=0.1):
        super().__init__()
        self.momentum = momentum
        self.temperature = temperature
        self.query = encoder
        self.key = copy.deepcopy(encoder)
        for p in self.key.parameters():
            p.requires_grad = False
        self.queue = F.normalize(torch.randn(size, queue), dim=0)  # planted: buffer
        self.pointer = 0

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.data = k.data * self.momentum + q.data * (1.0 - self.momentum)

    @torch.no_grad()
    def _enqueue(self, keys):
        count = keys.shape[0]
        self.queue[:, self.pointer : self.pointer + count] = keys.T
        self.pointer = (self.pointer + count) % self.queue.shape[1]

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.key(b), dim=1)
        positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        labels = torch.zeros(logits.shape[0], dtype=torch.long)  # planted: factory
        self._enqueue(k)
        return logits, labels


def simclr_loss(z):
    z = F.normalize(z, dim=1)
    n = len(z) // 2
    similar = z @ z.T / 0.5
    similar = similar.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))  # planted: factory
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])  # planted: factory
    return F.cross_entropy(similar, targets)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MoCo(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))).to(device)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05)
    x = torch.randn(4, 8, 10)
    noise = 0.1 * torch.randn(4, 2, 8, 10)
    for clean, (one, two) in zip(x, noise):
        a, b = (clean + one).to(device), (clean + two).to(device)
        logits, labels = model(a, b)
        loss = F.cross_entropy(logits, labels) + simclr_loss(model.query(torch.cat([a, b])))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (logits.argmax(1) == labels).sum().item()
        print(f"loss {loss.item():.4f} hits {hits}")


if __name__ == "__main__":
    main()
