"""The pool of processes on this machine.

Each process has a pipe of its own. (Those of a pebble pool share one: a process that is killed while it
holds its lock, as the system does when memory is short, breaks the pool for all.)
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from concurrent.futures import Future
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from typing import Any

from devfix.migrate import children, folders
from devfix.migrate.driver import Lost
from devfix.migrate.model import Head, Job, Limits, Outcome, StepName
from devfix.migrate.steps import mark_of, run_step

_GRACE = 15.0  # seconds that a step gets to say itself that its time is over
_TASKS = 500  # steps; then a process is replaced by a new one
_Task = tuple[StepName, Job, str, "Head | None"]


class StepError(Exception):
    """A step has raised what nobody foresaw; the text is the traceback."""


class LocalPool:
    """Processes that are spawned, not forked: they share no open file with the driver.

    Each has a limit of memory. One that dies or takes too long costs its own repository's step only.
    """

    def __init__(self, campaign: str, uid: str, size: int, limits: Limits) -> None:
        self.campaign = os.path.realpath(campaign)
        self.uid = uid
        self.size = size
        children.end_strays(uid)  # of a run that was killed
        resource_tracker.ensure_running()  # it is multiprocessing's own, and must not carry the mark
        os.environ[children.MARK] = uid  # for the processes to be found by
        self._queue: SimpleQueue[tuple[_Task, Future[Outcome]] | None] = SimpleQueue()
        self._workers = [_Worker(self._queue, limits) for _ in range(size)]
        for worker in self._workers:
            worker.start()

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._queue.put(((step, job, folders.scratch(self.campaign, job.id), head), future))
        return future

    def lost(self, job: Job) -> None:
        children.end_strays(mark_of(job))
        folders.remove(folders.scratch(self.campaign, job.id))

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        for _ in self._workers:
            self._queue.put(None)
        for worker in self._workers:
            worker.join()
        children.end_strays(self.uid)  # of processes that were killed
        os.environ.pop(children.MARK, None)


class _Worker(threading.Thread):
    """Hands tasks to one process, waits for it, and replaces it where that is needed."""

    def __init__(self, queue: SimpleQueue[Any], limits: Limits) -> None:
        super().__init__(name="devfix-migrate", daemon=True)
        self.queue = queue
        self.limits = limits
        self.process: SpawnProcess | None = None
        self.pipe: Connection | None = None
        self.tasks = 0
        self.stopped = False

    def run(self) -> None:
        while (item := self.queue.get()) is not None and not self.stopped:
            task, future = item
            try:
                future.set_result(self.done(task))
            except (Lost, TimeoutError, StepError) as error:
                future.set_exception(error)
        self.end()

    def done(self, task: _Task) -> Outcome:
        """What the process says of a task; raises Lost, TimeoutError and StepError."""
        process, pipe = self.ready()
        self.tasks += 1
        try:
            pipe.send(task)
            if not wait([pipe, process.sentinel], self.limits.seconds + _GRACE):
                raise TimeoutError
            answer = pipe.recv()
        except TimeoutError:
            self.end()
            raise
        except (EOFError, OSError):
            self.end()
            code = process.exitcode
            killed = code in (-signal.SIGKILL, -signal.SIGTERM)
            raise Lost(f"the process that worked on it died (exit code {code})", killed) from None
        if isinstance(answer, str):
            raise StepError(answer)
        assert isinstance(answer, Outcome)
        return answer

    def ready(self) -> tuple[SpawnProcess, Connection]:
        if self.tasks >= _TASKS or (self.process is not None and not self.process.is_alive()):
            self.end()
        if self.process is None or self.pipe is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            arguments = (theirs, os.getpid(), self.limits.memory)
            self.process = context.Process(target=_serve, args=arguments)  # may have children: no daemon
            self.process.start()
            theirs.close()  # or its end would never be seen
            self.tasks = 0
        return self.process, self.pipe

    def stop(self) -> None:
        """From another thread: end the process, whatever it does."""
        self.stopped = True
        process = self.process
        if process is not None:
            process.terminate()

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()  # it ends what it has started
            self.process.join(2)
            self.process.kill()
            self.process.join()
        if self.pipe is not None:
            self.pipe.close()
        self.process = self.pipe = None


def _serve(pipe: Connection, parent: int, memory: int) -> None:
    """In the process: one task after the other."""
    children.guard(parent)
    children.limit_memory(memory)
    while True:
        try:
            task: _Task = pipe.recv()
        except (EOFError, OSError):
            return
        answer: Outcome | str
        try:
            answer = run_step(*task)
        except Exception:  # of one repository; the others must not suffer
            answer = traceback.format_exc()
        pipe.send(answer)
