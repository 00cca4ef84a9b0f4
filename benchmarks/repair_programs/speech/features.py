import math

import torch
from torch import nn


class Spectrogram(nn.Module):
    def __init__(self, size=16, hop=8):
        super().__init__()
        self.size, self.hop = size, hop
        self.window = torch.hann_window(size)  # planted: buffer

    def forward(self, waves):
        found = torch.stft(waves, self.size, self.hop, window=self.window, return_complex=True)
        return found.abs().transpose(1, 2)


class Mel(nn.Module):
    def __init__(self, bins=9, bands=6):
        super().__init__()
        self.bins, self.bands = bins, bands

    @property
    def filters(self):
        low = torch.linspace(0, 1, self.bins)[:, None]  # planted: property
        high = torch.linspace(0, 1, self.bands)[None]  # planted: property
        return torch.exp(-((low - high) ** 2) * 20)

    def forward(self, spectrum):
        return torch.log1p(spectrum @ self.filters)


def positions(length, width):
    steps = torch.arange(length)[:, None] / 10 ** (
        torch.arange(width) / width
    )  # planted: factories in a helper
    return torch.sin(steps * math.pi)
