"""Chunks of paths, here or over processes: results in order, and none lost to a bad file."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

SERIAL = 50  # so few files are done before a pool of processes has started
CHUNK = 16
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

    With `jobs=1` or few paths in this process, else in `jobs` of them (0: one per core), and then
    `lost(path, why)` stands in for a path that takes longer than `seconds` or kills its process.
    """
    chunks = [tuple(paths[at : at + CHUNK]) for at in range(0, len(paths), CHUNK)]
    jobs = jobs or cores()
    if jobs > 1 and len(paths) >= SERIAL:
        yield from _pool(task, chunks, lost, jobs, seconds)
        return
    with _no_gc():
        for chunk in chunks:
            yield task(chunk)
            _tidy()


def _pool(
    task: Task[Result],
    chunks: Sequence[tuple[str, ...]],
    lost: Callable[[str, str], Result],
    jobs: int,
    seconds: float,
) -> Iterator[Result]:
    from pebble import ProcessPool

    pool: Any = ProcessPool(max_workers=jobs, initializer=_start_worker)

    def schedule(chunk: tuple[str, ...]) -> Future[Result]:
        future: Future[Result] = pool.schedule(_in_worker, args=(task, chunk), timeout=seconds)
        return future

    try:
        futures = [schedule(chunk) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            done = _wait(future, seconds)
            if not isinstance(done, Lost):
                yield done
                continue
            for path in chunk:  # one of them is to blame; the others get their results
                alone = _wait(schedule((path,)), seconds)
                yield lost(path, alone.reason) if isinstance(alone, Lost) else alone
    finally:
        pool.stop()
        pool.join()


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
    # What is imported by now stays for good; what a file leaves behind goes chunk by chunk.
    gc.disable()
    gc.freeze()


def _in_worker(task: Task[Result], chunk: tuple[str, ...]) -> Result:
    done = task(chunk)
    _tidy()
    return done


def _tidy() -> None:
    """Free what the files of the last chunks left behind in cycles, if it is much."""
    if gc.get_count()[0] > GARBAGE:  # counts on while collection is off
        gc.collect()


@contextmanager
def _no_gc() -> Iterator[None]:
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
