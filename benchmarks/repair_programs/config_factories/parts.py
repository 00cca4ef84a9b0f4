import torch
from torch import nn


def make_prior(classes, device="cpu"):
    counts = torch.arange(1.0, classes + 1, device=device)
    return counts / counts.sum()


def make_model(config):
    return nn.Sequential(nn.Linear(6, config.width), nn.Tanh(), nn.Linear(config.width, config.classes))


class LogitAdjusted(nn.Module):
    """Cross entropy whose scores are shifted by the classes' frequencies."""

    def __init__(self, prior, smoothing=0.1):
        super().__init__()
        self.shift = prior.log()
        self.smoothing = smoothing

    def forward(self, scores, target):
        eye = torch.eye(scores.shape[1])
        soft = eye[target] * (1 - self.smoothing) + self.smoothing / scores.shape[1]  # planted: factory
        return -(soft * (scores + self.shift).log_softmax(1)).sum(1).mean()
