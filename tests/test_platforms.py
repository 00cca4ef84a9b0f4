"""The commands in a Python that lacks what Windows, or Windows and macOS, do not have.

This is not those systems: their files, consoles and processes are tried by .github/workflows/tests.yml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MISSING = {
    "win32": (
        "fcntl grp pwd resource termios",
        "O_CLOEXEC O_NOFOLLOW O_NONBLOCK chown fchmod fork geteuid getuid getxattr killpg listxattr register_at_fork "
        "set_blocking setsid setxattr sysconf",
        "ITIMER_REAL SIGALRM SIGHUP SIGKILL SIGPIPE setitimer",
    ),
    "darwin": ("", "getxattr listxattr setxattr", ""),
}
WITHOUT = """
import multiprocessing, os, shutil, signal, subprocess, sys, tempfile
import click._termui_impl  # it has a Windows of its own
modules, functions, signals = (words.split() for words in sys.argv[1:4])
sys.modules |= dict.fromkeys(modules)
for module, names in ((os, functions), (signal, signals)):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from devfix.cli import main
sys.exit(main(sys.argv[4:]))
"""


@pytest.mark.parametrize("system", MISSING)
def test_commands_work_without_what_other_systems_lack(tmp_path: Path, system: str) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    before = {path: path.read_bytes() for path in (tmp_path / "examples").rglob("*") if path.is_file()}

    def devfix(*arguments: str) -> int:
        command = [sys.executable, "-c", WITHOUT, *MISSING[system], *arguments]
        scratch = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | scratch, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    assert devfix("check", "--jobs", "2", "examples") == 1
    assert devfix("diff", "examples") == 1
    assert devfix("explain", "examples/gpt_classifier/train.py:112") == 0
    assert devfix("stats", "examples") == 0
    assert devfix("doctor", "--no-torch") == 0
    assert devfix("apply", "--unsafe", "examples") == 0
    assert devfix("check", "examples") == 0
    assert devfix("undo") == 0
    assert {path: path.read_bytes() for path in before} == before
