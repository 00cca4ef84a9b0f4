"""Run the text of a program as `__main__` in this process, and tell how it ended."""

from __future__ import annotations

import os
import random
import sys
import traceback
import types
from dataclasses import dataclass

_ERROR = 20_000  # characters of an error that are kept


@dataclass(frozen=True)
class Report:
    """How a program ended, and the line of it that raised (0: none)."""

    status: str  # "ok", "raised", "unsupported" or "crashed"
    error: str = ""
    line: int = 0


def run_program(source: str, path: str) -> Report:
    """Execute a program, which is written to `path` for tracebacks and child processes to find.

    This process is the program's afterwards: its `__main__`, its arguments, its random numbers.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    _seed()
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            return _judged(Report("raised", f"SystemExit: {error.code}"))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == path), 0)
        text = f"{type(error).__name__}: {error}"[:_ERROR]
        if isinstance(error, MemoryError) or "can't allocate memory" in text:
            return Report("crashed", f"out of memory: {text}", line)
        return _judged(Report("raised", text, line))
    return _judged(Report("ok"))


def _judged(report: Report) -> Report:
    """A program that the simulator refused anything has not been checked, however it went on."""
    from devfix.simulate.errors import is_refusal
    from devfix.simulate.machine import machine, stats

    if stats.refusals:
        return Report("unsupported", stats.last_refusal, report.line)
    if machine.devices and is_refusal(report.error):
        return Report("unsupported", report.error, report.line)
    return report


def _seed() -> None:
    """Programs that do not seed get the same numbers before and after, too."""
    random.seed(0)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(0)
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(0)
