"""What a collate function in view makes of items is what a loop over its loader gets."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from devfix.findings import Safety
from snippets import CHOSEN, HEAD, alone  # noqa: F401

PROGRAM = """
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def collate(batch):
    names = [one[0] for one in batch]
    rows = torch.stack([one[1] for one in batch])
    sizes = torch.tensor([len(one[1]) for one in batch])
    return names, rows, sizes, len(batch)


class Pack:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, batch):
        rows, sizes = zip(*batch)
        return pad_sequence(rows, batch_first=True, padding_value=self.pad), list(sizes)


def passed(batch):
    one, two = zip(*batch)
    return merge(one), merge(two)


def main(data):
    net = nn.Linear(4, 2).to(device)
    for {names} in DataLoader(data, collate_fn={collate}):
        {use}
"""
ALL = "names, rows, sizes, count"


@pytest.mark.parametrize(
    ("names", "collate", "use", "moved", "safety"),
    [
        (ALL, "collate", "net(rows) * sizes", "rows, sizes = rows.to(device), sizes.to(device)", Safety.SAFE),
        (ALL, "collate", "net(rows.to(device)) * sizes", "sizes = sizes.to(device)", Safety.SAFE),
        (ALL, "collate", "net(names)", None, None),
        (ALL, "collate", "net(rows.to(device)) * count", None, None),
        ("rows, sizes", "Pack(0)", "net(rows)", "rows = rows.to(device)", Safety.SAFE),
        ("rows, sizes", "Pack(0)", "net(sizes)", None, None),
        (
            "rows, sizes",
            "passed",
            "net(rows) + sizes",
            "rows, sizes = rows.to(device), sizes.to(device)",
            Safety.UNSAFE,
        ),
        (
            "rows, sizes",
            "unknown",
            "net(rows) + sizes",
            "rows, sizes = rows.to(device), sizes.to(device)",
            Safety.UNSAFE,
        ),
    ],
)
def test_parts(names: str, collate: str, use: str, moved: str | None, safety: Safety | None) -> None:
    text = HEAD + CHOSEN + PROGRAM.format(names=names, collate=collate, use=use)
    report = devfix.check(source=text, settings=False)
    found = [one for one in report.findings if one.codemod == "move-inputs"]
    assert [one.safety for one in found] == ([] if safety is None else [safety])
    if moved is not None:
        assert f"        {moved}\n" in devfix.fix(source=text, unsafe=True, settings=False).text


HANDED = """
from torch.utils.data import DataLoader


def collate(batch):
    marks = [one[0] for one in batch]
    rows = torch.stack([one[1] for one in batch])
    return marks, rows, rows + 1, rows + 2


def main(data, net):
    run(DataLoader(data, collate_fn=collate), net)


def run(loader, net):
    for i, (marks, x, y, z) in enumerate(loader):
        x = x.cuda(0)
        y = y.cuda(0)
        z = z.cuda(0)
        a, b = net(x, y, z, marks)
"""


def test_who_is_handed_a_loader_gets_what_its_collate_function_makes() -> None:
    assert not [
        one
        for one in devfix.check(source=HEAD + HANDED, settings=False).findings
        if one.codemod == "move-inputs"
    ]


COLUMNS = """
from torch import nn


def columns(batch):
    found = list(zip(*batch))
    first, second, third = found[0], found[1], found[2]
    return first, second, third
"""
READS = """
import torch
from torch import nn
from torch.utils.data import DataLoader
{0}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.lin(x) + len(y)


def train(net, loader):
    for first, second, third in loader:
        net(torch.zeros(1, 4).cuda(), second)


train(Net().cuda(), DataLoader([1, 2], collate_fn=columns))
"""


@pytest.mark.parametrize("apart", [False, True])
def test_columns_are_tuples_wherever_the_function_is(tmp_path: Path, apart: bool) -> None:
    """A collate function of another file is run, too, though it names nothing of torch."""
    (tmp_path / "train.py").write_text(READS.format("from data import columns" if apart else COLUMNS))
    if apart:
        (tmp_path / "data.py").write_text(COLUMNS)
    found = devfix.check(tmp_path, settings=False).findings
    assert not [one for one in found if one.codemod == "move-inputs"]
