"""Few first: how many requests may be out, when the next may go, and what stops them all. No state of its own."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from devfix.migrate.forges import OPEN
from devfix.migrate.model import MigrateError
from devfix.migrate.state import Row


@dataclass(frozen=True)
class Waves:
    """`steps` grow: (5, False) is five repositories, (25, True) a quarter of them all, with what is out already.

    `stop` is the share of requests, in percent, that may have failed checks or be closed. `rest`: seconds.
    """

    steps: tuple[tuple[float, bool], ...]
    stop: float = 10.0
    rest: float = 600.0


@dataclass(frozen=True)
class Next:
    """How many to send now; with the words of why not more. `stopped`: nothing goes until a person has looked."""

    count: int
    said: str
    stopped: bool = False


def parse(text: str) -> tuple[tuple[float, bool], ...]:
    """`5,25%,100%` -> steps; raises MigrateError."""
    steps = []
    for word in text.split(","):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)(%?)\s*", word)
        if found is None or not float(found[1]) or (found[2] and float(found[1]) > 100):
            raise MigrateError(
                f"--waves takes numbers or percentages separated by commas, such as 5,25%,100%, not {text!r}"
            )
        steps.append((float(found[1]), bool(found[2])))
    return tuple(steps)


def next_wave(waves: Waves, out: Sequence[Row], waiting: int, last: float, now: float) -> Next:
    """What may be sent, where `out` has been, the last of it at `last`, and `waiting` may follow."""
    total = len(out) + waiting
    bad = sum(1 for row in out if row.request == "closed" or (row.request in OPEN and row.checks == "failed"))
    rule = f"the waves stop if more than {waves.stop:g} % have failed checks or are closed"
    if 100 * bad > waves.stop * len(out):
        return Next(
            0, f"stopped: {bad} of {len(out)} pull requests have failed checks or are closed; {rule}", True
        )
    ends = [
        min(total, math.ceil(total * amount / 100) if share else int(amount)) for amount, share in waves.steps
    ]
    at = next((number for number, end in enumerate(ends) if end > len(out)), None)
    if at is None:
        return Next(0, f"all waves are pushed: {len(out)} of {total} repositories")
    words = (
        f"wave {at + 1} of {len(ends)}: {ends[at]} of {total} repositories, {len(out)} already pushed; {rule}"
    )
    if len(out) in ends:  # the one before is whole
        pending = sum(1 for row in out if row.request in OPEN and row.checks == "pending")
        left = last + waves.rest - now
        if pending or left > 0:
            why = (
                f"the checks of {pending} still run"
                if pending
                else f"{left / 60:.0f} minutes of rest are left"
            )
            return Next(0, f"{words}. Not yet: {why}")
    return Next(ends[at] - len(out), words)


def parse_hours(text: str) -> tuple[int, int]:
    """`9-17`: from nine until five; raises MigrateError."""
    found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 24 or found[1] == found[2]:
        raise MigrateError(f"--hours takes two hours, such as 9-17, not {text!r}")
    return int(found[1]), int(found[2])


def within(hours: tuple[int, int], at: float) -> bool:
    """Is this a time, in the zone of this machine, between these hours? 22-6 goes over midnight."""
    hour, (first, end) = time.localtime(at).tm_hour, hours
    return first <= hour < end if first < end else hour >= first or hour < end
