"""A generated repository of any size: packages of modules, trainers and tests that import each other.

    python benchmarks/speeds/monorepo.py FOLDER --files 100000

The same number gives the same files. Every package has twenty: a settings module, models, functions on
tensors, a trainer, and plain modules without torch, as they are half of any large repository. One package
in ten has a bug that devfix finds.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

_SETTINGS = '''\
"""Settings of {package}."""

import os

import torch

NAME = "{package}"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROOT = os.environ.get("ROOT_{number}", ".")
SIZES = {sizes}
'''
_MODEL = '''\
"""A network of {package}."""

import torch
from torch import nn
from torch.nn import functional as F


class Net{index}(nn.Module):
    def __init__(self, width: int = {width}, classes: int = 10):
        super().__init__()
        self.first = nn.Linear(width, {width} * 2)
        self.norm = nn.LayerNorm({width} * 2)
        self.blocks = nn.ModuleList([nn.Linear({width} * 2, {width} * 2) for _ in range({depth})])
        self.register_buffer("scale", torch.ones(1))
        self.last = nn.Linear({width} * 2, classes)

    def widen(self, classes: int) -> None:
        self.last = nn.Linear(self.last.in_features, classes)

    def forward(self, x, mask=None):
        x = F.gelu(self.norm(self.first(x))) * self.scale
        for block in self.blocks:
            x = x + F.relu(block(x))
        if mask is None:
            mask = torch.ones(x.shape[0], 1, device=x.device)
        return self.last(x * mask)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
'''
_STEPS = '''\
"""Steps of {package}."""

import torch


def positions(x):
    return torch.arange(x.shape[1], device=x.device).unsqueeze(0).expand(x.shape[0], -1)


def smooth(loss, known, rate={rate}):
    return loss if known is None else known * (1 - rate) + loss * rate


def step(model, batch, device, optimizer, loss_function):
    inputs, targets = batch
    inputs, targets = inputs.to(device), targets.to(device)
    optimizer.zero_grad()
    loss = loss_function(model(inputs), targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), {rate})
    optimizer.step()
    return loss.item()
'''
_TRAINER = '''\
"""Training of {package}."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from {package}.model_0 import Net0, count
from {package}.settings import DEVICE, NAME
from {package}.steps import smooth, step


def main():
    parser = argparse.ArgumentParser(description=NAME)
    parser.add_argument("--epochs", type=int, default={depth})
    arguments = parser.parse_args()
    data = TensorDataset(torch.randn(64, {width}), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net0()
{order}
    optimizer = optim.SGD(model.parameters(), lr={rate})
    known = None
    for epoch in range(arguments.epochs):
        for batch in loader:
            known = smooth(step(model, batch, DEVICE, optimizer, nn.CrossEntropyLoss()), known)
        print(epoch, known, count(model))


if __name__ == "__main__":
    main()
'''
_PLAIN = '''\
"""Tables and texts of {package}: part {index}."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Record{index}:
    name: str
    values: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def total(self) -> int:
        return sum(self.values) + {width}

    def merge(self, other: Record{index}) -> Record{index}:
        return Record{index}(self.name, [*self.values, *other.values], {{**self.notes, **other.notes}})


def grouped(records: list[Record{index}]) -> dict[str, list[Record{index}]]:
    found = defaultdict(list)
    for record in records:
        if record.total() % {depth}:
            found[record.name.lower().strip()].append(record)
        elif len(record.values) > {width}:
            found["large"].append(record)
    return dict(found)


def as_text(records: list[Record{index}]) -> str:
    rows = [{{"name": one.name, "total": one.total(), "notes": one.notes}} for one in records]
    return json.dumps(sorted(rows, key=lambda row: (row["total"], row["name"])), indent={depth})
'''
_RIGHT = "    model.widen(10)\n    model.to(DEVICE)"
_WRONG = "    model.to(DEVICE)\n    model.widen(10)"
EACH = 20  # files of a package


def write(folder: Path, files: int, seed: int = 0) -> None:
    """Write so many files below a new folder."""
    chance = random.Random(seed)
    written = number = 0
    while written < files:
        package = f"area_{number // 50:03}/package_{number:05}"
        home = folder / package
        home.mkdir(parents=True)
        values = {
            "package": f"package_{number:05}",
            "number": number,
            "width": chance.randrange(8, 64),
            "depth": chance.randrange(2, 9),
            "rate": chance.choice((0.1, 0.01, 0.5)),
            "sizes": [chance.randrange(100) for _ in range(chance.randrange(3, 12))],
            "order": _WRONG if number % 10 == 0 else _RIGHT,
        }
        texts = {"__init__": "", "settings": _SETTINGS, "steps": _STEPS, "train": _TRAINER}
        texts |= {f"model_{index}": _MODEL for index in range(6)}
        texts |= {f"tables_{index}": _PLAIN for index in range(EACH - len(texts))}
        for name, text in texts.items():
            if written < files:
                index = name.rpartition("_")[2]
                (home / f"{name}.py").write_text(
                    text.format(index=index, **values) if text else "", encoding="utf-8"
                )
                written += 1
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate a repository.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.files)


if __name__ == "__main__":
    main()
