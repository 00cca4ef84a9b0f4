"""How a process of a simulated run ends: a traceback that is the program's own, and a report.

The report is a file of JSON in the run's folder, one for each process (see `supervise.py`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from devfix.simulate import notes
from devfix.simulate.machine import stats

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
_FRAMES = 60
_TEXT = 4000
_state: dict[str, Any] = {"folder": "", "pid": 0, "main": None, "errors": []}


def install(folder: str) -> None:
    """Take over what happens to uncaught exceptions; `folder` gets the report ("": none)."""
    if _state["pid"]:
        return
    main = getattr(sys.modules.get("__main__"), "__file__", None)  # Python takes it away at the end
    _state.update(folder=folder, pid=os.getpid(), main=main and os.path.abspath(main))
    notes.say = notes.line
    sys.excepthook = _uncaught
    if folder:
        atexit.register(write)


def write(cannot: str = "") -> None:
    """Leave the report of this process; a fork of it leaves none."""
    folder = _state["folder"]
    if not folder or _state["pid"] != os.getpid():
        return
    from devfix.simulate.processes import MACHINE

    report = {
        "pid": os.getpid(),
        "place": _name(MACHINE["place"]),
        "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
        "kernels": stats.kernels,
        "refusal": stats.last_refusal if stats.refusals else "",
        "cannot": cannot,
        "errors": _state["errors"],
        "files": program_files(),
    }
    # The folder goes with the run, and what is left running may outlive it.
    try:
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w", encoding="utf-8") as file:
            json.dump(report, file)
    except OSError:
        pass


def _name(place: str) -> str:
    torch = sys.modules.get("torch")
    if place == "cuda" and torch is not None and torch.cuda.is_initialized():
        return f"cuda ({torch.cuda.get_device_name(0)})"
    return place


def program_files() -> list[str]:
    """The files of modules that this process has imported, less those of Python and its packages."""
    # Not by `getattr`: to ask a lazy module for an attribute is to import it.
    found = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    found.append(_state["main"])
    paths = {one for one in found if isinstance(one, str)}
    return sorted(os.path.realpath(path) for path in paths if of_program(path))


def of_program(path: str) -> bool:
    """Is a file the program's own, not Python's, a package's or devfix's?"""
    real = os.path.realpath(path)
    if path.endswith((".so", ".pyc")) or not os.path.isfile(real):
        return False
    parts = real.split(os.sep)
    return not (real.startswith((_OWN, *_LIBRARY)) or "site-packages" in parts or "dist-packages" in parts)


# --- uncaught exceptions ---------------------------------------------------------------------


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    try:
        if _state["pid"] == os.getpid() and not issubclass(kind, KeyboardInterrupt):
            _state["errors"] = [_described(item) for item in chain(error)]
    except Exception as failure:  # the program's own error matters more than what is known about it
        sys.stderr.write(f"devfix: {type(failure).__name__} while describing the error: {failure}\n")
    hide(error)
    sys.__excepthook__(kind, error, error.__traceback__)


def chain(error: BaseException) -> list[BaseException]:
    """An exception and what led to it, the first cause last; of a group, every member with its causes."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        for member in _members(current):
            found += [item for item in chain(member) if item not in found]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return found


def _members(error: BaseException) -> Iterator[BaseException]:
    """What an exception holds: an ExceptionGroup its members, doctest's what the example has raised."""
    for name in ("exceptions", "failures"):
        held = getattr(error, name, None)
        if isinstance(held, (list, tuple)):
            yield from (item for item in held if isinstance(item, BaseException))
    if isinstance(error, _doctest_error()):
        yield error.exc_info[1]


def _doctest_error() -> Any:
    """doctest.UnexpectedException, if anything has loaded doctest."""
    return getattr(sys.modules.get("doctest"), "UnexpectedException", ())


def hide(error: BaseException) -> bool:
    """Take the simulator's frames out of the tracebacks of an exception and of what led to it.

    Tells whether there were any.
    """
    hidden = False
    for item in chain(error):
        if _has_own(item.__traceback__):
            item.__traceback__ = without_own(item.__traceback__)
            hidden = True
        if isinstance(item, _doctest_error()) and _has_own(item.exc_info[2]):
            item.exc_info = (*item.exc_info[:2], without_own(item.exc_info[2]))
            hidden = True
    return hidden


def _has_own(trace: TracebackType | None) -> bool:
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(_OWN):
            return True
        trace = trace.tb_next
    return False


def without_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback less the frames of devfix, and of torch's dispatch that they call."""
    kept: list[TracebackType] = []
    inside = False
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(_OWN):
            inside = True
        elif not (inside and path.endswith((f"torch{os.sep}_ops.py", f"torch{os.sep}_compile.py"))):
            inside = False
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for item in reversed(kept):
        made = TracebackType(made, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return made


def _described(error: BaseException) -> dict[str, Any]:
    trace = without_own(error.__traceback__)
    frames = []
    last = None
    while trace is not None:
        frame = trace.tb_frame
        path = frame.f_code.co_filename
        if of_program(path):
            frames.append([os.path.realpath(path), trace.tb_lineno, frame.f_code.co_name])
            last = trace
        trace = trace.tb_next
    from devfix.simulate.whereabouts import at_line

    return {
        "error": f"{type(error).__name__}: {error}"[:_TEXT],
        "frames": frames[-_FRAMES:],
        "values": at_line(last) if last is not None else [],
    }
