"""What a report of a campaign says: counts, history, findings, how changes were verified, failures."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.migrate.model import STATES, UNFINISHED, Count, Settings, State
from devfix.migrate.state import Row, Store

DONE: tuple[State, ...] = ("nothing-to-do", "merged")  # nothing is left to repair at the head
_POINTS = 240  # of time, at most
_LISTED = 300  # repositories of one state that a page names
_MEMBERS = 25  # of a group of failures
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# What tells two failures of the same kind apart: quoted words, paths, long hexadecimal numbers, numbers.
_DETAILS = (
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`"), "'…'"),
    (re.compile(r"(?<![\w/])(?:\w+:/)?/[^\s:,;)]+"), "…"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "…"),
    (_NUMBER, "N"),
)


@dataclass(frozen=True)
class Point:
    """How many repositories were in which state at a time; in the order of STATES."""

    at: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Failures that say the same but for names and numbers; `rows` are the first of them."""

    stage: str
    reason: str
    count: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Verified:
    """Of the changes: verified by running something, by analysis only, and harm that was seen in time."""

    run: int = 0
    analysed: int = 0
    harm: int = 0
    how: tuple[tuple[str, int], ...] = ()  # the most frequent words for it


@dataclass(frozen=True)
class Summary:
    settings: Settings
    made_at: float
    total: int
    counts: tuple[tuple[State, int], ...]  # those that are not 0, in the order of STATES
    points: tuple[Point, ...]
    findings: tuple[Count, ...]
    verified: Verified
    failures: tuple[Group, ...]
    listed: tuple[tuple[State, tuple[Row, ...]], ...]  # the first ones of each state
    files: int  # that were analysed
    changed: int  # files
    pull_requests: int

    @property
    def done(self) -> int:
        """Repositories with nothing left to repair at the head that devfix has last seen."""
        return sum(count for state, count in self.counts if state in DONE)

    @property
    def waiting(self) -> int:
        return sum(count for state, count in self.counts if state in UNFINISHED)


def summary(store: Store) -> Summary:
    """All of it in one pass over the repositories and one over the events; memory does not grow with them."""
    listed: dict[State, list[Row]] = {}
    groups: dict[tuple[str, str], list[Row]] = {}
    sizes: Counter[tuple[str, str]] = Counter()
    how: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for row in store.rows():
        of_state = listed.setdefault(row.state, [])
        if len(of_state) < _LISTED:
            of_state.append(row)
        sums["files"] += row.files_analysed
        sums["pull_requests"] += bool(row.pull_request)
        if row.state == "failed":
            key = (row.stage, alike(row.reason))
            sizes[key] += 1
            if len(groups.setdefault(key, [])) < _MEMBERS:
                groups[key].append(row)
            sums["harm"] += bool(row.subject)  # a change was made, and not committed
        elif row.commit:
            sums["changed"] += row.files_changed
            sums["run" if row.verified else "analysed"] += 1
            words = _NUMBER.sub("N", row.verified)
            if words and (len(how) < 1000 or words in how):
                how[words] += 1
    counts = store.counts()
    return Summary(
        store.settings(),
        time.time(),
        sum(counts.values()),
        tuple((state, counts[state]) for state in STATES if counts.get(state)),
        tuple(points(store)),
        tuple(sorted(store.findings(), key=lambda one: (-one.found, one.codemod))),
        Verified(sums["run"], sums["analysed"], sums["harm"], tuple(how.most_common(8))),
        tuple(_groups(groups, sizes)),
        tuple((state, tuple(listed[state])) for state in STATES if state in listed),
        sums["files"],
        sums["changed"],
        sums["pull_requests"],
    )


def alike(reason: str) -> str:
    """A reason without what differs from one repository to the next."""
    for pattern, instead in _DETAILS:
        reason = pattern.sub(instead, reason)
    return reason


def _groups(groups: dict[tuple[str, str], list[Row]], sizes: Counter[tuple[str, str]]) -> Iterator[Group]:
    for key, count in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        rows = groups[key]
        same = len({row.reason for row in rows}) == 1
        yield Group(key[0], rows[0].reason if same else key[1], count, tuple(rows))


def points(store: Store) -> Iterator[Point]:
    """The counts by state over time, at even distances, and at the end."""
    first = last = 0.0
    for at, _, _ in store.history():
        first = min(first or at, at)
        last = max(last, at)
    width = (last - first) / _POINTS or 1.0
    place = {state: number for number, state in enumerate(STATES)}
    now: dict[str, int] = {}
    counts = [0] * len(STATES)
    due = first
    for at, repository, state in store.history():
        if at > due and now:
            yield Point(due, tuple(counts))
            due = max(due + width, at)
        if repository in now:
            counts[now[repository]] -= 1
        now[repository] = place[state]
        counts[place[state]] += 1
    if now:
        yield Point(last, tuple(counts))
        # It is like this since then; a bit of that is shown, so that the last change is seen.
        yield Point(min(time.time(), last + (last - first) / 25), tuple(counts))
