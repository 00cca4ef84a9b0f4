"""What nothing calls is not spoken of, in a program and in a file that others use."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix import check

BATCHES = """\
import torch


def shifted(x: torch.Tensor):
    x = x.to("cuda" if torch.cuda.is_available() else "cpu")
    return x + torch.ones(3)


def padded(x: torch.Tensor, n: int):
    return torch.cat([x, torch.zeros(n)])


def restored(path):
    return torch.load(path)
"""
MAIN = """\
import argparse
import torch
import batches

args = argparse.ArgumentParser().parse_args()
x = torch.ones(2).to(args.device)
{}
"""


def spoken(folder: Path) -> set[int]:
    """The lines of `batches.py` that are spoken of."""
    return {one.line for one in check(folder, cache=False).findings if one.path.endswith("batches.py")}


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ("print(x)", {6}),  # a safe fix is for whoever calls it
        ("batches.padded(x, 2)", {6, 10}),
        ("batches.restored(args.path)", {6, 14}),
        ("getattr(batches, args.name)(x, 2)", {6, 10, 14}),
    ],
)
def test_functions_that_the_programs_call(calls: str, lines: set[int], tmp_path: Path) -> None:
    for name, text in {"pyproject.toml": "", "batches.py": BATCHES, "main.py": MAIN.format(calls)}.items():
        (tmp_path / name).write_text(text)
    assert spoken(tmp_path) == lines


@pytest.mark.parametrize(
    "loader", ["from hyperpyyaml import load_hyperpyyaml", "import importlib", "import hydra", "import json"]
)
def test_recipes_and_settings_call_by_name(loader: str, tmp_path: Path) -> None:
    main = f"{loader}\n{MAIN.format('print(x)')}"
    for name, text in {"pyproject.toml": "", "batches.py": BATCHES, "main.py": main}.items():
        (tmp_path / name).write_text(text)
    assert spoken(tmp_path) == ({6} if "json" in loader else {6, 10, 14})


ALONE = MAIN.replace("import batches\n", "").format("")


@pytest.mark.parametrize("more", [{}, {"demo.ipynb": '{"cells": []}'}, {"main.py": ALONE}])
def test_where_no_file_uses_it_anybody_may_call_it(more: dict[str, str], tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "batches.py": BATCHES, **more}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert spoken(tmp_path) == {6, 10, 14}


def test_a_file_that_is_run_shows_what_it_calls(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    told = []
    for last in (
        "torch.set_printoptions(4)\n",
        "if __name__ == '__main__':\n    print(shifted(torch.ones(3)))\n",
    ):
        (tmp_path / "batches.py").write_text(f"{BATCHES}\n\n{last}")
        told.append(spoken(tmp_path))
    assert told == [{6, 10, 14}, {6}]


def test_options_ask_for_them_all(tmp_path: Path) -> None:
    settings = "[tool.devfix.options.map-location]\nall = true\n"
    for name, text in {"pyproject.toml": settings, "batches.py": BATCHES, "main.py": MAIN.format("")}.items():
        (tmp_path / name).write_text(text)
    assert spoken(tmp_path) == {6, 14}
