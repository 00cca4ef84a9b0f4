"""A small language model: position table, causal mask, blocks in a ModuleList, a training loop."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Attention(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.triu(torch.ones(length, length), diagonal=1).bool())

    def forward(self, x):
        steps = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.mask[:steps, :steps], float("-inf"))
        return self.out(scores.softmax(dim=-1) @ v)


class Model(nn.Module):
    def __init__(self, words, width, length, depth):
        super().__init__()
        table = torch.zeros(length, width)
        position = torch.arange(length).unsqueeze(1)
        scale = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table[:, 0::2] = torch.sin(position * scale)
        table[:, 1::2] = torch.cos(position * scale)
        self.register_buffer("table", table)
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Attention(width, length) for _ in range(depth)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens) + self.table[: tokens.shape[1]]
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


@torch.no_grad()
def generate(model, tokens, count):
    for _ in range(count):
        logits = model(tokens)[:, -1]
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.arange(96).reshape(8, 12) % 7
    loader = DataLoader(TensorDataset(data[:, :-1], data[:, 1:]), batch_size=4)
    model = Model(7, 16, 12, 2)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for inputs, targets in loader:
            inputs = inputs.to(device)
            targets = targets.to(device)
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    start = torch.tensor([[1, 2]], device=device)
    print(round(loss.item(), 3), generate(model, start, 3).shape[1])


if __name__ == "__main__":
    main()
