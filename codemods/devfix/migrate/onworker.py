"""What a dask worker does for a campaign: all steps of one repository, in processes of its own.

A worker keeps a `LocalPool` for a campaign, so that its limits of time and memory are the ones of a run on
one machine, and a step that hangs or crashes takes a child with it and not the worker. It writes nothing but
its scratch folder below the worker's own folder, which dask removes with the worker.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from devfix import __version__
from devfix.migrate.driver import Lost
from devfix.migrate.local import LocalPool, StepError
from devfix.migrate.model import Head, Job, Outcome, Settings, StepName
from devfix.migrate.steps import NEXT

_LOOK = 1.0


@dataclass(frozen=True)
class Versions:
    """What has to be the same everywhere for the results to be."""

    devfix: str
    python: str
    libcst: str
    distributed: str

    def differences(self, driver: Versions) -> str:
        """For people; empty if they are alike."""
        ours, theirs = vars(self), vars(driver)
        return ", ".join(
            f"{name} {ours[name]}, the driver {theirs[name]}" for name in ours if ours[name] != theirs[name]
        )


def versions() -> Versions:
    def of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    python = ".".join(platform.python_version_tuple()[:2])
    return Versions(__version__, python, of("libcst"), of("distributed"))


@dataclass(frozen=True)
class Order:
    """What the driver sends to a worker. `needs` are paths of the driver's machine that must be here, too."""

    token: str
    job: Job
    versions: Versions
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """What a worker answers: the outcomes of the steps, and what kept it from the next one.

    `lost`: the process that worked on it died, `killed` from outside; `late`: it took too long; `wrong`: no
    repository can be worked on here, for this reason; `bug`: a step has raised this.
    """

    outcomes: tuple[Outcome, ...] = ()
    lost: str = ""
    killed: bool = False
    late: bool = False
    wrong: str = ""
    bug: str = ""


def work(data: bytes, topic: str) -> bytes:
    """The task: an Order -> a Said, both pickled, so that dask has nothing to look into.

    The outcome of the clone is told at once, for the driver to record; it is part of the answer, too.
    """
    from distributed import get_worker

    order: Order = pickle.loads(data)
    worker = get_worker()
    if wrong := _wrong(order):
        return pickle.dumps(Said(wrong=f"worker {worker.address} on {socket.gethostname()}: {wrong}"))

    def told(outcome: Outcome) -> None:
        worker.log_event(topic, {"token": order.token, "outcome": pickle.dumps(outcome)})

    return pickle.dumps(_site(worker, order.job.settings).work(order.job, told))


def _wrong(order: Order) -> str:
    if differs := versions().differences(order.versions):
        return f"has {differs}; install the same versions everywhere"
    for path in order.needs:
        if not os.path.exists(path):
            return f"there is no {path}, which the driver has; put it on a shared file system, or name a URL"
    return ""


def leave(uid: str) -> None:
    """The campaign's run is over: its processes end."""
    with _lock:
        found = [key for key in _sites if key[1] == uid]
        sites = [_sites.pop(key) for key in found]
    for site in sites:
        site.close()


# --- the processes of a worker -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Running:
    job: Job
    said: Future[Said]


class _Site:
    def __init__(self, folder: str, settings: Settings, size: int) -> None:
        self.mark = f"{settings.uid}/{os.getpid()}"  # other workers of this machine have their own
        self.pool = LocalPool(folder, self.mark, size, settings.limits)
        self.lock = threading.Lock()
        self.running: dict[str, _Running] = {}
        self.closed = False

    def work(self, job: Job, told: Callable[[Outcome], None]) -> Said:
        """A driver that was killed may have left the same work here: then it is waited for, not doubled."""
        job = replace(job, attempt=0, settings=replace(job.settings, uid=self.mark))
        while True:
            with self.lock:
                other = self.running.get(job.id)
                if other is None:
                    mine = self.running[job.id] = _Running(job, Future())
                    break
            said = other.said.result()
            if other.job == job:
                return said
        try:
            said = self._steps(job, told)
            mine.said.set_result(said)
        except BaseException as error:
            mine.said.set_exception(error)
            raise
        finally:
            with self.lock:
                del self.running[job.id]
        return said

    def _steps(self, job: Job, told: Callable[[Outcome], None]) -> Said:
        outcomes: list[Outcome] = []
        step: StepName = "clone"
        head: Head | None = None
        while True:
            future = self.pool.submit(step, job, head)
            while not wait([future], timeout=_LOOK).done:
                if self.closed:
                    return Said(tuple(outcomes), lost="the run was ended", killed=True)
            error = future.exception()
            if isinstance(error, (Lost, TimeoutError)):
                self.pool.lost(job)
                if isinstance(error, Lost):
                    return Said(tuple(outcomes), lost=str(error), killed=error.killed)
                return Said(tuple(outcomes), late=True)
            if isinstance(error, StepError):
                return Said(tuple(outcomes), bug=str(error))
            outcome = future.result()
            outcomes.append(outcome)
            if outcome.final:
                return Said(tuple(outcomes))
            told(outcome)
            step, head = NEXT[outcome.step], outcome.head

    def close(self) -> None:
        self.closed = True
        self.pool.close()


_sites: dict[tuple[str, str], _Site] = {}  # by worker and campaign
_lock = threading.Lock()


def _site(worker: Any, settings: Settings) -> _Site:
    with _lock:
        key = (str(worker.id), settings.uid)
        if key not in _sites:
            for old in [old for old, site in _sites.items() if old[0] == key[0] and not site.running]:
                _sites.pop(old).close()  # of a campaign whose driver was killed
            # A worker that a nanny has started is a daemon, to which Python refuses children. These end by
            # themselves when the worker has gone, however it went.
            process: Any = multiprocessing.current_process()
            process._config.pop("daemon", None)
            folder = os.path.join(worker.local_directory, f"devfix-{settings.uid}")
            _sites[key] = _Site(folder, settings, max(1, worker.state.nthreads))
        return _sites[key]
