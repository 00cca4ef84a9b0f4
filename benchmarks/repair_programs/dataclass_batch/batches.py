from dataclasses import dataclass

import torch


@dataclass
class Batch:
    tokens: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor

    def to(self, device):
        return Batch(
            tokens=self.tokens.to(device),
            lengths=self.lengths.to(device),
            labels=self.labels,  # planted: dataclass
            weights=self.weights,  # planted: dataclass
        )


def make_batches(count, size=8, length=7):
    generator = torch.Generator().manual_seed(5)
    for _ in range(count):
        lengths = torch.randint(1, length + 1, (size,), generator=generator)
        tokens = torch.randint(1, 25, (size, length), generator=generator)
        yield Batch(tokens, lengths, tokens[:, 0] % 2, torch.rand(size, generator=generator))
