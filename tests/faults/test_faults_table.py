"""Each row of the fault table a few times; `python benchmarks/faults.py` has it often."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty import FAULTS, Case


@pytest.mark.parametrize("case", FAULTS, ids=[case.name for case in FAULTS])
def test_nothing_is_lost_wrong_or_hung(case: Case, tmp_path: Path) -> None:
    if not case.possible():
        pytest.skip("not possible for this user")
    for seed in range(case.few):
        folder = tmp_path / str(seed)
        folder.mkdir()
        case.fault(folder, seed)
