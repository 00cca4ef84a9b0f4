"""A campaign from an organisation to merged and closed requests, as its commands would be typed over some weeks; killed
at random while it pushes, if asked for. For `test_forges_killed.py` and `benchmarks/forges.py`."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devfix.migrate.state import Store
from killing import DEVFIX
from making import CLEAN, ENVIRONMENT, FIXABLE, commit, git, repository
from standin import TOKEN, VARIABLES, Fault, Standin, serving

WAVES = ("--waves", "3,50%,100%", "--rest", "0", "--stop-at", "40")


@dataclass
class Told:
    """What came of it: requests and rows without what differs by time or port; and what it took."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    created: int = 0
    kills: int = 0
    pushes: int = 0
    calls: int = 0
    seconds: float = 0.0
    said: str = ""


def whole(folder: Path, kind: str, count: int, kills: int, seed: int) -> Told:
    """`kills` are spread over the pushes; where a push ends before its time has come, the next one gets it."""
    folder.mkdir(parents=True)
    told, chance = Told(), random.Random(seed)
    with serving(kind, folder / "server") as server:
        _fill(server, count)
        begun = time.monotonic()
        _devfix(folder, told, server, "init", "--organisation", f"{server.url}/org", "--topic", "torch",
                "--forge", f"{kind}={server.url}")  # fmt: skip
        _devfix(folder, told, server, "run", "--quiet")
        for round_ in range(4):
            _push(folder, told, server, kills * (round_ + 1) // 4, chance)
            _maintainers(server, round_)
            _devfix(folder, told, server, "status", "--refresh-requests")
            if round_ == 2:
                for path in list(server.repositories)[:count:4]:
                    if not path.startswith("robot/"):
                        commit(folder / "server" / f"{path}.git", {"other.py": CLEAN % 9}, "the base moves")
                _devfix(folder, told, server, "run", "--quiet", "--refresh")
        told.seconds = time.monotonic() - begun
        told.requests = json.loads(json.dumps(server.result()).replace(server.url, "SERVER"))
        told.created, told.calls = server.created, len(server.seen)
        with Store(str(folder / "camp" / "campaign.db")) as store:
            names = (
                "name",
                "state",
                "head",
                "commit",
                "pushed",
                "pull_request",
                "request",
                "checks",
                "conflicts",
            )
            told.rows = [{name: getattr(row, name) for name in names} for row in store.rows()]
            told.rows = json.loads(json.dumps(told.rows).replace(server.url, "SERVER"))
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


def _command(server: Standin, *arguments: str) -> tuple[list[str], dict[str, str]]:
    return [*DEVFIX, "migrate", arguments[0], "camp", *arguments[1:]], {
        **ENVIRONMENT, "OMP_NUM_THREADS": "1", VARIABLES[server.kind]: TOKEN,
    }  # fmt: skip


def _devfix(folder: Path, told: Told, server: Standin, *arguments: str) -> None:
    command, env = _command(server, *arguments)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=1800)
    told.said += done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def _push(folder: Path, told: Told, server: Standin, kills: int, chance: random.Random) -> None:
    """Push until nothing more goes in this wave; up to so many kills in all, each after a few changes on the server."""
    command, env = _command(server, "push", "--all", "--pause", "0", *WAVES)
    while True:
        told.pushes += 1
        with open(folder / "said", "w+b") as said:
            process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said)
            if told.kills < kills:
                until = server.writes + chance.randrange(1, 6)
                _wait(
                    lambda until=until, process=process: server.writes >= until or process.poll() is not None
                )
                with suppress(OSError):
                    time.sleep(chance.uniform(0, 0.2))
                    process.kill()
            process.wait(1800)
            said.seek(0)
            told.said += said.read().decode(errors="replace")
        if process.returncode == -signal.SIGKILL:
            told.kills += 1
            continue
        assert process.returncode == 0, told.said[-3000:]
        return


def _wait(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.005)
