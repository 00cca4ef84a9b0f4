"""The hostile repositories of `benchmarks/hostile.py`: nothing is run, nothing lost, nothing hangs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from hostile import KINDS, SING, Kind, attacked

_SHORT = (
    "a module click.py",
    "code at import",
    "a pickle",
    "git: filters",
    "an endless file",
    "a link to a file outside",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _SHORT else pytest.mark.slow) for name in KINDS]
)
def test_no_harm(name: str, tmp_path: Path) -> None:
    assert attacked(KINDS[name], tmp_path) == []


def test_harm_is_seen(tmp_path: Path) -> None:
    """A canary that does sing: Python itself imports a `devfix.py` of the working directory."""
    assert "something was run" in attacked(Kind({"devfix.py": SING}), tmp_path)
    assert os.path.exists(tmp_path / "sung")
