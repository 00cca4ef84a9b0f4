"""`--place all`: what tests make is put on the first device, so that suites that never ask for CUDA run on it.

A test file is one whose name pytest collects (`python_files`), a conftest.py, or one in a folder `test` or `tests`.
Placed are

- tensors of a factory (one that `torch.set_default_device` is for) that a line of a test file calls itself, without
  `device=`, `out=` and `generator=`;
- modules that a line of a test file makes, once they are made; those from elsewhere when it first calls them.

Modules that somebody has moved, or made on another device, are left alone; so is all that the package makes.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatch
from functools import cache, wraps
from types import FrameType
from typing import Any

import torch
from torch.utils._device import _device_constructors

from devfix.simulate.machine import machine
from devfix.simulate.processes import PLACE

_SIMULATE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HERE = os.getcwd()
_OTHERWISE = ("device", "out", "generator")
_pending: list[
    tuple[weakref.ref[Any], FrameType]
] = []  # modules in the making, and the frame of their `__init__`
_settled: weakref.WeakSet[Any] = weakref.WeakSet()  # those that were placed, or left alone
_moved: weakref.WeakSet[Any] = weakref.WeakSet()  # those that somebody else has moved
_placing = threading.local()


def install() -> None:
    """For a process with devices, and the patterns in its environment."""
    if not os.environ.get(PLACE):
        return
    module = torch.nn.Module
    make, call = module.__init__, module.__call__

    @wraps(make)
    def init(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        constructor = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name == "__init__" and _first(frame) is self:
            constructor, frame = frame, frame.f_back
        if frame is not None and of_tests(frame.f_code.co_filename):
            _pending.append((weakref.ref(self), constructor or sys._getframe()))

    @wraps(call)
    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        settle()
        if self not in _settled and of_tests(sys._getframe(1).f_code.co_filename):
            _place(self)
        return call(self, *arguments, **named)

    module.__init__, module.__call__ = init, called
    for name in ("to", "cuda", "cpu", "to_empty"):
        _noting(module, name)


def _noting(module: Any, name: str) -> None:
    original = getattr(module, name)

    @wraps(original)
    def moved(self: Any, *arguments: Any, **named: Any) -> Any:
        if name != "to" or torch._C._nn._parse_to(*arguments, **named)[0] is not None:
            if not getattr(_placing, "now", False):
                _moved.add(self)
        return original(self, *arguments, **named)

    setattr(module, name, moved)


def _first(frame: FrameType) -> Any:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


@cache
def of_tests(path: str) -> bool:
    """Is a file one of tests, by its name, or by a folder `test` or `tests` below the working directory?"""
    if not os.environ.get(PLACE):
        return False
    folders = os.path.relpath(path, _HERE).split(os.sep)[:-1]
    if os.pardir not in folders and not {"test", "tests"}.isdisjoint(folders):
        return True
    patterns = os.environ.get(PLACE, "").split(os.pathsep)
    return any(fnmatch(os.path.basename(path), pattern) for pattern in patterns if pattern)


def placed(function: Any, named: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of a function of torch: with the device, where the rule says so."""
    if not os.environ.get(PLACE) or function not in _device_constructors():
        return named
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller.f_code.co_filename.startswith(_SIMULATE):
        caller = caller.f_back
    if caller is None or not of_tests(caller.f_code.co_filename):
        return named
    return named if any(name in named for name in _OTHERWISE) else {**named, "device": machine.device(0)}


def settle(mode: AbstractContextManager[Any] | None = None) -> None:
    """Place the modules that have been made by now; under `mode`, so that it hears of it."""
    if not _pending:
        return
    running, frame = set(), sys._getframe(1)
    while frame is not None:
        running.add(frame)
        frame = frame.f_back  # type: ignore[assignment]
    made = [one for one in _pending if one[1] not in running]
    _pending[:] = [one for one in _pending if one[1] in running]
    for reference, _ in made:
        module = reference()
        if module is not None and module not in _settled:
            with mode or nullcontext():
                _place(module)


def _place(module: Any) -> None:
    _settled.add(module)
    places = {one.device for one in (*module.parameters(), *module.buffers())}
    if not places <= {torch.device("cpu"), machine.device(0)} or any(
        one in _moved for one in module.modules()
    ):
        return
    _placing.now = True
    try:
        module.to(machine.device(0))
    except (RuntimeError, NotImplementedError):  # quantized ones, and others that cannot be moved
        return
    finally:
        _placing.now = False
