"""Run programs before and after a codemod, on the CPU and on CUDA, real or simulated.

Nothing is imported from torch in this process: programs run in forks of a server process (see
`simulate/forkserver.py`), which is started with the first one and ends with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

from devfix.codemod import Example

Status = Literal["ok", "raised", "unsupported", "crashed", "timeout"]
DeviceKind = Literal["cpu", "cuda"]

SECONDS = 60.0  # for one program
MEMORY = 8 << 30  # bytes for one program, and for each process that it starts
_START_SECONDS = 120.0  # for the server to import torch, on a busy machine
# Half precision on CUDA, and other kernels than the CPU's.
_RELATIVE, _ABSOLUTE = 2e-2, 1e-3
_NUMBER = re.compile(
    r"(?<![\w.+-])(?<!cuda:)[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|nan|inf)(?![\w])", re.IGNORECASE
)
_DEVICE = re.compile(r"(?:\bcuda:|\.cuda\(|\bset_device\()(\d+)")
_START = """
import sys
sys.path[:] = [path for path in sys.path if path]
sys.path.append({root!r})
from devfix.simulate.forkserver import main
main()
"""


@dataclass(frozen=True)
class Run:
    """How one program ended.

    `output` is what it printed, `error` is `Type: message` of what it raised, at `line` of it.
    "unsupported", "crashed" and "timeout" mean that the program has *not been checked*.
    """

    status: Status
    output: str = ""
    error: str = ""
    line: int = 0
    device: str = ""  # "cpu", "cuda (simulated)", "cuda (fake tensors)" or "cuda (NAME OF THE GPU)"
    torch: str = ""

    @property
    def checked(self) -> bool:
        return self.status in ("ok", "raised")

    @property
    def fake(self) -> bool:
        """On fake tensors: it has no numbers, and of CUDA's errors one only, for tensors that are apart."""
        return "fake" in self.device


class Runner:
    """Runs programs one after the other, each in a process of its own; a context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._rest = b""

    def run(
        self,
        source: str,
        device: DeviceKind,
        *,
        timeout: float = SECONDS,
        devices: int = 0,
        memory: int = MEMORY,
    ) -> Run:
        """Run the text of a program; raises nothing.

        `devices` is the number of cuda devices that it needs; 0: as many as it names.
        """
        if not hasattr(os, "fork"):
            error = "running programs needs a system with fork, such as Linux"
            return Run("unsupported", error=error, device=device)
        devices = devices or devices_named(source)
        request = {
            "source": source,
            "device": device,
            "devices": devices,
            "seconds": timeout,
            "memory": memory,
        }
        with self._lock:
            try:
                return self._ask(request, time.monotonic() + timeout + _START_SECONDS)
            except (OSError, EOFError, ValueError) as failure:
                self._stop()
                return Run("crashed", error=f"the server process failed: {failure}", device=device)

    def _ask(self, request: dict[str, object], deadline: float) -> Run:
        server = self._running()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([server.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise OSError("it does not answer")
            data = os.read(server.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError("it has died")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        reply = json.loads(line)
        if reply["status"] not in get_args(Status):
            raise ValueError(f"status {reply['status']!r}")
        return Run(**reply)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is not None and self._server.poll() is None:
            return self._server
        self._stop()
        # An empty folder: nothing of the repository at hand may be imported in place of torch.
        self._folder = tempfile.TemporaryDirectory(prefix="devfix-smoke-", ignore_cleanup_errors=True)
        root = str(Path(__file__).resolve().parent.parent)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._server = subprocess.Popen(
            [sys.executable, "-c", _START.format(root=root)],
            cwd=self._folder.name,
            env={**os.environ, **threads, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._server

    def _stop(self) -> None:
        self._rest = b""
        if self._server is not None:
            self._server.kill()  # its children die with it
            with contextlib.suppress(OSError):
                self._server.communicate()
            self._server = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def close(self) -> None:
        """End the server; the next `run` starts another."""
        with self._lock:
            self._stop()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_runner = Runner()
atexit.register(_runner.close)


def run_program(source: str, device: DeviceKind, timeout: float = SECONDS, *, devices: int = 0) -> Run:
    """Run the text of a program on the CPU or on CUDA: a real GPU if there is one, else simulated.

    On "cpu" the program sees no CUDA. `devices` is the number of cuda devices that it needs;
    0: as many as it names. Raises nothing; see `Run`.
    """
    return _runner.run(source, device, timeout=timeout, devices=devices)


def devices_named(source: str) -> int:
    """How many cuda devices a program names (`cuda:1`, `.cuda(1)`, `set_device(1)`); at least 1."""
    return 1 + max((int(found) for found in _DEVICE.findall(source)), default=0)


# --- codemods ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmokeResult:
    """Whether the examples of a codemod do what they say.

    `ok` is None where nothing went wrong, but not everything could be checked; `detail` says what.
    `checked_on` names the devices on which all of them could be, such as "cpu, cuda (simulated)".
    """

    codemod: str
    ok: bool | None
    checked_on: str
    detail: str
    torch: str = ""


@dataclass(frozen=True)
class Verdict:
    """On one run of an example; `ok` is None where it could not be checked."""

    ok: bool | None
    detail: str
    run: Run


def smoke_codemods(ids: Sequence[str]) -> tuple[SmokeResult, ...]:
    """Run the examples of codemods before and after; raises KeyError for an unknown id."""
    from devfix.own.known import Known

    known = Known()
    return tuple(smoke_examples(id, known[id].examples) for id in ids)


def smoke_examples(codemod: str, examples: Iterable[Example], runner: Runner | None = None) -> SmokeResult:
    """Run examples on the CPU, where before and after print the same, and on CUDA.

    There `before` raises what the example says, if anything, and `after` runs and prints the
    CPU's numbers, as near as floating point allows. Where `before` raises on the CPU, too, as the
    example says, `after` has to run there.
    """
    failed: list[str] = []
    unchecked: list[str] = []
    complete: dict[str, bool] = {}
    torch = ""
    for example in examples:
        for verdict in check_example(example, runner):
            place = verdict.run.device
            complete[place] = complete.get(place, True) and verdict.ok is not None
            torch = verdict.run.torch or torch
            if verdict.ok is not True:
                (unchecked if verdict.ok is None else failed).append(f"{example.title}: {verdict.detail}")
    ok = False if failed else None if unchecked else True
    checked_on = ", ".join(sorted(place for place, whole in complete.items() if whole))
    return SmokeResult(codemod, ok, checked_on, "\n".join([*failed, *unchecked]), torch)


def check_example(example: Example, runner: Runner | None = None) -> Iterator[Verdict]:
    """The verdicts on one example, on the CPU and then on CUDA."""
    runner = runner or _runner
    cpu_before = runner.run(example.program(), "cpu")
    if example.raises_on_cpu:
        yield _raises("before, on the CPU,", cpu_before, example.raises_on_cpu)
    else:
        yield _runs("before, on the CPU,", cpu_before)
    last = cpu_before
    if example.after is not None:
        last = runner.run(example.program(after=True), "cpu")
        yield _prints("after, on the CPU,", last, cpu_before, exact=True)
    cuda_before = runner.run(example.program(), "cuda")
    if example.raises:
        yield _raises(f"before, on {cuda_before.device},", cuda_before, example.raises)
    else:
        yield _prints(f"before, on {cuda_before.device},", cuda_before, cpu_before)
    if example.after is not None:
        cuda_after = runner.run(example.program(after=True), "cuda")
        yield _prints(f"after, on {cuda_after.device},", cuda_after, last)


def _runs(what: str, run: Run) -> Verdict:
    if not run.checked:
        return Verdict(None, f"{what} not checked: {run.status}: {run.error}", run)
    if run.status == "raised":
        return Verdict(False, f"{what} line {run.line} raises {run.error}", run)
    return Verdict(True, "", run)


def _prints(what: str, run: Run, expected: Run, *, exact: bool = False) -> Verdict:
    verdict = _runs(what, run)
    if not verdict.ok or expected.status != "ok" or run.fake:
        return verdict
    same = run.output == expected.output if exact else same_numbers(run.output, expected.output)
    if same:
        return verdict
    return Verdict(False, f"{what} prints {run.output!r}, not {expected.output!r}", run)


def _raises(what: str, run: Run, pattern: str) -> Verdict:
    if not run.checked:
        return _runs(what, run)
    if run.fake and run.status == "raised":
        return Verdict(True, "", run)
    if run.status == "ok":
        said = f"{what} raises nothing, not {pattern!r}"
        return Verdict(None if run.fake else False, said, run)
    if not re.search(pattern, run.error):
        return Verdict(False, f"{what} line {run.line} raises {run.error}, not {pattern!r}", run)
    return Verdict(True, "", run)


def same_numbers(left: str, right: str) -> bool:
    """Are the numbers in two texts the same: whole ones exactly, others nearly?"""
    first, second = numbers(left), numbers(right)
    return len(first) == len(second) and all(map(same_number, first, second))


def numbers(text: str) -> list[str]:
    """The numbers in a text, but those in names and devices (`float16`, `cuda:0`)."""
    return _NUMBER.findall(text)


def same_number(left: str, right: str) -> bool:
    """Are two numbers the same: whole ones exactly, others nearly?"""
    if re.fullmatch(r"[-+]?\d+", left) and re.fullmatch(r"[-+]?\d+", right):
        return int(left) == int(right)
    first, second = float(left), float(right)
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return math.isclose(first, second, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
