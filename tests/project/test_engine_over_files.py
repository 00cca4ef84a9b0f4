"""What the engine follows into other files, and how far."""

from __future__ import annotations

from pathlib import Path

import pytest
from repositories import found, write

MAIN = """
import torch
from torch import nn

{imported}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)


class Shift:
    def __init__(self, by):
        self.by = by

    def of(self, x):
        return x + self.by


def shift(model, given):
    return given.of(model(torch.ones(2, device=device)))


{called}
print(shift(model, Shift(torch.ones(2))))
"""
ADD = """
def add(x, y):
    return x + y
"""


def test_what_another_file_calls_does_not_use_up_what_the_own_calls_need(tmp_path: Path) -> None:
    steps = "".join(f"def step_{number}(x):\n    return x + {number}\n\n\n" for number in range(600))
    run = "import steps\n\n\ndef run(x):\n" + "".join(f"    x = steps.step_{n}(x)\n" for n in range(600))
    main = MAIN.format(imported="from runs import run", called="run(torch.ones(2))")
    write(tmp_path, {"steps.py": steps, "runs.py": run + "    return x\n", "train.py": main})
    assert found(tmp_path, codemods=["place-factory"]) == ["train.py:24 place-factory"]


@pytest.mark.parametrize(
    ("imported", "files"),
    [
        ("from sums import add", {"sums.py": ADD}),
        ("from sums import *", {"sums.py": ADD}),
        ("from torch.nn.functional import *\nfrom sums import *", {"sums.py": ADD}),
        ("from pkg import *", {"pkg/__init__.py": "from .sums import *", "pkg/sums.py": ADD}),
    ],
)
def test_functions_however_they_are_imported(tmp_path: Path, imported: str, files: dict[str, str]) -> None:
    main = f"""
import torch
from torch import nn
{imported}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
print(add(model(torch.ones(2, device=device)), torch.zeros(2)))
"""
    write(tmp_path, {**files, "train.py": main})
    line = 8 + imported.count("\n")
    assert found(tmp_path, codemods=["place-factory"]) == [f"train.py:{line} place-factory"]


@pytest.mark.parametrize("own", ["def add(x, y):\n    return x", "add = print"])
def test_an_own_name_comes_before_that_of_a_star(tmp_path: Path, own: str) -> None:
    main = f"""
import torch
from torch import nn
from sums import *

{own}


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
print(add(model(torch.ones(2, device=device)), torch.zeros(2)))
"""
    write(tmp_path, {"sums.py": ADD, "train.py": main})
    assert found(tmp_path, codemods=["place-factory"]) == []
