"""Which repositories have moved on since their result: their current heads, asked from where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from devfix.migrate import folders
from devfix.migrate.git import Git
from devfix.migrate.model import Job, MigrateError, Source, State
from devfix.migrate.shards import By, split_again
from devfix.migrate.sources import named
from devfix.migrate.state import Row, Store
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

    Where a pull request was closed, nobody wants another. A monorepo that has moved is fetched and split once more.
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
    yield from _monorepos(campaign, store)


def _monorepos(campaign: str, store: Store) -> Iterator[Asked]:
    """Every shard of a monorepo whose head has moved is superseded, at the new head and with the files that it has."""
    monorepos: dict[tuple[str, ...], list[tuple[Row, Job]]] = {}
    for row in store.rows():
        job = store.job(row.id)
        if job.source.shard:
            key = (job.source.url, job.source.ref, job.source.subfolder)
            monorepos.setdefault(key, []).append((row, job))
    for all_ in monorepos.values():
        shards = [(row, job) for row, job in all_ if row.request != "closed"]
        if not any(row.state in _ASKED for row, _ in shards):
            continue
        job = shards[0][1]
        commit, error = _head(campaign, job)
        if error or commit == job.source.base:
            yield Asked(job.name, False, error)
            continue
        try:
            why = _split_again(campaign, store, all_, commit)
        except (MigrateError, OSError) as trouble:
            yield Asked(job.name, False, str(trouble))
            continue
        for row, job in shards:
            yield Asked(job.name, store.row(row.id).reason == why)
    # Of a shard that is left alone the commit may still be asked for, and it has the old store.
    folders.clear_stores(campaign, {store.job(row.id).source.store for row in store.rows()})


def _split_again(campaign: str, store: Store, shards: Sequence[tuple[Row, Job]], commit: str) -> str:
    """Write down what the shards are now; why."""
    job = shards[0][1]
    settings = job.settings
    ((id, _, _),) = named([replace(job.source, shard="")])
    by: By = "codeowners" if settings.shard_by == "codeowners" else "folder"
    to = folders.store(campaign, f"{id}-{commit[:12]}")
    found = {
        source.shard: source
        for source in split_again([job.source for _, job in shards], to, settings.limits, by, mark_of(job))
    }
    moved = {row.id: found.pop(job.source.shard) for row, job in shards if job.source.shard in found}
    kept = {row.id for row, _ in shards if row.request == "closed"}  # as they are
    why = f"its head has moved from {job.source.base[:12]} to {commit[:12] or 'nothing'}"
    states: dict[str, State] = {}
    changed: dict[str, Source] = {}
    for row, job in shards:
        if row.id in kept:
            continue
        # One whose files are all gone keeps their names: they may come back.
        changed[row.id] = moved.get(row.id) or replace(job.source, store=os.path.realpath(to), base=commit)
        if row.id in moved and row.state in (*_ASKED, "skipped"):
            states[row.id] = "superseded"
        elif row.id not in moved and row.state not in ("pushed", "merged"):
            states[row.id] = "skipped"
    store.split_again(changed, states, list(named(list(found.values()))), why)
    return why


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
