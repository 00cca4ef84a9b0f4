"""The commands in a Python that lacks what Windows, or Windows and macOS, do not have.

This is not those systems: their files, consoles and processes are tried by .github/workflows/tests.yml.
"""

from __future__ import annotations

import json
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
COMMANDS = {  # and their exit codes
    "check --jobs 2 examples": 1,
    "diff examples": 1,
    "explain examples/gpt_classifier/train.py:112": 0,
    "stats examples": 0,
    "doctor --no-torch": 0,
    "apply --unsafe examples": 0,
    "check examples": 0,
    "undo": 0,
}
WRITING = {
    words: COMMANDS[words] for words in ("apply --unsafe examples", "undo")
}  # which asks for attributes of files
WITHOUT = """
import json, multiprocessing, os, shutil, signal, subprocess, sys, tempfile
import click._termui_impl  # it has a Windows of its own
modules, functions, signals = (words.split() for words in sys.argv[1:4])
sys.modules |= dict.fromkeys(modules)
for module, names in ((os, functions), (signal, signals)):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from devfix.cli import main
codes = [main(command) for command in json.loads(sys.argv[4])]
print(json.dumps(codes), file=sys.stderr)
"""


@pytest.mark.parametrize("system", MISSING)
def test_commands_work_without_what_other_systems_lack(tmp_path: Path, system: str) -> None:
    known = COMMANDS if system == "win32" else WRITING
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    before = {path: path.read_bytes() for path in (tmp_path / "examples").rglob("*") if path.is_file()}

    commands = [json.dumps([words.split() for words in known])]
    scratch = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *MISSING[system], *commands],
        cwd=tmp_path,
        env=os.environ | scratch,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == [*known.values()]
    assert {path: path.read_bytes() for path in before} == before
