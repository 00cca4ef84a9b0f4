"""The networks that hyperparams.yaml names."""

import torch.nn as nn


class Linear(nn.Module):
    def __init__(self, n_neurons, input_size):
        super().__init__()
        self.w = nn.Linear(input_size, n_neurons)

    def forward(self, x):
        return self.w(x)


class Encoder(nn.Module):
    """Frames with some context on both sides, then one layer more."""

    def __init__(self, input_size, n_neurons):
        super().__init__()
        self.conv = nn.Conv1d(input_size, n_neurons, kernel_size=5, padding=2)
        self.linear = nn.Linear(n_neurons, n_neurons)
        self.activation = nn.LeakyReLU()

    def forward(self, feats):
        x = self.activation(self.conv(feats.transpose(1, 2))).transpose(1, 2)
        return self.activation(self.linear(x))
