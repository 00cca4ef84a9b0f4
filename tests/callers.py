"""A program in two files: `main.py` passes a model and a loader to the functions of `engine.py`."""

from __future__ import annotations

ENGINE = """
import torch


def train(model, loader):
    for x, y in loader:
        model(x)


def evaluate(model, loader, device):
    for x, y in loader:
        model(x.to(device))
"""
MAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from engine import train, evaluate


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2).to(device)
    loader = DataLoader([1])
    train(model, loader)
    evaluate(model, loader, device)
"""
