"""The hostile repositories of `benchmarks/hostile.py`: nothing is run, nothing lost, nothing hangs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from hostile import KINDS, SING, Kind, attacked

TOGETHER = ("a module click.py", "code at import", "a pickle", "git: filters", "a link to a file outside")
ALONE = ("an endless file",)  # devfix refuses it, and a repository with it is not repaired


def merged(*names: str) -> Kind:
    """One repository that has all of that, each in files of its own."""
    files: dict[str, str] = {}
    for name in names:
        for file, text in KINDS[name].files.items():
            files[file if file not in files else f"{len(files)}_{file}"] = text

    def more(folder: Path, run: str) -> None:
        for name in names:
            KINDS[name].more(folder, run)

    return Kind(files, "".join(KINDS[name].config for name in names), more)


def test_no_harm_together(tmp_path: Path) -> None:
    assert attacked(merged(*TOGETHER), tmp_path) == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALONE else pytest.mark.slow) for name in KINDS]
)
def test_no_harm(name: str, tmp_path: Path) -> None:
    assert attacked(KINDS[name], tmp_path) == []


def test_harm_is_seen(tmp_path: Path) -> None:
    """A canary that does sing: Python itself imports a `devfix.py` of the working directory."""
    assert "something was run" in attacked(Kind({"devfix.py": SING}), tmp_path)
    assert os.path.exists(tmp_path / "sung")
