"""A word about children that get no simulated devices, since they are told to ignore their environment.

Python's audit events say what a process starts, whatever library starts it, and cost nothing otherwise.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

_PYTHON = re.compile(r"^(?:python|pypy)[\d.]*(?:\.exe)?$")
_said: set[str] = set()


def watch(needed: str) -> None:
    """Say on stderr, once for each reason, when this process starts a Python that is not simulated.

    `needed` is the environment variable that a simulated child must have. Cannot be taken back.
    """

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            _, command, _, env = arguments
        elif event in ("os.exec", "os.posix_spawn"):
            _, command, env = arguments
        else:
            return
        why = unsimulated(command, env, needed)
        if why and why not in _said:
            _said.add(why)
            sys.stderr.write(
                f"devfix: a Python that this program starts has no simulated devices, since it is {why}\n"
            )

    sys.addaudithook(hook)


def unsimulated(command: object, env: object, needed: str) -> str:
    """Why a command starts a Python without simulated devices; empty if it has them, or is no Python."""
    if isinstance(command, (str, bytes, os.PathLike)) or not isinstance(command, Sequence) or not command:
        return ""  # a shell's line: what it starts inherits the environment
    words = [os.fsdecode(word) for word in command if isinstance(word, (str, bytes, os.PathLike))]
    if not words or not _PYTHON.match(os.path.basename(words[0])):
        return ""
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--") or word in ("-c", "-m", "-"):
            break
        for letter in word[1:]:
            if letter in "IES":
                return f"started with -{letter}"
            if letter in "cmWX":
                break
    names = {os.fsdecode(name) for name in env} if isinstance(env, Mapping) else None
    if names is not None and needed not in names:
        return f"given an environment without {needed}"
    return ""
