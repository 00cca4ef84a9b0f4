"""SIGINT and SIGTERM: both end a run as Ctrl-C does, and neither in the middle of a file."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

INTERRUPTED = 130
_ENDED = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143}

_last: int = signal.SIGINT
_waiting: list[int] | None = None  # while they are held back
_before: dict[int, Any] = {}  # the handlers that ours stand in for
_swallowed = False  # raised where Python lets no exception out of, such as a callback of its own


def exit_code() -> int:
    """The exit code of a run that was interrupted: 128 and the number of the signal."""
    return _ENDED.get(signal.Signals(_last), INTERRUPTED)


@contextmanager
def handled() -> Iterator[None]:
    """While it lasts both signals raise KeyboardInterrupt; outside of the main thread nothing changes."""
    global _last, _swallowed
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _last, _swallowed = signal.SIGINT, False
    unraisable, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        for number in _ENDED:
            # What starts devfix may have asked that it ignores a signal (nohup, a shell's `&`).
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                _before[number] = signal.signal(number, _arrived)
        yield
    finally:
        _restore()
        sys.unraisablehook = unraisable


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    """A signal that came in the wrong moment is made up for by the next `held`."""
    global _swallowed
    if isinstance(what.exc_value, KeyboardInterrupt):
        _swallowed = True
    else:
        sys.__unraisablehook__(what)


def _restore() -> None:
    for number, handler in _before.items():
        with suppress(ValueError):  # a process that a thread has forked
            signal.signal(number, handler)
    _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore)  # our children end as anybody's


def _arrived(number: int, frame: types.FrameType | None) -> None:
    global _last
    _last = number
    if _waiting is not None:
        _waiting.append(number)
        return
    raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """While it lasts nothing is interrupted; a signal that came meanwhile raises KeyboardInterrupt at the end."""
    global _waiting, _swallowed
    if _waiting is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _waiting = []
    try:
        yield
    finally:
        arrived, _waiting = _waiting, None
    if _swallowed or arrived:
        _swallowed = False
        raise KeyboardInterrupt


def in_worker() -> None:
    """For a worker process: Ctrl-C is for the process that started it, which ends it with SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
