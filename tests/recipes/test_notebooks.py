"""Recipes inside notebooks: found, placed in their cells, and never changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toolkit import LIN, checked, recipe, script

MORE = "\nscorer: !new:speechbrain.decoders.Searcher\n    linear: !ref <lin>\n"
HELD = recipe(LIN + MORE, "    search: !ref <search>\n").replace(
    "modules:", "search: !new:speechbrain.search.Search\n    scorer: !ref <scorer>\n\nmodules:"
)
SEARCH = """\
import torch


class Search(torch.nn.Module):
    def __init__(self, scorer):
        self.scorer = scorer
"""


def notebook(*cells: tuple[str, str]) -> str:
    made = [
        {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for kind, text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


@pytest.mark.parametrize(
    ("cells", "cell"),
    [
        ([("code", "import torch\n"), ("markdown", f"As in\n\n```yaml\n{HELD}```\nit is.")], 2),
        ([("code", f"%%file train.yaml\n{HELD}")], 1),
        ([("code", f"%%writefile train.yaml\n{recipe()}"), ("code", f"%%file run.py\n{script()}")], 1),
        ([("code", "x = 1"), ("code", f"%%file train.yaml\n{recipe()}"), ("code", script())], 2),
    ],
    ids=["shown", "written", "with its script", "with the notebook's code"],
)
def test_found_and_left_alone(cells: list[tuple[str, str]], cell: int, tmp_path: Path) -> None:
    text = notebook(*cells)
    done = checked(tmp_path, "", "", **{"a.ipynb": text, "speechbrain/search.py": SEARCH})
    (finding,) = done.findings
    assert "`lin` is not under `modules:`" in finding.message and "by hand" in finding.message
    assert (finding.fix, finding.place.cell) == (None, cell)
    assert "modules:" in text.splitlines()[finding.place.line - 1]
    assert "modules:" in cells[cell - 1][1].splitlines()[finding.place.cell_line - 1]
    assert [text.splitlines()[other.line - 1].strip()[:5] for other in finding.related] == ['"lin:']
    assert not done.report.changed


def test_what_is_right_is_silent(tmp_path: Path) -> None:
    right = recipe(more="    lin: !ref <lin>\n")
    cells = [
        ("code", f"%%file train.yaml\n{right}"),
        ("code", script()),
        ("markdown", f"```yaml\n{right}```"),
    ]
    assert checked(tmp_path, "", "", **{"a.ipynb": notebook(*cells)}).messages == []
