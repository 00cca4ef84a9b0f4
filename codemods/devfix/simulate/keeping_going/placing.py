"""`--place all`: what tests make is put on the first device, so that suites that never ask for CUDA run on it.

A test file is one whose name pytest collects (`python_files`), a conftest.py, or one in a folder `test` or `tests`.
Placed are

- tensors of a factory (one that `torch.set_default_device` is for) that a line of a test file calls itself, without
  `device=`, `out=` and `generator=`;
- modules that a line of a test file makes, once they are made; those from elsewhere when it first calls them.

Modules that somebody has moved, or made on another device, are left alone; so is all that the package makes.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatch
from functools import cache, wraps
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.utils._device import _device_constructors

from devfix.simulate.keeping_going.lines import frames
from devfix.simulate.machine import machine
from devfix.simulate.processes import PLACE

wanted = bool(os.environ.get(PLACE))
_SIMULATE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HERE = os.getcwd()
_MOST = 50  # values of an object, a list or a dict that are looked at
_OTHERWISE = ("device", "out", "generator")
_pending: list[
    tuple[weakref.ref[Any], FrameType]
] = []  # modules in the making, and the frame of their `__init__`
_settled: weakref.WeakSet[Any] = weakref.WeakSet()  # those that were placed, or left alone
_moved: weakref.WeakSet[Any] = weakref.WeakSet()  # those that somebody else has moved
_placing = threading.local()


def install() -> None:
    """For a process with devices, and the patterns in its environment."""
    if not wanted:
        return
    module = torch.nn.Module
    make, call, get = module.__init__, module.__call__, module.__getattr__

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

    @wraps(get)
    def attribute(self: Any, name: str) -> Any:
        settle()  # before a method of it takes a parameter or a buffer
        return get(self, name)

    module.__init__, module.__call__, module.__getattr__ = init, called, attribute
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
    if not wanted:
        return False
    folders = os.path.relpath(path, _HERE).split(os.sep)[:-1]
    if os.pardir not in folders and not {"test", "tests"}.isdisjoint(folders):
        return True
    patterns = os.environ.get(PLACE, "").split(os.pathsep)
    return any(fnmatch(os.path.basename(path), pattern) for pattern in patterns if pattern)


def placed(function: Any, named: dict[str, Any]) -> dict[str, Any]:
    """The named arguments of a function of torch: with the device, where the rule says so."""
    if not wanted or function not in _device_constructors():
        return named
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller.f_code.co_filename.startswith(_SIMULATE):
        caller = caller.f_back
    if caller is None or not of_tests(caller.f_code.co_filename):
        return named
    return named if any(name in named for name in _OTHERWISE) else {**named, "device": machine.device(0)}


def asked_for() -> bool:
    """Is a line of a test file making a tensor, or a function of the package that was given nothing with a place?

    What such a function returns (`Irreps.randn(3)`) is the test's own to move. A constructor makes a part of an object.
    """
    below = _called()
    if below is None or of_tests(below.f_code.co_filename):
        return below is not None
    return not any(map(_has_place, _given(below)))


def handed_in(made: bool = False) -> list[Any]:
    """What a line of a test file has given to the function of the package that it is calling.

    With `made`, also to a constructor.
    """
    below = _called(made)
    return _given(below) if below is not None else []


def may_tell(device: Any) -> bool:
    """Is a device the argument `device` of the function of the package that a line of a test file is calling?

    Then that line may name another one. One that the package names by itself, the tests cannot change.
    """
    below = _called()
    code = below.f_code if below is not None else None
    if (
        below is None
        or code is None
        or "device" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ):
        return False
    found = below.f_locals.get("device")
    return type(found) is type(device) and found == device


def _called(made: bool = False) -> FrameType | None:
    """The frame that a line of a test file has called, or its own; None if no test runs.

    None as well where an object is made, unless `made`.
    """
    below: FrameType | None = None
    for frame in frames():
        if of_tests(frame.f_code.co_filename):
            return below or frame
        if frame.f_code.co_name == "__init__" and not made:
            return None
        below = frame
    return None


def _given(frame: FrameType) -> list[Any]:
    """What the function of a frame was called with."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


def _has_place(value: Any, deep: int = 2) -> bool:
    """Is it a module or a tensor on a device, or does it hold one?"""
    if isinstance(value, torch.Tensor):
        return not value.is_cpu
    if isinstance(value, torch.nn.Module):
        return True
    kind = type(value)  # a subclass may have a length and items of its own
    held = value.values() if kind is dict else value if kind in (list, tuple) else ()
    if not issubclass(kind, (dict, list, tuple, type, ModuleType)):
        held = getattr(value, "__dict__", {}).values()
    return deep > 0 and any(_has_place(one, deep - 1) for one in list(held)[:_MOST])


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
