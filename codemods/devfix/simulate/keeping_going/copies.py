"""Copies between devices that a line makes again and again: each waits for the device, or could be made once.

Noted are reads of what is on a device (`.item()`, `.cpu()`, `float(x)`), and moves to a device of the same CPU tensor,
unchanged in between.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from dataclasses import asdict
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from devfix.reports.observed import Copies
from devfix.simulate.keeping_going.histories import shape_of
from devfix.simulate.keeping_going.lines import Mark, at, here
from devfix.simulate.processes import COPIES

SUFFIX = ".copies"
READS = 10  # fewer reads of one line are not noted
MOVES = 3  # fewer moves of one tensor by one line are not noted
_READING = frozenset({"item", "tolist", "cpu", "to", "__bool__", "__float__", "__int__", "__index__"})
_MOVING = frozenset({"to", "cuda"})

wanted = bool(os.environ.get(COPIES))
_reads: Counter[tuple[str, Mark]] = Counter()
_about: dict[tuple[str, Mark], tuple[str, tuple[int, ...]]] = {}  # device and shape of the last one
_moves: Counter[tuple[str, Mark]] = Counter()
# By the tensors, weakly: how often each line has moved one, and its version then.
_moved: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def note(name: str, arguments: Any, result: Any) -> None:
    """A function of torch has given a result; counted if it is a copy between devices."""
    tensor = arguments[0] if arguments else None
    if (name not in _READING and name not in _MOVING) or not isinstance(tensor, torch.Tensor):
        return
    there = result.device if isinstance(result, torch.Tensor) else torch.device("cpu")
    line = here() if there.type != tensor.device.type else None
    if line is None:
        return
    key = name.strip("_"), line
    if not tensor.is_cpu:
        _reads[key] += 1
        _about[key] = str(tensor.device), shape_of(tensor)
        return
    times: Counter[tuple[str, Mark]]
    version, times = _moved.get(tensor) or (tensor._version, Counter())
    if version != tensor._version:
        version, times = tensor._version, Counter()
    times[key] += 1
    _moved[tensor] = version, times
    if times[key] >= MOVES:
        _moves[key] += times[key] if times[key] == MOVES else 1
        _about[key] = str(there), shape_of(tensor)


def install(folder: str) -> None:
    """At the end of this process, leave what has been counted in the folder of the run; a fork leaves nothing."""
    if folder and wanted:
        atexit.register(_write, folder, os.getpid())


def _write(folder: str, pid: int) -> None:
    if pid != os.getpid() or not os.path.isdir(folder):
        return
    counted = [(key, count, False) for key, count in _reads.items() if count >= READS]
    counted += [(key, count, True) for key, count in _moves.items()]
    found = []
    for key, count, same in counted:
        line = at(key[1])
        if line is not None:
            found.append(Copies(key[0], line, *_about[key], count, same))
    with open(os.path.join(folder, f"{os.getpid()}{SUFFIX}"), "w", encoding="utf-8") as file:
        json.dump([asdict(one) for one in found], file)
