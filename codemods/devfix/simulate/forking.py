"""What the processes that programs are forked from have in common: see `forkserver.py` and `forks.py`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import select
import signal
import sys
from dataclasses import dataclass

_DYNAMO = "torch._dynamo"


@dataclass
class Line:
    """A pipe or socket to or from another process of ours, line by line."""

    descriptor: int
    rest: bytes = b""

    def read(self, seconds: float | None = None) -> bytes | None:
        """The next line; None at the end. Raises TimeoutError if it does not come in time."""
        while b"\n" not in self.rest:
            if seconds is not None and not select.select([self.descriptor], [], [], seconds)[0]:
                raise TimeoutError(f"nothing came in {seconds:.0f} s")
            data = os.read(self.descriptor, 1 << 16)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def write(self, value: object) -> None:
        data = json.dumps(value).encode() + b"\n"
        while data:
            data = data[os.write(self.descriptor, data) :]


class Dynamo:
    """torch imports dynamo late, when a program makes an optimizer for instance, which takes as long as torch itself.

    Forks tell that their programs have, and after two of them what they are forked from imports it for the next. Not
    earlier: dynamo keeps what it finds in torch, and the simulated devices have to be there by then.
    """

    def __init__(self) -> None:
        self._told = mmap.mmap(-1, 1)  # shared with the forks

    def tell(self) -> None:
        if self._told[0] < 2:
            self._told[0] += _DYNAMO in sys.modules

    def load(self, *, likely: bool = False) -> None:
        """If two forks have told, or the next is likely to."""
        if (likely or self._told[0] >= 2) and _DYNAMO not in sys.modules:
            environment = dict(os.environ)
            with contextlib.suppress(ImportError):
                importlib.import_module(_DYNAMO)
            os.environ.clear()  # it puts the folder of its files there
            os.environ.update(environment)
            gc.freeze()


def die_with_parent() -> None:
    """Where the system can: Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def close_all_but(*kept: int) -> None:
    """Close the descriptors that a fork has inherited, but the standard ones and these."""
    start = 3
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, 4096)
