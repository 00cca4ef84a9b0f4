"""Functions that are not run: they cannot have to do with devices, or nothing would come of it; and those that are."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.engine.analysis import Analysis
from devfix.engine.files import Function
from repositories import found, write

MAIN = """
import torch
from torch import nn

from helpers import helper

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
print(model(torch.ones(2, device=device)) + helper("sizes", 2))
"""
PLAIN = {
    "the standard library": "import logging\n\n\ndef helper(name, n):\n    return logging.getLogger(name).level + n\n",
    "functions that call each other": """
def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def helper(name, n):
    return 1 if even(n) else 0
""",
    "a table, and an object of a plain class": """
SIZES = {"sizes": 4}


class Table:
    def __init__(self, given):
        self.given = given

    def look_up(self, name):
        return self.given[name]


def helper(name, n):
    return Table(SIZES).look_up(name) * n
""",
    "a library that devfix does not know": "import tidy\n\n\ndef helper(name, n):\n    return tidy.up(name) + n\n",
}
MADE = {
    "a tensor that it makes": "import torch\n\n\ndef helper(name, n):\n    return torch.ones(n)\n",
    "what it calls": """
import torch


def made(n):
    return torch.ones(n)


def helper(name, n):
    return made(n)
""",
    "a function under another name": """
from torch import ones as filled


def helper(name, n):
    return filled(n)
""",
    "a method of a class": """
import torch as t


class Table:
    def row(self, n):
        return t.ones(n)


def helper(name, n):
    return Table().row(n)
""",
    "a constant of the file": "import torch\n\nROW = torch.ones(2)\n\n\ndef helper(name, n):\n    return ROW\n",
}


def _runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[set[str], list[str]]:
    """The functions of other files that are run, and the findings."""
    run: set[str] = set()
    run_call = Analysis.run_call

    def noted(self: Analysis, caller: object, node: object, function: Function, *rest: object) -> object:
        if function.file is not self.file:
            run.add(function.name)
        return run_call(self, caller, node, function, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Analysis, "run_call", noted)
    return run, found(folder, codemods=["place-factory"])


@pytest.mark.parametrize("helper", PLAIN.values(), ids=PLAIN)
def test_what_cannot_have_a_device_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    write(tmp_path, {"train.py": MAIN, "helpers.py": helper})
    assert _runs(monkeypatch, tmp_path) == (set(), [])


@pytest.mark.parametrize("helper", MADE.values(), ids=MADE)
def test_what_makes_tensors_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str) -> None:
    write(tmp_path, {"train.py": MAIN, "helpers.py": helper})
    run, told = _runs(monkeypatch, tmp_path)
    assert "helper" in run
    assert told


@pytest.mark.parametrize(("one", "other"), [("first", "second"), ("second", "first")])
def test_functions_that_call_each_other_are_run_if_one_makes_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    helper = f"""
import torch


def first(n):
    second(n)
    made = torch.ones(n)
    second(n)
    return made


def second(n):
    return first(n)


def helper(name, n):
    {one}(n)
    return {other}(n)
"""
    write(tmp_path, {"train.py": MAIN, "helpers.py": helper})
    assert _runs(monkeypatch, tmp_path)[0] == {"helper", "first", "second"}


def test_what_reads_a_tensor_of_a_third_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = "from rows import ROW\n\n\ndef helper(name, n):\n    return ROW\n"
    rows = "import torch\n\nROW = torch.ones(2)\n"
    write(tmp_path, {"train.py": MAIN, "helpers.py": helper, "rows.py": rows})
    assert "helper" in _runs(monkeypatch, tmp_path)[0]


def test_what_is_given_a_tensor_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = "def helper(name, n):\n    return n\n"
    main = MAIN.replace('helper("sizes", 2)', 'helper("sizes", torch.ones(2))')
    write(tmp_path, {"train.py": main, "helpers.py": helper})
    run, told = _runs(monkeypatch, tmp_path)
    assert (run, told) == ({"helper"}, ["train.py:9 place-factory"])


@pytest.mark.parametrize(("methods", "runs"), [(6, 6), (7, 0)])
def test_methods_are_not_run_where_they_are_too_many_to_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: int, runs: int
) -> None:
    stores = "".join(
        f"\n    def store_{n}(self):\n        self.kept = torch.ones({n})\n" for n in range(methods)
    )
    write(tmp_path, {"net.py": f"import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):{stores}"})
    quiet: list[str] = []
    run_method = Analysis.run_method

    def noted(self: Analysis, function: Function, *rest: object, **more: object) -> object:
        if more.get("quiet"):
            quiet.append(function.name)
        return run_method(self, function, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Analysis, "run_method", noted)
    found(tmp_path, codemods=["place-factory"])
    assert len(quiet) == runs
