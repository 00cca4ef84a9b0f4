"""A pool that works in the test's own process, so that tests are fast and can look inside."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from devfix.migrate import folders
from devfix.migrate.model import Head, Job, Outcome, StepName
from devfix.migrate.steps import run_step


class InlinePool:
    """In the place of `LocalPool`; its arguments are the same."""

    size = 1

    def __init__(self, campaign: str, *_: Any) -> None:
        self.campaign = campaign

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(run_step(step, job, folders.scratch(self.campaign, job.id), head))
        return future

    def lost(self, job: Job) -> None:
        raise AssertionError(job)

    def close(self) -> None:
        pass
