"""The driver: takes what is pending, has it worked on, and writes down what came of it. It alone writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Protocol

from devfix.migrate import folders
from devfix.migrate.model import DURING, Artefact, Head, Job, MigrateError, Outcome, State, StepName
from devfix.migrate.state import Store
from devfix.migrate.steps import NEXT

# Deaths of workers with one repository, before it is taken to be to blame. A worker that is killed from outside
# weighs less: memory is limited in another way, so that is rarely the work's own doing.
DEATHS = 12
_CRASH, _KILLED = 4, 1


class Lost(Exception):
    """The worker of a step has died; it is tried again. `killed`: from outside, as far as one can tell."""

    def __init__(self, message: str, killed: bool = True) -> None:
        super().__init__(message)
        self.killed = killed


class Pool(Protocol):
    """Where steps run. A future ends with an Outcome, or with Lost, or TimeoutError, or another error."""

    @property
    def size(self) -> int: ...

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]: ...

    def lost(self, job: Job) -> None:
        """Tidy up after a step that has ended with Lost or TimeoutError."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Progress:
    """What has just come of one repository."""

    job: Job
    state: State
    reason: str
    done: int
    total: int


def drive(
    campaign: str,
    store: Store,
    pool: Pool,
    told: Callable[[Progress], None] = lambda progress: None,
) -> int:
    """Work until nothing is pending; how many repositories that were. The campaign is locked by the caller."""
    return _Drive(campaign, store, pool, told).all()


class _Drive:
    def __init__(self, campaign: str, store: Store, pool: Pool, told: Callable[[Progress], None]) -> None:
        self.campaign = campaign
        self.store = store
        self.pool = pool
        self.told = told
        store.recover()
        self.waiting = deque(store.waiting())
        self.total = len(self.waiting)
        self.done = 0
        self.running: dict[Future[Outcome], tuple[Job, StepName, Head | None]] = {}

    def all(self) -> int:
        while self.waiting or self.running:
            # Not more than there are workers: what is recorded as begun has begun.
            while self.waiting and len(self.running) < self.pool.size:
                self.submit(self.store.job(self.waiting.popleft()), "clone", None)
            ended, _ = wait(self.running, timeout=5, return_when=FIRST_COMPLETED)
            for future in ended:
                self.ended(future, *self.running.pop(future))
        return self.done

    def submit(self, job: Job, step: StepName, head: Head | None) -> None:
        self.store.begin(job.id, step, DURING[step])
        self.running[self.pool.submit(step, job, head)] = (job, step, head)

    def ended(self, future: Future[Outcome], job: Job, step: StepName, head: Head | None) -> None:
        error = future.exception()
        log = ""
        if error is None:
            self.outcome(job, future.result())
            return
        if isinstance(error, Lost):
            self.pool.lost(job)
            if self.store.lost(job.id, step, str(error), _KILLED if error.killed else _CRASH) < DEATHS:
                self.waiting.append(job.id)  # at the end: it may be to blame for it
                return
            reason = f"{error}, again and again"
        elif isinstance(error, TimeoutError):
            self.pool.lost(job)
            reason = f"took longer than {job.settings.limits.seconds:g} s; --seconds sets the limit"
        elif isinstance(error, MigrateError):
            raise error  # of the pool: nothing can be worked on any more
        else:
            log = str(error)
            last = log.strip().splitlines()[-1] if log.strip() else repr(error)
            reason = f"{last}; this is devfix's own bug"
        self.outcome(job, Outcome(step, "failed", reason, log, head=head))

    def outcome(self, job: Job, outcome: Outcome) -> None:
        if not outcome.final:
            self.store.end(job, outcome)
            self.submit(job, NEXT[outcome.step], outcome.head)
            return
        # The files first: a state is never ahead of what is on disk.
        log = (Artefact("log.txt", outcome.log.encode("utf-8", "replace")),) if outcome.log else ()
        folders.keep(self.campaign, job.id, (*outcome.artefacts, *log))
        state = self.store.end(job, outcome)
        self.done += 1
        self.told(Progress(job, state, outcome.reason, self.done, self.total))
