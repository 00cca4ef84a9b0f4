"""The pool of processes: what dies or hangs costs its own repository only."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from devfix.migrate import campaigns, driver, local
from devfix.migrate.driver import Progress, drive
from devfix.migrate.model import Limits, Settings
from devfix.migrate.state import Store
from killing import leftovers
from making import CLEAN, FIXABLE, MUCH, repository

POISON = '''
"""A codemod that ends or stops the process on files that ask for it."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.codemod import Codemod
from devfix.findings import Finding


@dataclass(frozen=True)
class Poison(Codemod):
    """Dies.

    ## What it does

    Dies.
    """

    id = "poison"
    words = (("dies", "hangs"),)
    examples = ()

    def check(self, flow) -> Iterator[Finding]:
        text = flow.source.text if hasattr(flow, "source") else ""
        if "hangs" in text:
            time.sleep(86397)
        os.abort()
        yield
'''


def campaign(
    tmp_path: Path, files: dict[str, bytes], codemods: tuple[str, ...] = (), seconds: float = 60
) -> Store:
    for name, data in files.items():
        repository(tmp_path / "repos" / name, {"train.py": data})
    settings = Settings("camp", "devfix/camp", codemods=codemods, limits=Limits(seconds=seconds))
    campaigns.init(str(tmp_path / "camp"), [str(tmp_path / "repos")], settings, None, 1)
    return Store(str(tmp_path / "camp" / "campaign.db"))


def run(tmp_path: Path, store: Store, told: object = None) -> dict[str, tuple[str, str]]:
    settings = store.settings()
    pool = local.LocalPool(str(tmp_path / "camp"), settings.uid, 2, settings.limits)
    try:
        drive(str(tmp_path / "camp"), store, pool, told or (lambda progress: None))  # type: ignore[arg-type]
    finally:
        pool.close()
    return {row.name.rpartition("/")[2]: (row.state, row.reason) for row in store.rows()}


def test_a_repository_that_ends_its_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that stops it: both fail with a reason, and the others are done."""
    monkeypatch.setattr(local, "_GRACE", 1.0)
    monkeypatch.setattr(driver, "DEATHS", 8)
    rule = tmp_path / "poison.py"
    rule.write_text(POISON)
    files = {
        "a": b"import torch  # dies\n",
        "b": b"import torch  # hangs\n",
        "c": FIXABLE % 2,
        "d": CLEAN % 2,
    }
    with campaign(tmp_path, files, (str(rule), "reorder-to"), seconds=8) as store:
        found = run(tmp_path, store)
    assert found["a"] == ("failed", "the process that worked on it died (exit code -6), again and again")
    assert found["b"] == ("failed", "took longer than 8 s; --seconds sets the limit")
    assert (found["c"][0], found["d"][0]) == ("changed", "nothing-to-do")
    assert not list((tmp_path / "camp" / "work").iterdir())


def test_a_large_file_gets_a_process_of_its_own(tmp_path: Path) -> None:
    """A worker may start processes, too."""
    with campaign(tmp_path, {"a": FIXABLE % 2 + MUCH * 28_000}) as store:
        assert run(tmp_path, store)["a"] == ("changed", "")


def test_what_nobody_foresaw_is_a_failure_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a": FIXABLE % 2, "b": CLEAN % 2}
    with campaign(tmp_path, files) as store:
        (first, *_) = store.rows()
        store._db.execute("UPDATE repository SET source = '{\"url\": 7}' WHERE id = ?", (first.id,))
        found = run(tmp_path, store)
        assert found["a"][0] == "failed" and found["a"][1].endswith("this is devfix's own bug")
        assert found["b"][0] == "nothing-to-do"
        log = (tmp_path / "camp" / "results" / first.id / "log.txt").read_text()
    assert "Traceback" in log


def test_the_workers_end_with_their_driver(tmp_path: Path) -> None:
    """Also with a driver that is killed; and their children with them."""
    reader, writer = os.pipe()
    (tmp_path / "camp" / "work").mkdir(parents=True)
    child = os.fork()
    if not child:
        os.setsid()
        pool = local.LocalPool(str(tmp_path / "camp"), "86396", 1, Limits())
        worker = pool._workers[0]
        worker.ready()
        assert worker.process is not None
        os.write(writer, str(worker.process.pid).encode())
        threading.Event().wait()
    pid = int(os.read(reader, 20))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(100):
        if not Path("/proc", str(pid)).exists():
            break
        time.sleep(0.1)
    assert not Path("/proc", str(pid)).exists()
    assert not leftovers(["86396"])


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    with campaign(tmp_path, {"a": FIXABLE % 2, "b": CLEAN % 2}) as store:
        run(tmp_path, store, told.append)
    assert sorted((one.state, one.total) for one in told) == [("changed", 2), ("nothing-to-do", 2)]
    assert [one.done for one in told] == [1, 2]
