"""The pool of processes on this machine."""

from __future__ import annotations

import os
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from devfix.migrate import children, folders
from devfix.migrate.driver import Lost
from devfix.migrate.model import Head, Job, Limits, Outcome, StepName
from devfix.migrate.steps import mark_of, run_step

_GRACE = 15.0  # seconds that a step gets to say itself that its time is over
_TASKS = 500  # steps; then a process is replaced by a new one


class LocalPool:
    """Processes that are spawned, not forked: they share no open file with the driver.

    Each has a limit of memory. One that dies or takes too long costs its own repository's step only.
    """

    def __init__(self, campaign: str, uid: str, size: int, limits: Limits) -> None:
        import multiprocessing

        from pebble import ProcessPool

        self.campaign = os.path.realpath(campaign)
        self.size = size
        self.limits = limits
        children.end_strays(uid)  # of a run that was killed
        os.environ[children.MARK] = uid  # for the processes to be found by
        self.pool: Any = ProcessPool(
            max_workers=size,
            max_tasks=_TASKS,
            initializer=_start,
            initargs=(os.getpid(), limits.memory),
            context=multiprocessing.get_context("spawn"),
        )

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]:
        folder = folders.scratch(self.campaign, job.id)
        seconds = self.limits.seconds + _GRACE
        ours: Future[Outcome] = Future()
        theirs = self.pool.schedule(run_step, args=(step, job, folder, head), timeout=seconds)
        theirs.add_done_callback(lambda done: _pass_on(done, ours))
        return ours

    def lost(self, job: Job) -> None:
        children.end_strays(mark_of(job))
        folders.remove(folders.scratch(self.campaign, job.id))

    def close(self) -> None:
        self.pool.stop()
        self.pool.join()
        os.environ.pop(children.MARK, None)


def _pass_on(done: Future[Outcome], ours: Future[Outcome]) -> None:
    """The result in the driver's terms."""
    from pebble import ProcessExpired

    error = done.exception()
    if error is None:
        ours.set_result(done.result())
    elif isinstance(error, ProcessExpired):
        ours.set_exception(Lost(f"the process that worked on it died (exit code {error.exitcode})"))
    elif isinstance(error, FutureTimeout):
        ours.set_exception(TimeoutError())
    else:
        ours.set_exception(error)


def _start(parent: int, memory: int) -> None:
    children.guard(parent)
    children.limit_memory(memory)
