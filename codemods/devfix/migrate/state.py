"""The state of a campaign: one SQLite file, written by one process, that a person can query, too.

```sql
SELECT state, count(*) FROM repository GROUP BY state;
SELECT name, stage, reason FROM repository WHERE state = 'failed';
```

`repository` says where each one is now; `event` is everything that happened, in order: a step has a row
when it begins and one, in the same transaction as its outcome, when it has ended. A step that has begun and
not ended was interrupted, and is done again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from devfix.migrate.model import (
    UNFINISHED,
    Count,
    Head,
    Job,
    MigrateError,
    Outcome,
    Settings,
    Source,
    State,
    StepName,
)
from devfix.migrate.schema import APPLICATION, SCHEMA


@dataclass(frozen=True)
class Row:
    """What is known of one repository."""

    id: str
    name: str
    state: State
    stage: str
    reason: str
    attempt: int
    head: str
    base_branch: str
    commit: str
    subject: str
    verified: str
    files_analysed: int
    files_changed: int
    bytes: int
    seconds: float
    notes: tuple[str, ...]
    decision: str
    pushed: str
    pull_request: str
    changed_at: float
    patch: str
    outdated: str
    request: str  # a RequestState; "reopened": the next push makes a new one; or empty
    checks: str
    conflicts: int

    @property
    def asked(self) -> str:
        """What is known of the pull request, for people."""
        parts = [self.request, f"checks {self.checks}" if self.checks else "", "conflicts" * self.conflicts]
        return ", ".join(part for part in parts if part) if self.request else ""


@dataclass(frozen=True)
class Event:
    at: float
    step: str
    what: str
    state: str
    head: str
    detail: str
    seconds: float


_ROW = ", ".join(f'"{name}"' for name in Row.__dataclass_fields__)


class Store:
    """The open file; a context manager. Raises MigrateError for a file that is not one, or is damaged."""

    def __init__(self, path: str, *, make: bool = False) -> None:
        if make == os.path.exists(path):
            raise MigrateError(f"{path} is {'there already' if make else 'not there'}")
        self.path = path
        try:
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._check(make)
        except sqlite3.DatabaseError as error:
            raise MigrateError(f"{path} cannot be used: {error}; restore it from a copy") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _check(self, make: bool) -> None:
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if not make and application != APPLICATION:
            raise MigrateError(f"{self.path} is not a campaign file")
        if version > len(SCHEMA):
            raise MigrateError(f"{self.path} was made by a later devfix (schema {version}); update devfix")
        if not make:
            damage = [row[0] for row in self._db.execute("PRAGMA quick_check(5)")]
            if damage != ["ok"]:
                raise MigrateError(f"{self.path} is damaged: {damage[0]}; restore it from a copy")
        for number, script in enumerate(SCHEMA[version:], version + 1):
            # A script and its number are one transaction: a file is never between two versions.
            self._db.executescript(
                f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {APPLICATION};"
                f" PRAGMA user_version = {number}; COMMIT;"
            )

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- settings and sources ----------------------------------------------------------------

    def start(self, settings: Settings, sources: Iterable[tuple[str, str, Source]]) -> int:
        """Fill a new file: (id, name, source) of every repository; how many."""
        with self._changing() as db:
            db.execute("INSERT INTO setting VALUES ('settings', ?)", (settings.to_json(),))
            return sum(_insert(db, *one) for one in sources)

    def split_again(
        self,
        moved: Mapping[str, Source],
        states: Mapping[str, State],
        new: Sequence[tuple[str, str, Source]],
        why: str,
    ) -> None:
        """The shards of a monorepo have other files: by their ids, with their new states, and those that are new."""
        with self._changing() as db:
            for id, source in moved.items():
                _set(db, id, **_columns(source))
            for id, state in states.items():
                _set(db, id, state=state, reason=why)
                _event(db, id, "", "refresh", state, detail=why)
            for one in new:
                _insert(db, *one)

    def settings(self) -> Settings:
        (text,) = self._db.execute("SELECT value FROM setting WHERE name = 'settings'").fetchone()
        return Settings.from_json(text)

    def job(self, id: str) -> Job:
        query = 'SELECT name, source, files, attempt, "commit" FROM repository WHERE id = ?'
        name, data, files, attempt, commit = self._db.execute(query, (id,)).fetchone()
        values = json.loads(data)
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        if files is not None:
            values["files"] = tuple(zlib.decompress(files).decode("utf-8", "surrogateescape").split("\0"))
        return Job(id, name, Source(**values), self.settings(), attempt, commit)

    # --- steps -------------------------------------------------------------------------------

    def recover(self) -> int:
        """What was interrupted is pending again; how many repositories that is."""
        with self._changing() as db:
            query = "SELECT id, stage FROM repository WHERE state IN ('cloning', 'analysing')"
            rows = db.execute(query).fetchall()
            for id, stage in rows:
                _set(db, id, state="pending", stage="")
                _event(db, id, stage, "interrupted", "pending")
        return len(rows)

    def waiting(self) -> list[str]:
        """The ids of what is to be done; what has cost workers their lives comes last."""
        marks = ", ".join("?" * len(UNFINISHED))
        query = f"SELECT id FROM repository WHERE state IN ({marks}) ORDER BY attempt, number"
        return [row[0] for row in self._db.execute(query, UNFINISHED)]

    def begin(self, id: str, step: StepName, state: State) -> None:
        with self._changing() as db:
            _set(db, id, state=state, stage=step)
            _event(db, id, step, "begin", state)

    def end(self, job: Job, outcome: Outcome) -> State:
        """Record the outcome of a step, and the state that it leaves the repository in."""
        with self._changing() as db:
            if not outcome.final:
                _set(db, job.id, state=outcome.state, stage="analyse")
                _event(db, job.id, outcome.step, "end", outcome.state, outcome.head, seconds=outcome.seconds)
                return outcome.state
            before = self.row(job.id)
            outcome = _compared(outcome, before, self.findings(job.id))
            failed = outcome.state == "failed"
            values: dict[str, object] = {
                "state": outcome.state,
                "stage": outcome.step if failed else "",
                "reason": outcome.reason,
                "attempt": 0,
                "subject": outcome.subject,
                "verified": outcome.verified,
                "files_analysed": outcome.files,
                "files_changed": outcome.changed,
                "seconds": outcome.seconds,
                "notes": json.dumps(outcome.notes),
            }
            if outcome.head is not None and not failed:
                values |= {
                    "head": outcome.head.commit,
                    "base_branch": outcome.head.branch,
                    "bytes": outcome.head.size,
                }
            if not failed:  # what failed says nothing about the result before it
                values |= {"commit": outcome.commit, "patch": outcome.patch}
                same = bool(outcome.patch) and outcome.patch == before.patch
                if before.decision and not same and outcome.commit != before.commit:
                    values |= {"decision": "", "outdated": before.decision if outcome.commit else ""}
            _set(db, job.id, **values)
            db.execute("DELETE FROM finding WHERE repository = ?", (job.id,))
            rows = [(job.id, one.codemod, one.found, one.fixed, one.left) for one in outcome.counts]
            db.executemany("INSERT INTO finding VALUES (?, ?, ?, ?, ?)", rows)
            _event(
                db, job.id, outcome.step, "end", outcome.state, outcome.head, outcome.reason, outcome.seconds
            )
        return outcome.state

    def lost(self, id: str, step: StepName, why: str, weight: int = 1) -> int:
        """A worker died with this step; the sum of such weights so far."""
        with self._changing() as db:
            db.execute("UPDATE repository SET attempt = attempt + ? WHERE id = ?", (weight, id))
            _event(db, id, step, "lost", "pending", detail=why)
            _set(db, id, state="pending", stage="")
            (attempt,) = db.execute("SELECT attempt FROM repository WHERE id = ?", (id,)).fetchone()
        return int(attempt)

    def change(self, id: str, command: str, detail: str = "", **values: object) -> None:
        """What a command did to a repository; with its new `state`, if that changes."""
        with self._changing() as db:
            _set(db, id, **values)
            (state,) = db.execute("SELECT state FROM repository WHERE id = ?", (id,)).fetchone()
            _event(db, id, "", command, state, detail=detail)

    # --- questions ---------------------------------------------------------------------------

    def rows(self, states: Sequence[State] = ()) -> Iterator[Row]:
        marks = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        for values in self._db.execute(f"SELECT {_ROW} FROM repository {marks} ORDER BY number", states):
            yield _row(values)

    def row(self, id: str) -> Row:
        return _row(self._db.execute(f"SELECT {_ROW} FROM repository WHERE id = ?", (id,)).fetchone())

    def find(self, name: str) -> str:
        """The id of the one repository that a person means; raises MigrateError."""
        name = name.rstrip("/").removesuffix(".git")
        for where in ("id = ?1 OR name = ?1", "name LIKE '%/' || ?1", "instr(name, ?1) OR instr(id, ?1)"):
            found = self._db.execute(
                f"SELECT id, name FROM repository WHERE {where} LIMIT 4", (name,)
            ).fetchall()
            if len(found) == 1:
                return str(found[0][0])
            if found:
                names = ", ".join(row[1] for row in found[:3])
                raise MigrateError(
                    f"{name!r} may be {names}{' or others' if len(found) > 3 else ''}; say more of it"
                )
        raise MigrateError(f"no repository of this campaign is called {name!r}")

    def counts(self) -> dict[State, int]:
        return dict(self._db.execute("SELECT state, count(*) FROM repository GROUP BY state"))

    def findings(self, id: str = "") -> tuple[Count, ...]:
        """By codemod, of one repository or of all."""
        where = "WHERE repository = ?" if id else ""
        query = (
            f"SELECT codemod, sum(found), sum(fixed), sum(remaining) FROM finding {where}"
            " GROUP BY codemod ORDER BY codemod"
        )
        return tuple(Count(*values) for values in self._db.execute(query, (id,) if id else ()))

    def failures(self) -> list[tuple[str, str, int, str]]:
        """Stage, reason, how many, and one of the names."""
        return self._db.execute(
            "SELECT stage, reason, count(*), min(name) FROM repository WHERE state = 'failed'"
            " GROUP BY stage, reason ORDER BY count(*) DESC, reason"
        ).fetchall()

    def history(self) -> Iterator[tuple[float, str, State]]:
        """When which repository came into which state, in order."""
        yield from self._db.execute("SELECT at, repository, state FROM event ORDER BY number")

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """All questions are about the same moment, also while a run goes on."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def last_push(self) -> float:
        """When something was last pushed; 0 if nothing was."""
        (at,) = self._db.execute("SELECT max(at) FROM event WHERE what = 'push'").fetchone()
        return float(at or 0)

    def begun(self, id: str) -> frozenset[str]:
        """The commits that a push has begun with, so that they may be on the branch."""
        query = "SELECT detail FROM event WHERE repository = ? AND what = 'push begins'"
        return frozenset(row[0] for row in self._db.execute(query, (id,)) if row[0])

    def events(self, id: str) -> Iterator[Event]:
        query = "SELECT at, step, what, state, head, detail, seconds FROM event WHERE repository = ? ORDER BY number"
        for values in self._db.execute(query, (id,)):
            yield Event(*values)


def _compared(outcome: Outcome, before: Row, counts: Sequence[Count]) -> Outcome:
    """The outcome, seen together with the result before it.

    What had a repair and needs none at a later head has been merged, whoever did it, and its fixes go on counting;
    a commit that is on the remote's branch already is pushed.
    """
    head = outcome.head.commit if outcome.head else ""
    if outcome.state == "nothing-to-do" and before.commit and head not in ("", before.head):
        sums = {one.codemod: one for one in outcome.counts}
        for one in counts:
            now = sums.get(one.codemod, Count(one.codemod, 0, 0, 0))
            sums[one.codemod] = replace(now, found=now.found + one.fixed, fixed=now.fixed + one.fixed)
        return replace(
            outcome, state="merged", reason=f"nothing is left to fix at {head[:12]}", commit=before.commit,
            subject=before.subject, changed=before.files_changed, verified=before.verified,
            counts=tuple(sums.values()),
        )  # fmt: skip
    if outcome.commit and outcome.commit == before.pushed:
        return replace(outcome, state="pushed")
    return outcome


def _row(values: Sequence[object]) -> Row:
    fields: dict[str, Any] = dict(zip(Row.__dataclass_fields__, values, strict=True))
    return Row(**{**fields, "notes": tuple(json.loads(fields["notes"]))})


def _columns(source: Source) -> dict[str, object]:
    packed = zlib.compress("\0".join(source.files).encode("utf-8", "surrogateescape"))
    return {
        "source": json.dumps({**asdict(source), "files": []}),
        "files": packed if source.files else None,
    }


def _insert(db: sqlite3.Connection, id: str, name: str, source: Source) -> int:
    """A repository, pending; how many: 1."""
    state: State = "skipped" if source.skip else "pending"
    values = {"id": id, "name": name, **_columns(source), "state": state, "reason": source.skip}
    columns, marks = ", ".join((*values, "changed_at")), "?, " * len(values)
    db.execute(f"INSERT INTO repository ({columns}) VALUES ({marks}?)", (*values.values(), time.time()))
    _event(db, id, "", "init", state, detail=source.skip)
    return 1


def _set(db: sqlite3.Connection, id: str, **values: object) -> None:
    values["changed_at"] = time.time()
    columns = ", ".join(f'"{name}" = ?' for name in values)
    db.execute(f"UPDATE repository SET {columns} WHERE id = ?", (*values.values(), id))


def _event(
    db: sqlite3.Connection,
    id: str,
    step: str,
    what: str,
    state: str,
    head: Head | None = None,
    detail: str = "",
    seconds: float = 0.0,
) -> None:
    commit = head.commit if head is not None else ""
    values = (id, time.time(), step, what, state, commit, detail, seconds)
    db.execute(
        "INSERT INTO event (repository, at, step, what, state, head, detail, seconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
