"""A campaign from an organisation to merged and closed requests, as its commands would be typed over some weeks; each
of them killed at random, if asked for. For `test_forges_killed.py` and `benchmarks/forges.py`."""

from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from devfix.migrate.model import CHANGED
from devfix.migrate.state import Store
from killing import prepared
from making import CLEAN, ENVIRONMENT, FIXABLE, commit, git, repository
from standin import TOKEN, VARIABLES, Fault, Standin, serving

WAVES = ("--waves", "3,50%,100%", "--rest", "0", "--stop-at", "40")
PHASES = ("discovery", "analysis", "review", "push", "asking")
_COMMANDS = (
    "init", "run", "review", "push", "status", "push", "status", "push", "status", "run", "push", "status",
)  # fmt: skip
_SHARES = {"init": 2, "run": 3, "review": 3, "push": 3, "status": 1}  # of the kills
_COMPARED = (
    "name", "state", "stage", "reason", "head", "commit", "files_changed", "decision", "outdated", "pushed",
    "pull_request", "request", "checks", "conflicts",
)  # fmt: skip


@dataclass
class Told:
    """What came of it: requests, rows and files without what differs by time or port; and what it took."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    created: int = 0
    kills: Counter[str] = field(default_factory=Counter)  # by phase
    pushes: int = 0
    calls: int = 0
    work: list[int] = field(default_factory=list)  # of each command
    seconds: float = 0.0
    said: str = ""

    @property
    def end(self) -> object:
        """What no kill may change."""
        return self.requests, self.rows, self.files


def whole(folder: Path, kind: str, count: int, seed: int, kills: int = 0, quiet: Told | None = None) -> Told:
    """`kills` are spread over the commands, and within each over the work that it had when it was `quiet`."""
    folder.mkdir(parents=True)
    told = Told()
    with serving(kind, folder / "server") as server:
        _fill(server, count)
        begun = time.monotonic()
        user = _User(folder, told, server, random.Random(seed), kills, quiet.work if quiet else ())
        organisation = ("--organisation", f"{server.url}/org", "--topic", "torch")
        user.types("discovery", "init", *organisation, "--forge", f"{kind}={server.url}")
        user.types("analysis", "run", "--quiet")
        user.types("review", "review", answers=lambda: _decisions(folder / "camp"))
        for round_ in range(4):
            user.types("push", "push", "--accepted", "--pause", "0", *WAVES)
            _maintainers(server, round_)
            user.types("asking", "status", "--refresh-requests")
            if round_ == 2:
                for path in list(server.repositories)[:count:4]:
                    if not path.startswith("robot/"):
                        commit(folder / "server" / f"{path}.git", {"other.py": CLEAN % 9}, "the base moves")
                user.types("analysis", "run", "--quiet", "--refresh")
        told.seconds = time.monotonic() - begun
        told.requests = json.loads(json.dumps(server.result()).replace(server.url, "SERVER"))
        told.created, told.calls = server.created, len(server.seen)
        with Store(str(folder / "camp" / "campaign.db")) as store:
            rows = [
                {name: getattr(row, name) for name in _COMPARED} | {"found": store.findings(row.id)}
                for row in store.rows()
            ]
        told.rows = json.loads(json.dumps(rows, default=vars).replace(server.url, "SERVER"))
    camp = folder / "camp"
    found = (str(at.relative_to(camp)) for at in camp.rglob("*"))
    told.files = sorted(re.sub(r"-[0-9a-f]{10}\b", "", name) for name in found)  # ids have the port in them
    return told


def _fill(server: Standin, count: int) -> None:
    for number in range(count):
        files = {"train.py": (CLEAN if number % 6 == 5 else FIXABLE) % (number + 2)}
        values = {"topics": ["torch"], "writable": number % 5 != 4}
        git(
            repository(server.add(f"org/r{number:03}", **values), files), "config", "http.receivepack", "true"
        )
    repository(server.add("org/other"), {"train.py": FIXABLE % 2})
    # Limits and faults, now and then.
    paths = [f"r{number:03}" for number in range(count)]
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}
    server.faults += [
        *(Fault(429, 2, path=path, headers={"Retry-After": "0"}) for path in paths[1::8]),
        *(Fault(403, 2, path=path, headers=reset) for path in paths[2::8]),
        *(Fault(0, 1, "POST", f"{path}/(pulls|merge_requests)$", after=True) for path in paths[3::16]),
    ]


def _maintainers(server: Standin, round_: int) -> None:
    """Checks pass; of each five requests one is merged and one closed."""
    with server.lock:
        for pull in server.pulls:
            if pull.state == "open":
                pull.checks = "passed"
                number = int(pull.path[-3:])
                if number % 5 == 1 and round_:
                    server.merge(pull)
                elif number % 5 == 2 and round_:
                    pull.state = "closed"


class _User:
    """Who types the commands, and types one again that was killed."""

    def __init__(
        self,
        folder: Path,
        told: Told,
        server: Standin,
        chance: random.Random,
        kills: int,
        work: Sequence[int],
    ) -> None:
        self.folder, self.told, self.server, self.chance = folder, told, server, chance
        self.env = {**ENVIRONMENT, "OMP_NUM_THREADS": "1", VARIABLES[server.kind]: TOKEN}
        due = list(accumulate(_SHARES[command] for command in _COMMANDS))
        self.due = [kills * one // due[-1] for one in due]  # by the end of each command
        self.work = work
        self.events = 0

    def types(self, phase: str, command: str, *arguments: str, answers: Callable[[], str] = str) -> None:
        """Until it ends by itself; what it missed of its kills, the next command gets."""
        number, before = len(self.told.work), self.done()
        owed = self.due[number] - self.told.kills.total()
        self.told.pushes += command == "push"
        while not self._ends(owed > 0, number, ["migrate", command, "camp", *arguments], answers()):
            self.told.kills[phase] += 1
            owed -= 1
            if command == "init" and (self.folder / "camp" / "campaign.db").exists():
                break  # killed after its last step
            self.told.pushes += command == "push"
        self.told.work.append(self.done() - before)

    def _ends(self, kill: bool, number: int, command: list[str], answers: str) -> bool:
        """False if it was killed, after a part of the work that it had in the quiet run."""
        said, typed = self.folder / "said", self.folder / "answers"
        said.write_bytes(b"")
        typed.write_text(answers)
        process = prepared(f"devfix.migrate.forges.{self.server.kind}").start(
            command, (typed, said, said), self.folder, self.env
        )
        if kill:
            share = self.due[number] - (self.due[number - 1] if number else 0)
            until = self.done() + self.chance.randrange(2 + 2 * self.work[number] // (1 + share))
            while process.poll() is None and self.done() < until:
                time.sleep(0.002)
            time.sleep(self.chance.choice((0.0, 0.02, 0.2)) * self.chance.random())
            process.kill()
        code = process.wait(1800)
        self.told.said += said.read_text(errors="replace")
        assert code in (0, -signal.SIGKILL), self.told.said[-3000:]
        return code == 0

    def done(self) -> int:
        """A measure of work: what the server was asked and told, and what the campaign has written down."""
        database = self.folder / "camp" / "campaign.db"
        if not self.told.work:  # `init` writes everything at once
            return len(self.server.seen)
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
            (self.events,) = db.execute("SELECT count(*) FROM event").fetchone()
        return len(self.server.seen) + self.server.writes + self.events


def _decisions(campaign: Path) -> str:
    """What is typed into `review`: one of twelve is rejected."""
    with Store(str(campaign / "campaign.db")) as store:
        left = [int(row.name[-3:]) for row in store.rows(CHANGED) if not row.decision]
    return "".join("r\n" if number % 12 == 0 else "a\n" for number in left)
