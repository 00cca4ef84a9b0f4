"""Processes that are forked from one which has imported what takes time."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ran import Ran


class Server:
    """Starts a program of the tests, which calls `serve`, and runs it in forks; a context manager."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(
        self,
        arguments: Sequence[str | bytes],
        streams: Sequence[str | Path],
        cwd: Path,
        environment: Mapping[str, str],
    ) -> Started:
        """`streams` are the files in the place of stdin, stdout and stderr."""
        words = [os.fsdecode(one) for one in arguments]
        return Started(self, self.ask("start", words, [*map(str, streams)], str(cwd), dict(environment)))

    def run(
        self,
        arguments: Sequence[str | bytes],
        stdin: bytes,
        cwd: Path,
        environment: Mapping[str, str],
        seconds: float = 120,
    ) -> Ran:
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("in", "out", "err")]
            for file, data in zip(streams, (stdin, b"", b""), strict=True):
                file.write_bytes(data)
            code = self.start(arguments, streams, cwd, environment).wait(seconds)
            out, err = streams[1].read_bytes(), streams[2].read_bytes()
        return Ran(code, out, err.decode(errors="surrogateescape"))

    def ask(self, what: str, *given: object, seconds: float = 120) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([what, *given]), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
            raise TimeoutError(what, given)
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Started:
    """A fork at work, as `subprocess.Popen` has a process."""

    server: Server
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.server.ask("ended", self.pid, os.WNOHANG)
        return self.returncode

    def wait(self, seconds: float = 120) -> int:
        if self.returncode is None:
            self.returncode = self.server.ask("ended", self.pid, 0, seconds=seconds)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    socket.send_fds(server, [b"-"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    os._exit(int(server.recv(9) or 70))
"""


class Command:
    """An executable `devfix` that does its work in a fork, with its own streams; a context manager.

    For commands that are typed into a shell, where a start takes most of the time. It gets no signals.
    """

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "devfix")
        path = os.path.join(self.folder, "socket")
        Path(self.path).write_text(CLIENT.format(python=sys.executable, path=path))
        os.chmod(self.path, 0o755)
        prepared = str(Path(__file__).with_name("prepared.py"))
        self.process = subprocess.Popen([sys.executable, prepared, "listen", path], stdout=subprocess.PIPE)
        assert self.process.stdout is not None and self.process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.folder)


def serve() -> None:
    """Fork for each line of JSON with `start`, and return in the forks: with their arguments, streams, folder and
    environment. `ended` asks for the exit code of one."""
    for line in os.fdopen(os.dup(0)):
        what, *given = json.loads(line)
        if what == "ended":
            pid, status = os.waitpid(*given)
            print(os.waitstatus_to_exitcode(status) if pid else "null", flush=True)
            continue
        child = os.fork()
        if not child:
            sys.argv[1:], streams, folder, environment = given
            for number, path in enumerate(streams):
                os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)  # two may be one file
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return
        print(child, flush=True)
    os._exit(0)
