import math

import torch
from torch import nn


class Cache:
    """Keys and values of what has been read."""

    def __init__(self, batch, length, width):
        self.k = torch.zeros(batch, length, width)  # planted: cache
        self.v = torch.zeros(batch, length, width)  # planted: cache
        self.used = 0

    def extend(self, k, v):
        end = self.used + k.shape[1]
        self.k[:, self.used : end] = k
        self.v[:, self.used : end] = v
        self.used = end
        return self.k[:, :end], self.v[:, :end]


class Decoder(nn.Module):
    def __init__(self, vocabulary=24, width=12, length=32):
        super().__init__()
        self.length, self.width = length, width
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(length, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.forbidden = [0, 1]

    def forward(self, ids, cache):
        start = cache.used
        places = torch.arange(start, start + ids.shape[1])  # planted: factory
        x = self.token(ids) + self.place(places)
        k, v = cache.extend(self.k(x), self.v(x))
        scores = self.q(x) @ k.transpose(1, 2) / math.sqrt(self.width)
        future = torch.arange(k.shape[1])[None] > places[:, None]
        x = x + scores.masked_fill(future, -1e9).softmax(-1) @ v
        logits = self.head(x)[:, -1]
        logits[:, self.forbidden] = -1e9
        return logits

    @torch.no_grad()
    def generate(self, prompt, count):
        cache = Cache(len(prompt), self.length, self.width)
        tokens, ids = [], prompt
        penalty = torch.zeros(len(prompt), self.token.num_embeddings)  # planted: factory
        for _ in range(count):
            logits = self(ids, cache) - penalty
            ids = logits.argmax(-1, keepdim=True)
            penalty.scatter_(1, ids, 5.0)
            tokens.append(ids.cpu())
        return torch.cat([prompt, *tokens], dim=1)  # planted: copy on the CPU
