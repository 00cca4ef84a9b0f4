"""Processes that are forked from one which has imported what takes time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ran import Ran


class Server:
    """Starts a program of the tests, which calls `serve`, and runs it in forks; a context manager."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

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
            words = [os.fsdecode(one) for one in arguments]
            request = json.dumps([words, [*map(str, streams)], str(cwd), dict(environment)])
            assert self.process.stdin is not None and self.process.stdout is not None
            print(request, file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                self.process.kill()
                raise TimeoutError(words)
            code = int(self.process.stdout.readline())
            out, err = streams[1].read_bytes(), streams[2].read_bytes()
        return Ran(code, out, err.decode(errors="surrogateescape"))

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


def serve() -> None:
    """Fork for each line of JSON, which has arguments, streams, folder and environment; returns in the forks."""
    for line in os.fdopen(os.dup(0)):
        child = os.fork()
        if not child:
            sys.argv[1:], streams, folder, environment = json.loads(line)
            for number, path in enumerate(streams):
                os.dup2(os.open(path, os.O_RDWR), number)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)
