# devfix repair -- python train.py
"""A graph network on one graph, whose nodes are masked into train and test."""

import torch
import torch.nn.functional as F
from torch import nn


class Graph:
    def __init__(self, nodes=30, edges=80, classes=3):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(nodes, 7, generator=generator)
        self.edges = torch.randint(0, nodes, (2, edges), generator=generator)
        self.y = torch.randint(0, classes, (nodes,), generator=generator)
        self.train_mask = torch.rand(nodes, generator=generator) < 0.6

    def to(self, device):
        self.x = self.x.to(device)
        self.edges = self.edges.to(device)
        self.y.to(device)  # planted: result dropped
        return self


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, edges):
        source, target = edges
        degree = torch.zeros(len(x)).index_add_(0, target, torch.ones(len(target)))  # planted: factory
        x = self.linear(x)
        out = torch.zeros_like(x).index_add_(0, target, x[source])
        return out / degree.clamp(min=1)[:, None] + x


class GCN(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.one = Convolution(inputs, hidden)
        self.two = Convolution(hidden, classes)

    def forward(self, graph):
        return self.two(F.relu(self.one(graph.x, graph.edges)), graph.edges)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graph = Graph().to(device)
    model = GCN(7, 16, 3).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    classes = torch.bincount(graph.y, minlength=3).float()
    for epoch in range(4):
        out = model(graph)[graph.train_mask]
        loss = F.cross_entropy(out, graph.y[graph.train_mask], weight=1 / classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"Epoch {epoch:02d}, loss {loss.item():.4f}")
    with torch.no_grad():
        right = model(graph).argmax(1) == graph.y
    print(f"train {right[graph.train_mask].float().mean().item():.3f}")


if __name__ == "__main__":
    main()
