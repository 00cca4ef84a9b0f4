"""Children that ignore their environment are not simulated, and the program's user is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.simulate.children import unsimulated
from devfix.simulate.processes import DEVICES, environment

PYTHON = sys.executable


@pytest.mark.parametrize(
    ("command", "env", "why"),
    [
        ([PYTHON, "-c", "1"], None, ""),
        ([PYTHON, "-u", "-m", "x", "-I"], None, ""),
        ([PYTHON, "-Wignore", "-Xdev", "x.py"], None, ""),
        (["ls", "-I"], {}, ""),
        ("python -I x.py", None, ""),
        ([PYTHON, "-I", "x.py"], None, "started with -I"),
        (["/usr/bin/python3.12", "-uS", "x.py"], None, "started with -S"),
        ([b"python", b"-E", b"x.py"], None, "started with -E"),
        ([PYTHON, "x.py"], {"PATH": "/bin"}, f"given an environment without {DEVICES}"),
        ([PYTHON, "x.py"], {b"PATH": b"/bin", DEVICES.encode(): b"1"}, ""),
    ],
)
def test_unsimulated(command: object, env: object, why: str) -> None:
    assert unsimulated(command, env, DEVICES) == why


def test_said_once_each(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "for _ in range(2):\n"
        "    subprocess.run([sys.executable, '-c', 'pass'])\n"
        "    subprocess.run([sys.executable, '-I', '-c', 'pass'])\n"
        "    subprocess.run([sys.executable, '-c', 'pass'], env={})\n"
    )
    env = environment(1, base=os.environ)
    done = subprocess.run([PYTHON, str(program)], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert len(said) == 2
    assert said[0].endswith("since it is started with -I")
    assert said[1].endswith(f"since it is given an environment without {DEVICES}")
