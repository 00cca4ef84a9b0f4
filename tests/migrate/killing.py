"""Run a campaign in a process of its own, and kill it or its workers at random moments."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from devfix.migrate.state import Store
from forked import Server
from making import ENVIRONMENT
from ran import TESTS, Ran

DEVFIX = [sys.executable, "-m", "devfix"]


@cache
def prepared(*modules: str) -> Server:
    """What commands are forked from: each of them would take half a second to import all that it needs."""
    server = Server(str(TESTS / "prepared.py"), *modules)
    atexit.register(server.__exit__)
    return server


def devfix(*arguments: str, cwd: Path) -> Ran:
    return prepared().run(arguments, b"", cwd, {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}, 900)


@dataclass
class Killed:
    drivers: int = 0
    workers: int = 0
    runs: int = 0
    code: int = 0


def run_and_kill(campaign: Path, kills: int, seed: int, *arguments: str, quiet: float) -> Killed:
    """Run until everything is done, with up to so many SIGKILLs of the driver or of a worker.

    `quiet`: seconds that it takes undisturbed on this machine, so that the kills fall into the work.
    """
    most = 1.15 * quiet / kills
    chance = random.Random(seed)
    done = Killed()
    while True:
        process = subprocess.Popen(
            [*DEVFIX, "migrate", "run", str(campaign), "--quiet", *arguments],
            env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        done.runs += 1
        while process.poll() is None and done.drivers + done.workers < kills:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.05 * most, most))
            if process.poll() is not None:
                break
            workers = _workers(process.pid)
            if workers and chance.random() < 0.6:
                with suppress(OSError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    done.workers += 1
            else:
                process.kill()
                process.wait()
                done.drivers += 1
        _, said = process.communicate(timeout=600)
        if process.returncode >= 0:
            assert process.returncode in (0, 1, 2), said
            assert "Traceback" not in said, said
            done.code = process.returncode
            return done


def _workers(driver: int) -> list[int]:
    """The processes of the pool: those children of the driver that have been spawned to work."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                stat = Path("/proc", entry, "stat").read_text()
                command = Path("/proc", entry, "cmdline").read_bytes()
                if int(stat.rpartition(")")[2].split()[1]) == driver and b"spawn_main" in command:
                    found.append(int(entry))
    return found


def final(campaign: Path) -> dict[str, Any]:
    """The final state of a campaign, without times: rows, findings, and the files of the results."""
    found: dict[str, Any] = {}
    with Store(str(campaign / "campaign.db")) as store:
        for row in store.rows():
            values = asdict(row)
            for name in ("seconds", "changed_at", "attempt"):
                del values[name]
            values["findings"] = [asdict(one) for one in store.findings(row.id)]
            folder = campaign / "results" / row.id
            values["files"] = {
                path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*"))
            }
            found[row.name] = values
    return json.loads(json.dumps(found))


def ends(campaign: Path) -> dict[str, int]:
    """How often each repository has come to an end."""
    found = {}
    with Store(str(campaign / "campaign.db")) as store:
        for row in store.rows():
            found[row.name] = sum(
                1 for event in store.events(row.id) if event.what == "end" and event.state != "analysing"
            )
    return found


def leftovers(words: Sequence[str]) -> list[str]:
    """Processes whose command line holds one of these."""
    time.sleep(0.5)
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                command = (
                    Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if any(word in command for word in words):
                    found.append(command)
    return found
