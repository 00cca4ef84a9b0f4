"""Each row of the fault table a few times; `python benchmarks/faults.py` has it often."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faulty import FAULTS, Case
from ran import TESTS

# The process of the tests is large, and to fork it at each step takes long.
SMALL = """
import sys
from pathlib import Path
from faulty import FAULTS
(case,) = (one for one in FAULTS if one.name == sys.argv[1])
case.fault(Path(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.mark.parametrize("case", FAULTS, ids=[case.name for case in FAULTS])
def test_nothing_is_lost_wrong_or_hung(case: Case, tmp_path: Path) -> None:
    if not case.possible():
        pytest.skip("not possible for this user")
    for seed in range(case.few):
        folder = tmp_path / str(seed)
        folder.mkdir()
        if case.name.startswith("SIGKILL before each step"):
            command = [sys.executable, "-c", SMALL, case.name, str(folder), str(seed)]
            path = os.pathsep.join([str(TESTS), *sys.path])
            done = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
            )
            assert done.returncode == 0, done.stderr
        else:
            case.fault(folder, seed)
