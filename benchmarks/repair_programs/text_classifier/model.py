import math

import torch
from torch import nn


def sinusoids(length, width):
    position = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


class Classifier(nn.Module):
    def __init__(self, vocabulary, width=16, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = sinusoids(32, width)  # planted: buffer
        self.mixer = nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        return self.out(torch.relu(self.mixer(x)).mean(1))
