"""The analysis of twice the program is about twice the work, in every direction in which programs grow.

Work is counted in the calls of functions, of Python and of C, so that the test does not depend on how fast the
machine is. `benchmarks/growth.py` measures time, at larger sizes.
"""

from __future__ import annotations

import sys
from cProfile import Profile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from growth import analysed, exponent, written
from speeds.families import FAMILIES, Family

LIMIT = 1.3
# These still grow faster, also at such sizes; `benchmarks/growth.py` shows them.
_ABOVE = frozenset[str]()
_HELD = [family for family in FAMILIES if family.name not in _ABOVE]


def work(family: Family, size: int, folder: Path) -> int:
    """The calls that the analysis of one program takes."""
    folder.mkdir()
    analysed(written(family.make(1), folder))  # modules are imported, tables are read
    profile = Profile()
    profile.runcall(analysed, written(family.make(size), folder))
    return sum(one.callcount for one in profile.getstats())


@pytest.mark.parametrize(
    "family",
    [pytest.param(one, id=one.name, marks=pytest.mark.slow if i % 3 else ()) for i, one in enumerate(_HELD)],
)
def test_the_work_grows_as_the_program_does(family: Family, tmp_path: Path) -> None:
    sizes = [family.short * factor for factor in (1, 3)]
    points = [(size, float(work(family, size, tmp_path / str(size)))) for size in sizes]
    assert exponent(points) < LIMIT, points
