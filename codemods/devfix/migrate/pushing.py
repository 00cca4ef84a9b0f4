"""Branches on remotes, and pull requests on the servers that have them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from time import sleep

from devfix.migrate import folders
from devfix.migrate.forges import Forge, Proposal, PullRequest, Repository
from devfix.migrate.forges.wording import Wording
from devfix.migrate.git import Git, GitFailed, chosen
from devfix.migrate.model import Job, MigrateError
from devfix.migrate.state import Row
from devfix.migrate.steps import mark_of

_LOOKS = 10  # for a fork that the server has yet to fill


class Moved(MigrateError):
    """The head is another one than the result is about."""


class NoRequest(MigrateError):
    """The branch is there, but no pull request."""


@dataclass(frozen=True)
class Asking:
    """How to ask for a pull request. `again`: although one of the same branch was closed."""

    forge: Forge
    path: str
    wording: Wording
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    draft: bool = False
    again: bool = False


@dataclass(frozen=True)
class Pushed:
    """With a closed `request`, nothing was pushed."""

    branch: str
    request: PullRequest | None = None


@dataclass(frozen=True)
class Order:
    """A result to push. `own` are the commits that the campaign has put on the branch, `server` is where it goes,
    empty for a path."""

    row: Row
    job: Job
    own: frozenset[str]
    server: str
    asking: Asking | None


def push_all(
    campaign: str, orders: Sequence[Order], pause: float, begin: Callable[[Order], bool]
) -> Iterator[tuple[Order, Pushed | MigrateError]]:
    """Push to all servers at the same time, and to each of them one after the other, with `pause` seconds between.

    `begin` is called before each, in the caller's thread, and says whether it may be pushed now.
    """
    queues: dict[str, deque[Order]] = {}
    for order in orders:
        queues.setdefault(order.server, deque()).append(order)
    running: dict[Future[Pushed | MigrateError], Order] = {}
    with ThreadPoolExecutor(max(1, len(queues))) as pool:

        def next_of(server: str, seconds: float) -> None:
            queue = queues[server]
            if queue and begin(queue[0]):
                order = queue.popleft()
                running[pool.submit(_pushed, campaign, order, seconds)] = order

        for server in queues:
            next_of(server, 0)
        while running:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                order = running.pop(future)
                yield order, future.result()
                next_of(order.server, pause if order.server else 0)


def _pushed(campaign: str, order: Order, seconds: float) -> Pushed | MigrateError:
    if seconds:
        sleep(seconds)
    try:
        return push(campaign, order.job, order.row, order.own, order.asking)
    except MigrateError as error:
        return error


def push(campaign: str, job: Job, row: Row, own: Collection[str], asking: Asking | None) -> Pushed:
    """Put the commit of a result on the campaign's branch of its source; raises MigrateError.

    The branch is made, or moved from one of `own`, which are commits that this campaign has put there, and never
    touched otherwise. Where the source may not be written to, the branch is made in a fork. With `asking`, there
    is one pull request of the branch afterwards; where one was closed, all is left as it is.
    """
    folder = folders.scratch(campaign, job.id)
    try:
        folders.fresh(folder)
        git = Git(folder, job.settings.limits, mark_of(job))
        if asking is None:
            _branch(campaign, git, job, row, own, job.source.url)
            return Pushed(job.branch)
        there = asking.forge.repository(asking.path)
        if there.archived:
            raise MigrateError("is archived: nothing can be pushed to it")
        at = there if there.writable else asking.forge.fork(there.path)
        closed = asking.forge.latest(there.path, at.path, job.branch)
        if closed is not None and closed.state == "closed" and not asking.again:
            return Pushed(job.branch, closed)
        _branch(campaign, git, job, row, own, job.source.url if at is there else _url(job, at))
        try:
            request = asking.forge.ensure(
                there.path, at.path, _proposal(campaign, job, row, asking, row.base_branch or there.branch)
            )
        except MigrateError as error:
            raise NoRequest(f"the branch is there, but no pull request: {error}") from error
        return Pushed(job.branch, request)
    except OSError as error:
        raise MigrateError(str(error)) from error
    finally:
        folders.remove(folder)


def _url(job: Job, fork: Repository) -> str:
    """What to push to, in the manner in which the source was named."""
    return fork.https if job.source.url.startswith(("http://", "https://")) else fork.ssh


def _proposal(campaign: str, job: Job, row: Row, asking: Asking, base: str) -> Proposal:
    body = folders.read(os.path.join(folders.results(campaign, job.id), "body.md")).decode("utf-8", "replace")
    title, text = asking.wording.of(job, row, body)
    return Proposal(job.branch, base, title, text, row.commit, asking.labels, asking.reviewers, asking.draft)


def _branch(campaign: str, git: Git, job: Job, row: Row, own: Collection[str], to: str) -> None:
    source = job.source
    refs, branch = git.refs(source.url)
    theirs = refs if to == source.url else _filled(git, to)
    there = theirs.get(f"refs/heads/{job.branch}", "")
    if there == row.commit:
        return
    if there and there not in own:
        raise MigrateError(
            f"has a branch {job.branch} at {there[:12]} already, which this campaign has not made"
        )
    if source.shard:
        git.borrow(source.store, row.head)
    else:
        git.make(row.head)
        remote = chosen(refs, branch, source.ref)
        if remote.commit != row.head:
            raise Moved(f"its head has moved from {row.head[:12]} to {remote.commit[:12]}; run again")
        # A fork that is behind lacks more than the head: git refuses to push without the history to it.
        git.fetch(source.url, remote.name, whole=row.head not in theirs.values())
    try:
        pack = folders.read(os.path.join(folders.results(campaign, job.id), "commit.pack"))
    except FileNotFoundError:
        raise MigrateError("its commit is no longer in results/; retry it") from None
    git("unpack-objects", "-q", stdin=pack)
    git("cat-file", "-e", f"{row.commit}^{{tree}}")
    git.push(to, row.commit, job.branch, there)


def _filled(git: Git, url: str) -> dict[str, str]:
    """The refs of a fork, which may have been made a moment ago."""
    for attempt in range(_LOOKS):
        if attempt:
            sleep(min(2.0 ** (attempt - 1), 15.0))
        with suppress(GitFailed):
            if refs := git.refs(url)[0]:
                return refs
    raise MigrateError("its fork is still empty, or cannot be reached; push again later")
