"""The pool of processes on other machines: a dask cluster. The driver alone writes the state.

A repository is one task with all its steps, so that what a worker has cloned stays where it is. The outcome
of the clone comes as an event while the task goes on, and again with its result. A result is fetched when
its task has ended and released at once; there are no more tasks than the cluster has threads, or `--jobs`.

When a worker dies, the scheduler gives its tasks to others, up to three times by default (`distributed.
scheduler.allowed-failures`); then it gives up, and the driver counts that as one loss of the repository.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import re
import threading
import time
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from devfix.migrate import folders, onworker
from devfix.migrate.driver import Lost
from devfix.migrate.git import is_local
from devfix.migrate.local import StepError
from devfix.migrate.model import Head, Job, MigrateError, Outcome, Settings, StepName

_CONNECT = 20  # seconds
_FIRST = 60.0  # until there is a worker at the start
_PATIENCE = 300.0  # without any worker, or without an answer of the scheduler
_LOOK = 2.0
_TIMEOUTS = (OSError, TimeoutError, asyncio.TimeoutError)
_GONE = (*_TIMEOUTS, RuntimeError, CancelledError, asyncio.CancelledError)  # of a client that is closed


_versions = onworker.versions


def connected(address: str, campaign: str, settings: Settings, most: int, jobs: int = 0) -> ClusterPool:
    """The pool of `tcp://HOST:PORT`, `tls://HOST:PORT` or `local:N`; raises MigrateError.

    `jobs` is for an adaptive cluster, which brings workers for tasks that wait, and may have none at first: so many
    repositories are given to it at a time, and a worker is waited for without end. 0: as many as it has threads.
    """
    local = re.fullmatch(r"local:([1-9]\d{0,3})", address)
    if not local and not re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}", address):
        raise MigrateError(f"--cluster is tcp://HOST:PORT, tls://HOST:PORT or local:N, not {address!r}")
    _library()
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said by this pool
    scratch = os.path.join(os.path.realpath(campaign), "work", "dask")
    cluster = _local(min(int(local[1]), most), scratch) if local else None
    client: Any = None
    try:
        client = _client(cluster or address)
        if jobs and not local:
            _called(client)
        else:
            client.wait_for_workers(1, timeout=_FIRST)
        _check(client, address)
    except (*_GONE, MigrateError) as error:
        _close(client, cluster)
        if isinstance(error, MigrateError):
            raise
        if client is None:
            raise MigrateError(f"no dask scheduler answers at {address}: {error}") from error
        how = "" if local else f"; start some with `dask worker {address}`"
        raise MigrateError(f"the cluster at {address} has no workers{how}") from error
    return ClusterPool(client, cluster, address, settings.uid, scratch, 0 if local else jobs)


def _library() -> Any:
    try:
        import distributed
    except ImportError as error:
        if error.name in ("distributed", "dask"):
            why = "which is not installed: pip install 'devfix[cluster]'"
        else:
            why = f"which cannot be imported: {error}"
        raise MigrateError(f"--cluster needs dask.distributed, {why}") from error
    return distributed


def _client(address: Any) -> Any:
    """In a thread: a server that is no scheduler, and says nothing, is waited for without end."""
    found: Future[Any] = Future()

    def connect() -> None:
        try:
            found.set_result(
                _library().Client(address, timeout=_CONNECT, set_as_default=False, name="devfix-migrate")
            )
        except _GONE as error:
            found.set_exception(error)

    threading.Thread(target=connect, name="devfix-connect", daemon=True).start()
    if not wait([found], 2 * _CONNECT).done:
        raise TimeoutError("what is there does not speak dask")
    return found.result()


def _called(client: Any) -> None:
    """Wait for the first worker of an adaptive cluster, which brings none before there is a task."""
    from distributed import KilledWorker

    with suppress(KilledWorker):  # so there was one
        client.submit(int, key=f"devfix-first-{os.urandom(8).hex()}").result()


def _local(count: int, scratch: str) -> Any:
    import dask

    folders.remove(scratch)  # of a run that was killed
    # Each death of a worker is told to the driver, which counts them.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        return _library().LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # the children, which have limits, do the work
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # its web server, on any free port
            host="127.0.0.1",
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        )


def _check(client: Any, address: str) -> None:
    """Everyone has the same versions; raises MigrateError."""
    ours = _versions()
    found: dict[str, Any] = client.run(onworker.versions, on_error="return")
    try:
        found[f"scheduler {address}"] = client.run_on_scheduler(onworker.versions)
    except (ImportError, AttributeError, TypeError) as error:
        found[f"scheduler {address}"] = error
    wrong = []
    for who, theirs in found.items():
        if isinstance(theirs, OSError):
            continue  # it has just died; whoever takes its place is asked with each order
        if not isinstance(theirs, onworker.Versions):
            wrong.append(f"{who} cannot run devfix {ours.devfix}: {theirs}")
        elif differs := theirs.differences(ours):
            wrong.append(f"{who} has {differs}")
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise MigrateError(f"{wrong[0]}{more}; install the same versions everywhere")


def _close(client: Any, cluster: Any) -> None:
    for one in (client, cluster):
        if one is not None:
            with suppress(*_GONE):
                one.close(timeout=10)


@dataclass
class _Work:
    """One repository on the cluster."""

    job: Job
    task: Any = None  # dask's future
    steps: dict[StepName, Future[Outcome]] = field(
        default_factory=lambda: {"clone": Future(), "analyse": Future()}
    )


class ClusterPool:
    """A Pool of the driver: see `driver.py`."""

    def __init__(
        self, client: Any, cluster: Any, address: str, uid: str, scratch: str, jobs: int = 0
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._address = address
        self._uid = uid
        self._scratch = scratch
        self._jobs = jobs
        self._topic = f"devfix-migrate-{uid}-{os.urandom(4).hex()}"
        self._versions = _versions()
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}  # by token
        self._analysing: dict[str, Future[Outcome]] = {}  # by id, until the driver asks for it
        self._failure = ""
        self._closing = threading.Event()
        self._threads: int = sum(client.nthreads().values())
        client.subscribe_topic(self._topic, self._told)
        self._watcher = threading.Thread(target=self._watch, name="devfix-cluster", daemon=True)
        self._watcher.start()

    @property
    def size(self) -> int:
        return self._jobs or max(1, self._threads)

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]:
        if step != "clone":
            with self._lock:
                return self._analysing.pop(job.id)
        if self._failure:
            raise MigrateError(self._failure)
        token = os.urandom(8).hex()
        needs = () if self._cluster is not None else _needs(job)
        order = pickle.dumps(onworker.Order(token, job, self._versions, needs))
        work = _Work(job)
        with self._lock:
            self._works[token] = work
            self._analysing[job.id] = work.steps["analyse"]
        try:
            work.task = self._client.submit(
                onworker.work, order, self._topic, key=f"devfix-{token}", pure=False, retries=0
            )
        except _GONE as error:
            raise MigrateError(self._gone()) from error
        clone = work.steps["clone"]
        work.task.add_done_callback(lambda task: self._ended(token, work, task))
        return clone

    def lost(self, job: Job) -> None:
        """The worker has tidied up, or is gone with its folder."""

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            tasks = [work.task for work in self._works.values() if work.task is not None]
        with suppress(*_GONE):
            if tasks:
                self._client.cancel(tasks)
            if self._client.status == "running":
                self._client.run(onworker.leave, self._uid, on_error="ignore")
        _close(self._client, self._cluster)
        if self._cluster is not None:
            folders.remove(self._scratch)

    # --- what comes from the cluster ---------------------------------------------------------------

    def _told(self, event: tuple[float, Any]) -> None:
        """A worker has cloned one, and goes on with it."""
        message = event[1]
        with self._lock:
            work = self._works.get(message["token"])
            if work is not None and not work.steps["clone"].done():
                work.steps["clone"].set_result(pickle.loads(message["outcome"]))

    def _ended(self, token: str, work: _Work, task: Any) -> None:
        """Called by dask, one task after the other, so there is one result at a time on its way."""
        from distributed import KilledWorker

        outcomes: tuple[Outcome, ...] = ()
        error: BaseException | None
        try:
            outcomes, error = self._result(task)
        except KilledWorker as killed:  # it had the result, which was not fetched yet
            error = killed
        except BaseException as trouble:
            self._settle(token, work, (), trouble)
            raise
        if isinstance(error, KilledWorker):
            # The driver weighs a loss; one of ours may stand for several workers.
            error = Lost("the worker that worked on it died", error.allowed_failures < 3)
        self._settle(token, work, outcomes, error)

    def _result(self, task: Any) -> tuple[tuple[Outcome, ...], BaseException | None]:
        if task.status == "cancelled":
            running = self._client.status == "running"
            return (), Lost("the cluster dropped it") if running else MigrateError(self._gone())
        error = task.exception() if task.status != "finished" else None
        if error is not None:
            return (), error
        data = task.result()
        task.release()
        said: onworker.Said = pickle.loads(data)
        if said.wrong:
            return (), MigrateError(said.wrong)
        if said.bug:
            return said.outcomes, StepError(said.bug)
        if said.lost:
            return said.outcomes, Lost(said.lost, said.killed)
        return said.outcomes, TimeoutError() if said.late else None

    def _settle(
        self, token: str, work: _Work, outcomes: tuple[Outcome, ...], error: BaseException | None
    ) -> None:
        with self._lock:
            self._works.pop(token, None)
            work.task = None
            told = {outcome.step: outcome for outcome in outcomes}
            for step, future in work.steps.items():
                if not future.done():
                    if step in told:
                        future.set_result(told[step])
                    elif error is not None:
                        future.set_exception(error)
            clone = work.steps["clone"]
            if clone.exception() is not None or clone.result().final:
                self._analysing.pop(work.job.id, None)  # nobody will ask for it

    # --- is anybody there? -------------------------------------------------------------------------

    def _watch(self) -> None:
        seen = time.monotonic()
        while not self._closing.wait(_LOOK):
            answered = True
            try:
                self._threads = sum(self._client.nthreads().values())
            except _GONE:
                self._threads, answered = 0, False
            if self._threads or (answered and self._jobs):
                seen = time.monotonic()
            elif self._client.status in ("closing", "closed"):
                self._fail(self._gone())
            elif time.monotonic() - seen > _PATIENCE:
                self._fail(f"the cluster at {self._address} has had no worker for {_PATIENCE:g} s")

    def _gone(self) -> str:
        return (
            f"the scheduler at {self._address} is gone; what is done is kept, `devfix migrate resume` goes on"
        )

    def _fail(self, why: str) -> None:
        """The run ends: everything that is under way is told so."""
        self._failure = why
        with self._lock:
            works = list(self._works.items())
        for token, work in works:
            self._settle(token, work, (), MigrateError(why))


def _needs(job: Job) -> tuple[str, ...]:
    """Paths of this machine that the steps of a job read."""
    if job.source.store:
        return (job.source.store,)
    if not is_local(job.source.url):
        return ()
    path = re.sub(r"^file://[^/]*", "", job.source.url, flags=re.IGNORECASE)
    found = [one for one in (path, unquote(path)) if os.path.exists(one)]
    return tuple(found[:1])
