"""Child processes: in a group of their own, with a deadline, bounded output, and none left behind.

A worker that is told to end kills the groups that it has started, and so does one whose driver has gone.
Where a worker was killed outright, `end_strays` finds what it has left by a mark in the environment.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from devfix.migrate.model import MigrateError

MARK = "DEVFIX_MIGRATE_JOB"
_LOOK = 0.25  # seconds between two looks at the folder's size, and at the parent
_OUTPUT = 64 << 20
_groups: set[int] = set()


class TooLong(MigrateError):
    """The deadline is over; the message says which command was at work."""


class TooMuch(MigrateError):
    """A limit of size was reached."""


class TooMuchOutput(TooMuch):
    """A program printed more than is read of it."""


@dataclass(frozen=True)
class Done:
    code: int  # negative: the signal that ended it
    out: bytes
    err: bytes


def run(
    command: Sequence[str | bytes],
    *,
    deadline: float,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: bytes = b"",
    most: int = _OUTPUT,
    tail: bool = False,
    watch: Callable[[], None] = lambda: None,
    before: Callable[[], None] | None = None,
) -> Done:
    """Run a program to its end, and end all that it has started.

    `deadline` is on the monotonic clock. More than `most` bytes of output are TooMuchOutput, or with `tail`
    only the last are kept. `watch` is called every now and then, and may raise. `before` runs in the child.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
        preexec_fn=before,
    )
    _groups.add(process.pid)
    try:
        out, err = _talk(process, stdin, deadline, most, tail, watch)
    finally:
        kill_group(process.pid)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()
        _groups.discard(process.pid)
    return Done(process.returncode, out, err)


def _talk(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    deadline: float,
    most: int,
    tail: bool,
    watch: Callable[[], None],
) -> tuple[bytes, bytes]:
    assert process.stdout is not None and process.stderr is not None
    out, err = bytearray(), bytearray()
    rest = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        looked = time.monotonic()
        while any(key.fileobj is not process.stdin for key in selector.get_map().values()):
            now = time.monotonic()
            if now > deadline:
                raise TooLong("took too long")
            if now - looked > _LOOK:
                looked = now
                watch()
            for key, _ in selector.select(min(_LOOK, deadline - now)):
                if process.stdin is not None and key.fileobj is process.stdin:
                    rest = _feed(process.stdin, rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        with suppress(OSError):
                            process.stdin.close()
                    continue
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                key.data.extend(data)
                if len(key.data) > most:
                    if key.data is out and not tail:
                        raise TooMuchOutput(f"more than {most >> 20} MiB of output")
                    del key.data[: len(key.data) - most // 2]
            if process.poll() is not None and not selector.select(0):
                break  # what it has left in the background may keep the pipes open
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise TooLong("took too long")
        watch()
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(_LOOK, max(0.0, deadline - time.monotonic())))
    return bytes(out), bytes(err)


def _feed(pipe: IO[bytes], rest: memoryview) -> memoryview:
    try:
        return rest[os.write(pipe.fileno(), rest[: 1 << 16]) :]
    except BlockingIOError:
        return rest
    except OSError:  # it does not want to read on
        return rest[:0]


def kill_group(group: int) -> None:
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)


# --- in a worker -----------------------------------------------------------------------------------


def guard(parent: int) -> None:
    """From now on, this process ends with its children if it is told to end, or its parent has gone."""

    def end(*_: object) -> None:
        for group in tuple(_groups):
            kill_group(group)
        os._exit(70)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        end()

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's affair
    threading.Thread(target=look, name="devfix-guard", daemon=True).start()


def end_strays(mark: str) -> int:
    """Kill what carries this mark in its environment; how many there were. On Linux only."""
    found = 0
    wanted = f"{MARK}={mark}".encode()
    for _ in range(20):
        pids = list(_marked(wanted))
        if not pids:
            break
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                found += 1
        time.sleep(0.02)
    return found


def _marked(wanted: bytes) -> list[int]:
    from devfix.migrate.folders import read

    found = []
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError):
                    for entry in read(f"/proc/{name}/environ").split(b"\0"):
                        if entry == wanted or entry.startswith(wanted + b"/"):
                            found.append(int(name))
    return found


def limit_memory(memory: int) -> None:
    """A limit for this process and those that it starts; one that is started may raise it again."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or memory < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
