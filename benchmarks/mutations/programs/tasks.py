"""Several tasks on one trunk: heads in a ModuleDict, experts in a ModuleList, statistics as buffers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Normalise(nn.Module):
    def __init__(self, width, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, x):
        if self.training:
            self.mean = (1 - self.momentum) * self.mean + self.momentum * x.detach().mean(dim=0)
            self.var = (1 - self.momentum) * self.var + self.momentum * x.detach().var(dim=0)
        return (x - self.mean) / torch.sqrt(self.var + 1e-5)


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])

    def forward(self, x):
        weights = self.gate(x).softmax(dim=-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            out = out + weights[:, index : index + 1] * expert(x)
        return out


class Tasks(nn.Module):
    def __init__(self, width, tasks):
        super().__init__()
        self.norm = Normalise(width)
        self.trunk = Experts(width, 3)
        self.heads = nn.ModuleDict({name: nn.Linear(width, size) for name, size in tasks.items()})
        layers = []
        for _ in range(2):
            layers.append(nn.Linear(width, width))
            layers.append(nn.ReLU())
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        x = self.trunk(self.norm(x))
        for layer in self.layers:
            x = layer(x)
        return {name: head(x) for name, head in self.heads.items()}


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Tasks(6, {"sort": 3, "score": 1}).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(4, 6), torch.tensor([0, 1, 2, 0]), torch.ones(4, 1)) for _ in range(3)]
for x, sort, score in batches:
    x, sort, score = x.to(device), sort.to(device), score.to(device)
    out = model(x)
    loss = F.cross_entropy(out["sort"], sort) + F.mse_loss(out["score"], score)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 3))
