"""Comparisons of devices that can never hold: with a text, or of `cuda:0` with `cuda`, which no tensor is on.

`torch.device` is a type of C: what it is compared with is only heard of in its own slot.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from typing import Any

import torch

from devfix.reports.observed import Compared
from devfix.simulate.ending import of_program
from devfix.simulate.keeping_going.lines import Mark, at, mark
from devfix.simulate.vtable import WORD, keep

SUFFIX = ".compared"
_SLOT = object.__basicsize__ + 23 * WORD  # `tp_richcompare` of a PyTypeObject
_EQUAL, _UNEQUAL = 2, 3
_Compare = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)
_counted: Counter[tuple[Mark, str, str]] = Counter()


def install(folder: str) -> None:
    """Count in this process from now on, and leave what was counted in the folder of the run at its end."""
    slot = ctypes.c_void_p.from_address(id(torch.device) + _SLOT)
    if not folder or slot.value is None or sys.implementation.name != "cpython":
        return
    original = _Compare(slot.value)

    def compare(one: Any, other: Any, operator: int) -> Any:
        result = original(one, other, operator)
        if (operator == _EQUAL and result is not True) or (operator == _UNEQUAL and result is not False):
            if _never(one, other):
                frame = sys._getframe(1)
                if of_program(frame.f_code.co_filename):
                    _counted[
                        mark(frame), str(one), repr(other) if isinstance(other, str) else str(other)
                    ] += 1
        return result

    made = _Compare(compare)
    keep(made, original)
    slot.value = ctypes.cast(made, ctypes.c_void_p).value
    atexit.register(_write, folder, os.getpid())


def _never(one: Any, other: Any) -> bool:
    """Would the two be the same device, were they written alike?"""
    if isinstance(other, str):
        return other == one.type or other.startswith(f"{one.type}:")
    if not isinstance(other, torch.device) or one.type != other.type or one.type == "cpu":
        return False
    return (one.index is None) != (other.index is None)


def _write(folder: str, pid: int) -> None:
    if pid != os.getpid() or not os.path.isdir(folder):
        return
    found = [
        Compared(line, one, other, count)
        for (where, one, other), count in _counted.items()
        if (line := at(where)) is not None
    ]
    with open(os.path.join(folder, f"{os.getpid()}{SUFFIX}"), "w", encoding="utf-8") as file:
        json.dump([asdict(one) for one in found], file)
