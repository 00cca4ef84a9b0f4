"""The process that smoke.py forks programs from: it has imported torch, and run nothing else.

Requests come as lines of JSON on standard input, and each gets one line of JSON on standard
output. The first process runs programs on real CUDA. For the CPU and for simulated devices it forks
itself, once for each number of devices; the child enables them and serves in the same way.
Every program runs in a fork of its own, with limits of time and memory, in an empty folder.
smoke.py starts it with OMP_NUM_THREADS=1, since pools of threads do not survive a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from devfix.simulate.forking import Dynamo, Line, close_all_but, die_with_parent
from devfix.simulate.limits import limit_data
from devfix.simulate.program import Report, run_program

_OUTPUT = 1 << 20  # characters of output that are kept
_TICK = 0.02
_CANNOT = "CUDA devices cannot be simulated: "
_NEEDS_DYNAMO = re.compile(r"optim|compile|dynamo|runpy")  # most programs that do, or run one
# Slow to import, and needed by most training programs.
_IMPORTS = ("numpy", "torch.utils.data", "torch.distributed", "torch.nn.parallel")


@dataclass(frozen=True)
class Request:
    """What smoke.py sends."""

    source: str
    device: str  # "cpu" or "cuda"
    devices: int  # how many cuda devices the program needs
    seconds: float
    memory: int  # bytes


@dataclass(frozen=True)
class Reply:
    """What it gets back; `device` says where the program ran."""

    status: str
    output: str = ""
    error: str = ""
    line: int = 0
    device: str = ""
    torch: str = ""


@dataclass
class _Server:
    """One process that programs are forked from. `problem` says why it can run none."""

    place: str = ""  # where programs for cuda run, once known
    count: int = 0  # cuda devices there
    simulated: bool = False
    problem: str = ""
    torch: str = ""
    fake: bool = False  # programs run on fake tensors, since no devices can be simulated
    children: dict[int, tuple[Line, Line]] = field(default_factory=dict)
    dynamo: Dynamo = field(default_factory=Dynamo)

    def serve(self, requests: Line, replies: Line) -> None:
        while (line := requests.read()) is not None:
            replies.write(asdict(self.answer(Request(**json.loads(line)))))

    def answer(self, request: Request) -> Reply:
        if self.problem:
            return Reply("unsupported", error=self.problem, device=request.device, torch=self.torch)
        if request.device == "cpu":
            return self.run(request, "cpu") if self.place == "cpu" else self.forward(request, 0)
        if not self.place:
            self.place, self.count = _real_cuda()
        if not self.count:
            return self.forward(request, request.devices)
        if self.count < request.devices:
            error = f"the program needs {request.devices} CUDA devices, and there is {self.count}"
            return Reply("unsupported", error=error, device=self.place, torch=self.torch)
        return self.run(request, self.place)

    # --- the CPU and simulated devices --------------------------------------------------------

    def forward(self, request: Request, count: int) -> Reply:
        """Let the child with so many simulated devices answer."""
        if count not in self.children:
            self.children[count] = self.spawn(count)
        requests, replies = self.children[count]
        line = None
        with contextlib.suppress(BrokenPipeError):
            requests.write(asdict(request))
            line = replies.read()
        if line is None:
            os.close(requests.descriptor)
            os.close(replies.descriptor)
            del self.children[count]
            error = "the process died that it was forked from"
            return Reply("crashed", error=error, device=self.place if count else "cpu", torch=self.torch)
        reply = Reply(**json.loads(line))
        if reply.error.startswith(_CANNOT) and not self.fake and _is_cpu_build():
            self.fake = True  # from now on, in processes that have not tried
            self.children.pop(count)
            for pipe in (requests, replies):
                os.close(pipe.descriptor)
            return self.forward(request, count)
        return reply

    def spawn(self, count: int) -> tuple[Line, Line]:
        inner_requests, requests = os.pipe()
        replies, inner_replies = os.pipe()
        if os.fork():
            os.close(inner_requests)
            os.close(inner_replies)
            return Line(requests), Line(replies)
        _end(lambda: self.simulate(count, inner_requests, inner_replies))

    def simulate(self, count: int, requests: int, replies: int) -> None:
        """The whole life of a process with simulated devices, or without any."""
        die_with_parent()
        close_all_but(requests, replies)
        if not count:
            _Server("cpu", torch=self.torch).serve(Line(requests), Line(replies))
            return
        if self.fake or os.environ.get("DEVFIX_SIMULATE") == "fake":
            server = _Server("cuda (fake tensors)", count, fake=True, torch=self.torch)
            server.serve(Line(requests), Line(replies))
            return
        server = _Server("cuda (simulated)", count, simulated=True, torch=self.torch)
        from devfix.simulate import CannotSimulate, enable
        from devfix.simulate.processes import environment

        try:
            enable(count)
            os.environ.update(environment(count))  # for what programs start
        except CannotSimulate as error:
            server.problem = f"{_CANNOT}{error}"
        server.serve(Line(requests), Line(replies))

    # --- one program -------------------------------------------------------------------------

    def run(self, request: Request, place: str) -> Reply:
        base = tempfile.mkdtemp(prefix="run-", dir=os.getcwd())
        folder, stdout, stderr = (os.path.join(base, name) for name in ("cwd", "stdout", "stderr"))
        os.mkdir(folder)
        try:
            self.dynamo.load(likely=self.fake or _NEEDS_DYNAMO.search(request.source) is not None)
            start = time.monotonic()
            report_from, report_to = os.pipe()
            child = os.fork()
            if not child:
                _end(lambda: self.child(request, folder, stdout, stderr, report_to))
            os.close(report_to)
            report, ending = _await(child, report_from, start + request.seconds)
            os.close(report_from)
            output = _read(stdout)
            if report is None:
                status = "timeout" if ending is None else "crashed"
                error = _ending(ending, request.seconds) + _last_line(_read(stderr))
                return Reply(status, output, error, device=place, torch=self.torch)
            return Reply(report.status, output, report.error, report.line, place, self.torch)
        finally:
            shutil.rmtree(base, ignore_errors=True)

    def child(self, request: Request, folder: str, stdout: str, stderr: str, report_to: int) -> None:
        os.setsid()
        die_with_parent()
        for target, path, mode in (
            (0, os.devnull, os.O_RDONLY),
            (1, stdout, os.O_WRONLY),
            (2, stderr, os.O_WRONLY),
        ):
            descriptor = os.open(path, mode | os.O_CREAT, 0o600)
            os.dup2(descriptor, target)
        close_all_but(report_to)
        if request.device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # real CUDA has not been looked at yet
        if (
            request.device == "cpu" or self.simulated or self.fake
        ):  # CUDA's own driver maps far more than it uses
            with contextlib.suppress(OSError, ValueError):
                limit_data(request.memory)
        if self.simulated:
            from devfix.simulate import renew_after_fork

            renew_after_fork()
        import torch

        # Once, before there are threads: in a fork, torch renews its pool of threads with a race,
        # and the autograd threads of two devices lose it ("Invalid thread pool!", an abort).
        torch.set_num_threads(1)
        os.chdir(folder)
        path = os.path.join(folder, "program.py")
        if self.fake and request.device != "cpu":
            from devfix.simulate.fake import run_fake

            report = run_fake(request.source, path, self.count)
        else:
            report = run_program(request.source, path)
        self.dynamo.tell()
        Line(report_to).write(asdict(report))


def _is_cpu_build() -> bool:
    import torch

    return not (torch.version.cuda or torch.version.hip)


def _real_cuda() -> tuple[str, int]:
    """Name and number of real devices; asked in a fork, since asking spoils CUDA for later forks."""

    def ask() -> tuple[str, int]:
        import torch

        if not torch.cuda.is_available():
            return "", 0
        return f"cuda ({torch.cuda.get_device_name(0)})", torch.cuda.device_count()

    answer, to = os.pipe()
    child = os.fork()
    if not child:
        _end(lambda: Line(to).write(ask()))
    os.close(to)
    line = Line(answer).read()
    os.close(answer)
    os.waitpid(child, 0)
    place, count = json.loads(line) if line else ("", 0)
    return place or "cuda (simulated)", count


# --- processes -----------------------------------------------------------------------------


def _end(body: Callable[[], None]) -> NoReturn:
    """The body of a forked child: whatever happens in it, it ends here, without cleaning up."""
    code = 1
    try:
        body()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def _await(child: int, report_from: int, deadline: float) -> tuple[Report | None, int | None]:
    """The report of a child and its wait status; None for what did not come in time.

    The child and all that it has started are gone afterwards.
    """
    os.set_blocking(report_from, False)
    data = b""
    ending: int | None = None
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(report_from, 1 << 16):
                data += chunk
        if done:
            ending = status
            break
        if time.monotonic() > deadline:
            break
        time.sleep(_TICK)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    if ending is None:
        os.waitpid(child, 0)
    if not data.endswith(b"\n"):
        return None, ending
    return Report(**json.loads(data)), ending


def _ending(status: int | None, seconds: float) -> str:
    if status is None:
        return f"took longer than {seconds:.0f} s"
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with exit code {os.WEXITSTATUS(status)} in the middle"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_OUTPUT)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f" ({lines[-1]})" if lines else ""


def main() -> None:
    """Serve until standard input ends."""
    requests, replies = Line(os.dup(0)), Line(os.dup(1))
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(silence, descriptor)
    server = _Server()
    try:
        import torch

        server.torch = str(torch.__version__)
    except ImportError as error:
        server.problem = f"{error}; pip install 'devfix[smoke]'"
    for name in () if server.problem else _IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    server.serve(requests, replies)
