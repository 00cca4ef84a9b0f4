"""Runs of one command, forked from one process that has started it: they need not import torch again and again.

`Forks` starts the command as any run does, but Python finds in the environment that it is to `serve` when it imports
`child/sitecustomize.py`, and no code of the program has run. It imports torch there, and forks itself for each kind and
number of devices; the child enables them, and forks for each request. In that fork, `serve` returns, and Python goes
on with the command as in any other process, with a new working directory, environment, arguments and output. Where that
is not the same as a process of its own, there is no fork: `Forks.start` says so by None, and a run that notices by
`STALE`. One thing is shared: all runs hash strings alike.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from devfix.simulate.children import unsimulated
from devfix.simulate.forking import Dynamo, Line, close_all_but, die_with_parent
from devfix.simulate.limits import Limits
from devfix.simulate.preloaded import Before, early, put_by
from devfix.simulate.processes import BUILT, CANNOT, DEVICE, DEVICES, FORKS, MOVED, REPORTS, start

STALE = "stale"  # a file in the folder of the reports: the run needs a process of its own
_SECONDS = 120.0  # for torch to be imported, on a busy machine
# What runs may differ in: what is not read until the program itself runs.
_OF_A_RUN = ("CUDA_VISIBLE_DEVICES", "DEVFIX_SIMULATE", "TMPDIR")


@dataclass
class Forked:
    """A run: the part of subprocess.Popen that is needed of it."""

    pid: int
    server: Line
    returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, that of a signal negative; raises TimeoutExpired."""
        if self.returncode is None:
            try:
                line = self.server.read(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired("", timeout or 0.0) from None
            if line is None:
                raise OSError("the process that runs are forked from has died")
            self.returncode = int(json.loads(line))
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class StaleFork(Exception):
    """A run was given up, since it has to be a process of its own; the next one will be."""


@dataclass
class Forks:
    """The process that runs of a command are forked from; a context manager. It starts with the first of them.

    For one run after the other.
    """

    problem: str = "" if sys.platform == "linux" else "this system has no fork, or none that is safe"
    _command: list[str] = field(default_factory=list)
    _env: Mapping[str, str] = field(default_factory=dict)
    _cwd: str = ""
    _arguments: int = 0
    _server: subprocess.Popen[bytes] | None = None
    _line: Line = field(default_factory=lambda: Line(-1))
    _socket: socket.socket | None = None

    @property
    def started(self) -> bool:
        return self._server is not None

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        outputs: tuple[str, str],
        limits: Limits | None,
    ) -> Forked | None:
        """Start a run in a session of its own, without input; None where it has to be a process of its own.

        `outputs` are the files for stdout and stderr, which are there.
        """
        if self.problem or not _is_python(command, env):
            return None
        try:
            if not self.started:
                self.problem = self._serve(command, env, cwd)
            head = len(self._command) - self._arguments
            changed = {name: env.get(name) for name, _ in env.items() ^ self._env.items()}
            if (
                self.problem
                or cwd != self._cwd
                or [*command[:head]] != self._command[:head]
                or not all(name.startswith(_OF_A_RUN) for name in changed)
            ):
                return None
            self._line.write(
                {
                    "command": [*command],
                    "arguments": [*command[head:]],
                    "env": changed,
                    "cwd": cwd,
                    "outputs": outputs,
                    "limits": None if limits is None else asdict(limits),
                }
            )
            line = self._line.read(_SECONDS)
        except (OSError, ValueError) as error:
            self.problem = str(error)
            return None
        if line is None:
            self.problem = "it has died"
            return None
        return Forked(int(json.loads(line)), self._line)

    def _serve(self, command: Sequence[str], env: Mapping[str, str], cwd: str) -> str:
        """Start the process, and wait until it has imported torch; gives what keeps it from serving."""
        ours, theirs = socket.socketpair()
        self._command, self._env, self._cwd = [*command], dict(env), cwd
        self._socket, self._line = ours, Line(ours.fileno())
        with theirs, tempfile.TemporaryFile() as said:
            self._server = subprocess.Popen(
                command,
                cwd=cwd,
                env={**env, FORKS: str(theirs.fileno())},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        line = self._line.read(_SECONDS)
        if line is None:
            return "it has died"
        problem, self._arguments = json.loads(line)
        return str(problem)

    def look_into(self, reports: str) -> None:
        """Raises StaleFork where a run says so in the folder of its reports."""
        path = os.path.join(reports, STALE)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.problem = file.read()
            raise StaleFork(self.problem)

    def close(self) -> None:
        """End the process, and a run that goes on."""
        self.problem = self.problem or "it has been closed"
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def __enter__(self) -> Forks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_python(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Does it start this Python, which imports sitecustomize.py, with a program?"""
    return (
        command[:1] == [sys.executable]
        and len(command) > 1
        and (not command[1].startswith("-") or (command[1] == "-m" and len(command) > 2))
        and not unsimulated(command, env, DEVICES)
    )


# --- in the process itself -------------------------------------------------------------------


def serve(before: Before) -> None:
    """Fork for each request; returns in the forks. Ends with the process that asks.

    `before` is what any process has loaded here. What is asked for is forked from a process that has its devices.
    """
    atexit.register(_stay)  # the first to be registered is the last to be called
    line = Line(int(os.environ.pop(FORKS)))
    line.write([_prepared(), len(sys.argv) - 1])
    servers: dict[tuple[str, ...], Line] = {}
    while (data := line.read()) is not None:
        request = json.loads(data)
        env = {**os.environ, **request["env"]}
        devices = tuple(env.get(name) or "" for name in (DEVICE, DEVICES, BUILT))
        if devices not in servers:
            ours, theirs = (one.detach() for one in socket.socketpair())
            if not os.fork():
                die_with_parent()
                close_all_but(theirs)
                _enable(*devices)
                _fork(Line(theirs), before)
                return
            os.close(theirs)
            servers[devices] = Line(ours)
        server = servers[devices]
        server.write(request)
        for _ in "process", "code":
            if (data := server.read()) is None:
                os._exit(1)
            line.write(json.loads(data))
    os._exit(0)


def _enable(device: str, devices: str, built: str) -> None:
    """As `import torch` will, in a fork; real devices do not survive one."""
    import torch

    if device != "cpu" and not (torch.version.cuda or torch.version.hip):
        os.environ[BUILT] = built
        start(int(devices), device)
        gc.freeze()


def _fork(line: Line, before: Before) -> None:
    """Fork for each request; returns in the forks."""
    dynamo = Dynamo()
    while (data := line.read()) is not None:
        request = json.loads(data)
        os.chdir(request["cwd"])  # the folder of the last run may be gone, and dynamo keeps its name
        dynamo.load()
        child = os.fork()
        if not child:
            atexit.register(_tell, dynamo, early())
            _become(request, before)
            return
        line.write(child)
        line.write(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _tell(dynamo: Dynamo, environment: Mapping[str, str]) -> None:
    """Unless dynamo has found something else in the environment than the next run would."""
    changed = {name for name, _ in environment.items() ^ early().items()}
    if changed <= {"TORCHINDUCTOR_CACHE_DIR"}:  # it sets that itself
        dynamo.tell()


def _prepared() -> str:
    """Import torch; gives the reason if forks would not be as good as processes of their own."""
    gc.disable()  # a fork copies what a collection visits
    environment = dict(os.environ)
    try:
        import torch  # noqa: F401
    except Exception as error:
        return str(error)
    gc.freeze()
    if os.fstat(2).st_size:
        return "something is said while torch is imported"
    if environment != dict(os.environ):
        return "torch changes the environment when it is imported"
    if not (child := os.fork()):  # numpy's threads end at a fork, until they are needed again
        os._exit(0)
    os.waitpid(child, 0)
    if len(os.listdir("/proc/self/task")) > 1:
        return "there are threads once torch has been imported"
    old, _, _ = os.environ.get(MOVED, "").partition(os.pathsep)
    for name, module in sys.modules.items():
        path = getattr(module, "__file__", None) or ""
        moves = old and path.startswith(old + os.sep) and "site-packages" not in path
        if moves and not name.startswith("devfix"):
            return f"{name} is a part of the repository"
    return ""


def _become(request: Any, before: Before) -> None:
    """This process is now one that has just started for that request."""
    try:
        os.setsid()
        die_with_parent()
        out, err = request["outputs"]
        os.dup2(os.open(out, os.O_WRONLY), 1)
        os.dup2(1 if err == out else os.open(err, os.O_WRONLY), 2)
        close_all_but()
        os.chdir(request["cwd"])
        for name, value in request["env"].items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        sys.orig_argv[:] = request["command"]
        sys.argv[1:] = request["arguments"]
        if request["limits"] is not None:
            Limits(**request["limits"]).apply()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(CANNOT)
    _renew(sys.modules)
    _do_not_take_apart(before)
    put_by(before, _leave)
    gc.enable()


_staying: dict[str, ModuleType] = {}


def _do_not_take_apart(before: Before) -> None:
    """What was loaded for all forks is left as it is when one ends: to end would take longer than all else.

    The program's own objects go as they always do, and so does what it loads itself.
    """
    for name, module in sys.modules.items():
        top = name.partition(".")[0]
        if top == "devfix" or (name not in before.modules and top not in sys.stdlib_module_names):
            _staying[name] = module
    for one in getattr(weakref.finalize, "_registry", {}):  # those of torch's libraries of operators
        one.atexit = False
    system = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # it is not glibc
        on_exit, at_exit = system.on_exit, system.__cxa_atexit
        on_exit(system._exit, None)  # in the place of the destructors of C++ that are registered by now
        at_exit(system.fflush, None, None)  # and this before it


def _stay() -> None:
    """Called when Python ends, before it takes the modules apart."""
    for name, module in _staying.items():
        if sys.modules.get(name) is module:
            sys.modules[name] = None  # type: ignore[assignment]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_staying))


def _renew(modules: Mapping[str, Any]) -> None:
    """What modules have taken from the process when they were loaded; `random` does so itself."""
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()
    if "tempfile" in modules:
        modules["tempfile"].tempdir = None
    if "numpy.random" in modules:
        modules["numpy.random"].seed()


def _leave(why: str) -> NoReturn:
    """End all processes of this run, which have to be processes of their own."""
    with open(os.path.join(os.environ[REPORTS], STALE), "w", encoding="utf-8") as file:
        file.write(why)
    os.killpg(0, signal.SIGKILL)
    os._exit(CANNOT)
