"""Which repositories have moved on since their result: their current heads, asked from where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from devfix.migrate import folders
from devfix.migrate.git import Git
from devfix.migrate.model import Job, MigrateError, State
from devfix.migrate.state import Store
from devfix.migrate.steps import mark_of

_ASKED: tuple[State, ...] = ("nothing-to-do", "changed", "verified", "pushed", "merged")
_AT_ONCE = 8  # it is waiting for servers


@dataclass(frozen=True)
class Asked:
    """`error` where a head could not be learned."""

    name: str
    moved: bool
    error: str = ""


def refresh(campaign: str, store: Store) -> Iterator[Asked]:
    """Ask every finished repository for its head; one that has moved is superseded, and will be done again.

    Shards stay at the commit that they were made of; where a pull request was closed, nobody wants another.
    """
    rows = [row for row in store.rows(_ASKED) if row.request != "closed"]
    jobs = [(row, store.job(row.id)) for row in rows]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pairs = [(row, job) for row, job in jobs if not job.source.shard]
        heads = pool.map(lambda pair: _head(campaign, pair[1]), pairs)
        for (row, job), (commit, error) in zip(pairs, heads, strict=True):
            moved = not error and commit != row.head
            if moved:
                why = f"its head has moved from {row.head[:12] or 'nothing'} to {commit[:12] or 'nothing'}"
                store.change(row.id, "refresh", why, state="superseded", reason=why)
            yield Asked(job.name, moved, error)


def _head(campaign: str, job: Job) -> tuple[str, str]:
    folder = os.path.join(folders.scratch(campaign, job.id))
    try:
        folders.fresh(folder)
        remote = Git(folder, job.settings.limits, mark_of(job)).remote(job.source.url, job.source.ref)
        return (remote.commit if remote else ""), ""
    except (MigrateError, OSError) as error:
        return "", str(error)
    finally:
        folders.remove(folder)
