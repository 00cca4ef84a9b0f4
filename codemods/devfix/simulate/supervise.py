"""The parent of a simulated run: starts the program, waits, and tells how it ended.

The program is run by Python itself, as `python script.py`, in a process of its own with the
environment of `processes.py`. So whatever happens to it, a crash of the simulator included, is seen
from here. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from devfix.reports.observed import At, Compared, Copies, Seen, of_json, together
from devfix.simulate.errors import is_refusal
from devfix.simulate.forks import Forked, Forks
from devfix.simulate.limits import Limits
from devfix.simulate.processes import environment

# What a broken process dies of; other signals come from outside.
CRASHES = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")
    if hasattr(signal, name)
)
_OUTPUT = 1 << 20


@dataclass(frozen=True)
class Frame:
    """A line of the program's own that an exception has passed."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class Raised:
    """An uncaught exception: `Type: message`, the program's frames (the innermost last), and which of the
    values that the innermost names are where."""

    error: str
    frames: tuple[Frame, ...] = ()
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Told:
    """What one process of the run has told about itself. `errors`: the uncaught one, then its causes."""

    pid: int
    place: str = ""  # "cuda (simulated)", "mps (simulated)", "cuda (NAME)" or "cpu"
    torch: str = ""
    kernels: int = 0
    refusal: str = ""  # what the simulator could not do, if anything
    cannot: str = ""  # why no devices could be simulated at all
    errors: tuple[Raised, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a run ended. `code` is the exit code, that of a signal negative, and None after a time-out."""

    pid: int
    code: int | None
    told: tuple[Told, ...] = ()
    output: str = ""  # if it was captured
    seen: tuple[Seen, ...] = ()  # device errors after which it went on
    copies: tuple[Copies, ...] = ()  # copies between devices that lines make again and again
    compared: tuple[Compared, ...] = ()  # comparisons that can never hold

    @property
    def main(self) -> Told:
        """The program's first process, or if that has no torch, the one that did most."""
        own = next((told for told in self.told if told.pid == self.pid), None)
        if own is None or not own.place:
            own = max(self.told, key=lambda told: told.kernels, default=own)
        return own or Told(self.pid)

    @property
    def crashed(self) -> str:
        """The signal of a crash, by name."""
        if self.code is not None and -self.code in CRASHES:
            return signal.Signals(-self.code).name
        return ""

    @property
    def unchecked(self) -> str:
        """Why nothing follows from how the program ended; empty where something does."""
        for told in self.told:
            if told.cannot:
                return f"cannot simulate devices: {told.cannot}"
        if self.code is None:
            return "it took too long"
        if self.crashed:
            return f"the simulated process crashed ({self.crashed})"
        for told in self.told:
            if told.refusal:
                return told.refusal
            for raised in told.errors:
                if "simulated" in told.place and is_refusal(raised.error):
                    return raised.error
        return ""

    def errors(self) -> Iterator[Raised]:
        """The uncaught exceptions of all processes, the main one's first."""
        for told in sorted(self.told, key=lambda told: told.pid != self.pid):
            yield from told.errors


def run(
    command: Sequence[str],
    devices: int = 1,
    *,
    device: str = "cuda",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
    capture: bool = False,
    limits: Limits | None = None,
    keep_going: bool = False,
    copies: bool = False,
    forks: Forks | None = None,
) -> Ended:
    """Run a command whose Python processes have simulated devices; raises OSError if it cannot start.

    `device` is "cuda", "mps" or "cpu", for none at all. `capture` takes its output and gives it no input; otherwise
    it has ours, and Ctrl-C and SIGTERM are its affair. After `seconds` it is killed, with all that it has
    started. `limits` hold for it, but that it can write its reports. With `keep_going`, device errors are noted
    as `seen` and carried out; with `copies` as well, copies that repeat are counted. What is captured, in a `cwd`, is
    one of `forks` if it can be; raises StaleFork if it turns out that it cannot.
    """
    folder = tempfile.mkdtemp(prefix="devfix-run-")
    try:
        made = environment(devices, folder, device=device, base=env, keep_going=keep_going, copies=copies)
        if limits is not None and limits.folders:
            limits = replace(limits, folders=(*limits.folders, folder))
        started = _start(command, made, cwd, folder, capture, limits, forks)
        with contextlib.nullcontext() if capture else _signals_to(started):
            code = _wait(started, seconds)
        if capture:
            _kill_group(started.pid)
        if forks is not None:
            forks.look_into(folder)
        output = ""
        if capture:
            with open(os.path.join(folder, "output"), encoding="utf-8", errors="replace", newline="") as file:
                output = file.read(_OUTPUT)
        told, seen = tuple(_reports(folder)), seen_in(folder)
        return Ended(started.pid, code, told, output, seen, _copies(folder), _compared(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    folder: str,
    capture: bool,
    limits: Limits | None,
    forks: Forks | None,
) -> subprocess.Popen[bytes] | Forked:
    before = None if limits is None else limits.apply
    if not capture:
        return subprocess.Popen(command, cwd=cwd, env=env, preexec_fn=before)
    with open(os.path.join(folder, "output"), "wb") as output:
        if forks is not None and cwd is not None:
            forked = forks.start(command, env, cwd, (output.name, output.name), limits)
            if forked is not None:
                return forked
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
        )


def _wait(started: subprocess.Popen[bytes] | Forked, seconds: float | None) -> int | None:
    try:
        return started.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill_group(started.pid)
        started.send_signal(signal.SIGKILL)
        started.wait()
        return None


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def _signals_to(started: subprocess.Popen[bytes] | Forked) -> Iterator[None]:
    """The terminal sends Ctrl-C to the program as well: it decides what to do. SIGTERM is passed on."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            started.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reports(folder: str) -> Iterator[Told]:
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found = json.load(file)
            errors = tuple(
                Raised(
                    item["error"],
                    tuple(Frame(*frame) for frame in item["frames"]),
                    tuple((str(value), str(where)) for value, where in item["values"]),
                )
                for item in found.pop("errors")
            )
            yield Told(errors=errors, files=tuple(found.pop("files")), **found)


def seen_in(folder: str) -> tuple[Seen, ...]:
    """The device errors that the processes of a run have left in its folder."""
    return together([of_json(item) for item in _left(folder, ".seen")])


def _copies(folder: str) -> tuple[Copies, ...]:
    """The copies that the processes of a run have counted, those of most first."""
    found: dict[object, Copies] = {}
    for item in _left(folder, ".copies"):
        one = Copies(**{**item, "at": At(**item["at"]), "shape": tuple(item["shape"])})
        before = found.get((one.operation, one.at, one.same))
        found[one.operation, one.at, one.same] = replace(
            one, count=one.count + (before.count if before else 0)
        )
    return tuple(sorted(found.values(), key=lambda one: (-one.count, one.at.key)))


def _compared(folder: str) -> tuple[Compared, ...]:
    """The comparisons that can never hold, of all processes of a run."""
    found: dict[object, Compared] = {}
    for item in _left(folder, ".compared"):
        one = Compared(**{**item, "at": At(**item["at"])})
        key = one.at, one.device, one.other
        found[key] = replace(one, count=one.count + (found[key].count if key in found else 0))
    return tuple(sorted(found.values(), key=lambda one: one.at.key))


def _left(folder: str, suffix: str) -> Iterator[Any]:
    """The items of the lists that processes have left in files with this suffix."""
    for name in sorted(os.listdir(folder)):
        with contextlib.suppress(OSError, ValueError):
            if name.endswith(suffix):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    yield from json.load(file)


def python(arguments: Sequence[str]) -> list[str]:
    """The command that runs a script or module with the Python that runs devfix."""
    return [sys.executable, *arguments]
