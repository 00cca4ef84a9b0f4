"""The batches of a loader over data that were moved as a whole are where these are."""

from __future__ import annotations

import devfix
import pytest
from devfix.findings import Safety
from snippets import CHOSEN, HEAD, alone  # noqa: F401

PROGRAM = """
from torch.utils import data as packs
from torch.utils.data import DataLoader, TensorDataset
from there import read


def main(path):
    {made}
    net = nn.Linear(4, 2){moved}
    for {names} in {loader}:
        print(net({first}))
"""


def told(made: str, loader: str, names: str = "rows", moved: str = "") -> list[devfix.Finding]:
    program = PROGRAM.format(
        made=made, loader=loader, names=names, moved=moved, first=names.partition(",")[0]
    )
    return list(devfix.check(source=HEAD + CHOSEN + program, settings=False).findings)


MOVED = [
    ("data = torch.ones(8, 4).to(device)", "DataLoader(data, batch_size=2)", "rows", Safety.SAFE),
    ("x = torch.ones(8, 4).to(device)", "DataLoader(TensorDataset(x, x), 2)", "a, _", Safety.SAFE),
    ("table = read(path).to(device)", "DataLoader(table, 2, num_workers=0)", "one", Safety.UNSAFE),
    ("frame = read(path).frame.to(device)\n    deck = DataLoader(dataset=frame)", "deck", "b", Safety.UNSAFE),
    ("data = read(path).to(device)[:100]", "DataLoader(data, shuffle=True)", "rows", Safety.UNSAFE),
    ("data = read(path).to(device)", "DataLoader(packs.Subset(data, [1, 2]))", "rows", Safety.UNSAFE),
    ("a, b = packs.random_split(torch.ones(8, 4).to(device), [4, 4])", "DataLoader(b)", "x", Safety.SAFE),
]


@pytest.mark.parametrize(("made", "loader", "names", "safety"), MOVED)
def test_a_network_that_was_not_moved(made: str, loader: str, names: str, safety: Safety) -> None:
    (found,) = told(made, loader, names)
    assert (found.codemod, found.safety) == ("module-never-moved", safety)
    assert not told(made, loader, names, ".to(device)")  # the batches need no move


@pytest.mark.parametrize(
    ("made", "loader"),
    [
        ("data = read(path)", "DataLoader(data)"),  # nobody moved anything
        ("data = torch.ones(8, 4)", "DataLoader(data)"),
        ("data = read(path).to(torch.float64)", "DataLoader(data)"),
        ('data = read(path).to("cpu")', "DataLoader(data)"),
        ("data = torch.ones(8, 4).to(device)", "DataLoader(data.cpu())"),
        ("data = read(path).to(device)", "DataLoader(data, collate_fn=read)"),  # which may move them back
        ("data = read(path).to(device)", "read(data)"),
    ],
)
def test_a_network_that_stays_with_its_data(made: str, loader: str) -> None:
    assert not told(made, loader)


def test_a_part_of_data_has_no_device() -> None:
    """A fix that writes `part.device` would raise: a `Subset` has none."""
    text = (
        HEAD
        + CHOSEN
        + PROGRAM.format(made=MOVED[-1][0], loader="DataLoader(b)", names="x", moved="", first="x")
    )
    assert ".device)" not in devfix.fix(source=text, settings=False).text.split("def main", 1)[1]


GIVEN = """
from torch.utils.data import DataLoader

net = nn.Linear(4, 2).to(device)


def score({parameter}):
    right = 0
    for batch in {parameter}:
        right += (net(batch.x).argmax(1) == batch.y).sum()
    return right


def main(rows):
    frame = rows.frame{moved}
    print(score(DataLoader(frame, batch_size=2)))
"""


@pytest.mark.parametrize("parameter", ["loader", "val_loader: DataLoader"])
def test_a_function_that_is_given_the_loader(parameter: str) -> None:
    name = parameter.partition(":")[0]
    text = HEAD + CHOSEN + GIVEN.replace("({parameter})", f"({parameter})").replace("{parameter}", name)
    told = [
        devfix.check(source=text.replace("{moved}", moved), settings=False).findings
        for moved in (".to(device)", "")
    ]
    assert [[one.codemod for one in findings] for findings in told] == [[], ["move-inputs"]]
