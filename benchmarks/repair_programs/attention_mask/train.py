# devfix repair -- python train.py
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.heads = heads
        self.block = block
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.slopes = 2.0 ** -torch.arange(1, heads + 1)  # planted: buffer

    @property
    def causal(self):
        return torch.tril(torch.ones(self.block, self.block)).bool()  # planted: property

    def alibi(self, length):
        place = torch.arange(length)
        distance = place[None, :] - place[:, None]  # planted: factory
        return self.slopes[:, None, None] * distance

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.alibi(t)
        scores = scores.masked_fill(~self.causal[:t, :t], float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Model(nn.Module):
    def __init__(self, vocabulary=30, width=16, block=10):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, 4, block)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + self.attention(x))


def get_batch(data, block, starts):
    x = torch.stack([data[i : i + block] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + block] for i in starts])
    return x, y  # planted: batch


def main():
    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    data = torch.randint(0, 30, (200,))
    model = Model()
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(4):
        x, y = get_batch(data, 10, range(step, 160, 20))
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, 30), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
