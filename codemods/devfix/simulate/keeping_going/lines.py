"""Which line of the program is running: not torch's Python, not a package's, not the simulator's."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType

from devfix.reports.observed import At
from devfix.simulate.ending import of_program

# What is kept of a line is its code and the instruction: the rest is worked out when somebody asks.
Mark = tuple[CodeType, int, int]


class _Programs(dict[str, bool]):
    """Is a file the program's own?"""

    def __missing__(self, path: str) -> bool:
        self[path] = own = of_program(path)
        return own


_programs = _Programs()


def frames() -> Iterator[FrameType]:
    """The program's frames, the innermost first; in a thread that has none (autograd's), the main thread's."""
    found = False
    for frame in _stack(sys._getframe(1)):
        found = True
        yield frame
    main = threading.main_thread().ident
    if not found and main is not None and main != threading.get_ident():
        yield from _stack(sys._current_frames().get(main))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if _programs[frame.f_code.co_filename]:
            yield frame
        frame = frame.f_back


def mark(frame: FrameType) -> Mark:
    return frame.f_code, frame.f_lasti, frame.f_lineno


def here() -> Mark | None:
    """The innermost line of the program that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _programs[frame.f_code.co_filename]:
            return mark(frame)
        frame = frame.f_back
    return next(map(mark, frames()), None)


def at(found: Mark | None) -> At | None:
    """The line, with the columns of the expression that was running, where Python (3.11) knows them."""
    if found is None:
        return None
    code, instruction, line = found
    path = os.path.realpath(code.co_filename)
    positions = getattr(code, "co_positions", None)
    first, last, column, end = None, None, None, None
    if positions is not None:
        first, last, column, end = next(islice(positions(), instruction // 2, None), (None,) * 4)
    if column is None or end is None:
        return At(path, line, line, function=code.co_name)
    return At(path, first or line, last or line, column, end, code.co_name)
