"""Chunks of paths, here or over processes: results in order, and none lost to a bad file."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from devfix.pipeline import signals

if TYPE_CHECKING:
    from concurrent.futures import Future

SERIAL = 50  # so few files are done before a pool of processes has started
CHUNK, CHUNK_BYTES = 16, 64_000  # files of one chunk, and their size together if they are several
# Bytes: a file that gets a process of its own, since its tree may not fit into memory. Python 3.10's parser
# crashes on chains of some 100,000 terms, later ones refuse them.
BIG = 2_000_000 if sys.version_info >= (3, 11) else 100_000
MEMORY = 4 << 30  # bytes that a worker may take
GARBAGE = 1_000_000  # objects more than after the last collection: some 100 MB

Result = TypeVar("Result")
Task = Callable[[tuple[str, ...]], Result]


@dataclass(frozen=True)
class Lost:
    """Why there is no result."""

    reason: str


def spread(
    task: Task[Result],
    paths: Sequence[str],
    lost: Callable[[str, str], Result],
    *,
    jobs: int = 0,
    seconds: float = 60.0,
) -> Iterator[Result]:
    """What `task` says of each chunk of `paths`, in order.

    With `jobs=1` or few paths in this process, else in `jobs` of them (0: one per core; never more than four per
    core); big files always in one of their own. `lost(path, why)` stands in for a path that takes longer than
    `seconds`, takes more than `MEMORY` or kills its process. (In this process only Python's own code can be
    stopped.)
    """
    jobs = min(jobs or cores(), 4 * cores())  # the settings of a repository may ask for any number
    if jobs > 1 and len(paths) >= SERIAL:
        with _Pool(task, lost, jobs, seconds) as pool:
            yield from pool.results(list(_chunks(paths, jobs)))
        return
    with no_gc():
        for path in paths:
            if _size(path) > BIG:
                with _Pool(task, lost, 1, seconds) as pool:
                    yield from pool.results([(path,)])
                continue
            try:
                with limited(seconds):
                    done = task((path,))
            except TookTooLong as error:
                done = lost(path, str(error))
            yield done
            tidy()


def _chunks(paths: Sequence[str], jobs: int) -> Iterator[tuple[str, ...]]:
    """Small ones first, so that the first results are there soon; none that takes very long."""
    at = number = 0
    while at < len(paths):
        most = min(CHUNK, 1 << number // jobs)
        end, size = at + 1, _size(paths[at])
        while end < min(at + most, len(paths)) and (size := size + _size(paths[end])) <= CHUNK_BYTES:
            end += 1
        yield tuple(paths[at:end])
        at, number = end, number + 1


def _size(path: str) -> int:
    """In bytes; 0 if that cannot be had."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


class TookTooLong(BaseException):
    """Raised in the middle of whatever takes so long; nothing but `limited`'s caller is to catch it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TookTooLong after a time; where the system has no such alarm, and outside of the main thread, never."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
    ):
        yield
        return

    def late(number: int, frame: object) -> None:
        raise TookTooLong(f"took longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


class _Pool(Generic[Result]):
    """Worker processes."""

    def __init__(
        self, task: Task[Result], lost: Callable[[str, str], Result], jobs: int, seconds: float
    ) -> None:
        from pebble import ProcessPool

        self.task, self.lost, self.seconds = task, lost, seconds
        self.pool: Any = ProcessPool(max_workers=jobs, initializer=_start_worker)

    def __enter__(self) -> _Pool[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.stop()
        self.pool.join()

    def results(self, chunks: Sequence[tuple[str, ...]]) -> Iterator[Result]:
        """Those of each chunk, in order."""
        futures = [self._schedule(chunk) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            done = _wait(future, self.seconds)
            if not isinstance(done, Lost):
                yield done
                continue
            for path in chunk:  # one of them is to blame; the others get their results
                if len(chunk) > 1:
                    done = _wait(self._schedule((path,)), self.seconds)
                yield self.lost(path, done.reason) if isinstance(done, Lost) else done

    def _schedule(self, chunk: tuple[str, ...]) -> Future[Result]:
        future: Future[Result] = self.pool.schedule(_in_worker, args=(self.task, chunk), timeout=self.seconds)
        return future


def _wait(future: Future[Result], seconds: float) -> Result | Lost:
    from concurrent.futures import TimeoutError as FutureTimeout

    from pebble import ProcessExpired

    try:
        return future.result()
    except FutureTimeout:
        return Lost(f"took longer than {seconds:g} s")
    except ProcessExpired as error:
        return Lost(f"the process that worked on it died (exit code {error.exitcode})")


def _start_worker() -> None:
    signals.in_worker()
    # The main process, or (Python 3.14) a server that ends with it.
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        used = _virtual_memory()
        if used:  # otherwise the limit could be below what the process has already
            most = used + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    # What is imported by now stays for good; what files leave behind goes in `tidy`.
    gc.disable()
    gc.freeze()


def _end_with(parent: int) -> None:
    """A worker whose parent was killed works for nobody."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _virtual_memory() -> int:
    """The bytes of address space that this process has already; 0 where the system does not tell (macOS)."""
    from devfix.documents import DocumentError, read_bytes

    try:
        return int(read_bytes("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (DocumentError, OSError, ValueError):
        return 0


def _in_worker(task: Task[Result], chunk: tuple[str, ...]) -> Result:
    done = task(chunk)
    tidy()
    return done


def tidy() -> None:
    """Free what the last files left behind in cycles, if it is much."""
    if gc.get_count()[0] > GARBAGE:  # counts on while collection is off
        gc.collect()


@contextmanager
def no_gc() -> Iterator[None]:
    """No garbage collection while trees are built: it takes a third of the time of `ast.parse`."""
    was = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was:
            gc.enable()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
