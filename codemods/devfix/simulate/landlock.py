"""A process that may write below some folders only: Linux's Landlock, through its system calls.

It needs no privileges, cannot be undone, and holds for all that the process starts. Reading and
running are not limited.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, the same on every architecture
_NO_NEW_PRIVILEGES = 38
_VERSION = 1
_BENEATH = 1
# linux/landlock.h: write, remove and make files of all kinds; later versions know more.
_WRITE = 1 << 1 | sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE = 1 << 1 | _TRUNCATE  # what can be said of a file that is no folder
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom")
_SHARED = ("/dev/shm",)  # semaphores and shared memory of DataLoader workers


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Of Landlock in this kernel; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    found: int = ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    return max(found, 0)


def write_only_below(folders: Sequence[str]) -> None:
    """Limit this process, for good; raises OSError. To be called between fork and exec."""
    known = version()
    if not known:
        raise OSError("this kernel has no Landlock")
    handled = _WRITE | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        done: int = libc.syscall(number, *arguments)
        if done < 0:
            raise OSError(ctypes.get_errno(), "Landlock")
        return done

    attributes = _Ruleset(handled)
    rules = call(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0)
    for path in (*folders, *_SHARED, *_DEVICES):
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rule = _Beneath(handled if os.path.isdir(path) else handled & _FILE, parent)
        call(_ADD, rules, _BENEATH, ctypes.byref(rule), 0)
        os.close(parent)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    call(_RESTRICT, rules, 0)
    os.close(rules)
