"""A campaign on a dask cluster of real processes, while its workers and its driver are killed."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.migrate import cluster as clusters
from devfix.migrate import onworker
from devfix.migrate.driver import Lost, drive
from devfix.migrate.local import StepError
from devfix.migrate.model import Head, Job, MigrateError, Outcome, Settings, Source
from devfix.migrate.state import Store
from killing import DEVFIX, devfix, ends, final, run_and_kill
from making import ENVIRONMENT, FIXABLE, KINDS, Made, manifest, many, repository

pytestmark = [
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc"),
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
    ),
]

DASK = (sys.executable, "-m", "dask")
CRASH = "kill -SEGV $PPID"  # the process that has started the shell
POISON = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"  # its parent, the dask worker
JOB = Job("a", "a", Source("https://example.org/a"), Settings("camp", "b"))
CLONED = Outcome("clone", "analysing", head=Head("c" * 40))
ENDED = Outcome("analyse", "nothing-to-do")
REASONS = ("the process that worked on it died", "the worker that worked on it died")


@dataclass
class Cluster:
    """A scheduler and workers, each with the nanny that `dask worker` starts by default."""

    address: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def workers(self) -> list[int]:
        """The processes that run tasks now."""
        return spawned({process.pid for process in self.processes[1:]})

    def kill_one(self, chance: random.Random) -> bool:
        workers = sorted(self.workers())
        if not workers:
            return False
        with suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)
        return True


def spawned(parents: set[int]) -> list[int]:
    """The processes that these have started to work."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError):
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            if parent in parents and b"spawn_main" in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **ENVIRONMENT,
        "OMP_NUM_THREADS": "1",
        # A worker that dies is the driver's affair at once; by default dask tries three more.
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    }
    file = folder / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        with open(folder / f"{len(processes)}.log", "wb") as log:
            processes.append(
                subprocess.Popen([*DASK, *arguments], env=environment, stdout=log, stderr=log, cwd=folder)
            )

    start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    try:
        start("worker", "--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1", "--host", "127.0.0.1",
              "--no-dashboard", "--local-directory", str(folder))  # fmt: skip
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield Cluster(json.loads(file.read_text())["address"], processes)
    finally:
        for process in reversed(processes):  # the workers end with their nannies
            process.kill()
            process.wait()


def made_campaign(folder: Path, repos: Path) -> Path:
    """All campaigns are called the same, since their name stands in the commits."""
    folder.mkdir()
    said = devfix("migrate", "init", "camp", "--repos", str(repos), "--codemod", "reorder-to",
                  "--max-file-size", "1", "--author", "A B <a@example.org>", cwd=folder)  # fmt: skip
    assert said.code == 0, said.err
    return folder / "camp"


def events(campaign: Path) -> int:
    with sqlite3.connect(f"file:{campaign / 'campaign.db'}?mode=ro", uri=True, timeout=30) as database:
        (count,) = database.execute("SELECT count(*) FROM event").fetchone()
    return int(count)


@dataclass
class Kills:
    drivers: int = 0
    workers: int = 0


def disturbed(campaign: Path, cluster: Cluster, kills: int, chance: random.Random) -> Kills:
    """Run to the end, with that many SIGKILLs on the way, of workers and of the driver."""
    done = Kills()
    # Four events for each repository, and half as many again for what is done twice.
    spread = 3 * (events(campaign) * 4) // (2 * kills)
    while True:
        driver = subprocess.Popen(
            [*DEVFIX, "migrate", "resume", str(campaign), "--cluster", cluster.address],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        due = events(campaign) + chance.randint(1, spread)
        while driver.poll() is None and done.drivers + done.workers < kills:
            if events(campaign) < due:
                time.sleep(0.02)
                continue
            due += chance.randint(1, spread)
            time.sleep(chance.uniform(0.0, 0.3))
            if chance.random() < 0.35:
                driver.kill()
                done.drivers += 1
                break
            done.workers += cluster.kill_one(chance)
        said, _ = driver.communicate(timeout=600)
        assert driver.returncode in (-signal.SIGKILL, 2), said  # some repositories fail, as they must
        if driver.returncode > 0:
            assert "Traceback" not in said and "says more" in said, said
            return done


def check_disturbed(
    top: Path, cluster: Cluster, count: int, kills: int, seed: int, poisons: dict[str, str]
) -> Kills:
    made = many(top, count)
    tables = [f"url = '{one.path}'" for one in made]
    for name, command in poisons.items():
        poison = repository(top / "poison" / name, {"train.py": FIXABLE % 3})
        tables.append(f"url = '{poison}'\nverify = '''{command}'''")
    (top / "all.toml").write_text("".join(f"[[repository]]\n{table}\n" for table in tables))
    alone = made_campaign(top / "one", top / "repos")
    campaign = made_campaign(top / "two", top / "all.toml")
    before = manifest(top / "repos")
    assert devfix("migrate", "run", str(alone), "--jobs", "2", "-q", cwd=top).code == 2

    done = disturbed(campaign, cluster, kills, random.Random(seed))
    found = final(campaign)
    for name, reason in zip(poisons, REASONS, strict=False):
        row = found.pop(f"poison/{name}")
        assert (row["state"], row["stage"]) == ("failed", "analyse")
        assert reason in row["reason"] and row["reason"].endswith(", again and again")
    assert found == final(alone)
    assert {Path(name).name: row["state"] for name, row in found.items()} == states(made)
    assert len(ends(campaign)) == count + len(poisons) and set(ends(campaign).values()) == {1}
    assert manifest(top / "repos") == before
    deadline = time.monotonic() + 10  # nothing of it is left on the workers
    while (left := spawned(set(cluster.workers()))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    return done


def states(made: list[Made]) -> dict[str, str]:
    return {one.path.name: one.state for one in made}


def test_killed_it_ends_as_an_undisturbed_run_on_one_machine(tmp_path: Path, cluster: Cluster) -> None:
    check_disturbed(tmp_path, cluster, 12, 3, int(time.time()), {"crash": CRASH})


@pytest.mark.slow
def test_killed_at_fifty_moments(tmp_path: Path, cluster: Cluster) -> None:
    seed, start = int(time.time()), time.monotonic()
    kills = check_disturbed(tmp_path, cluster, 200, 50, seed, {"crash": CRASH, "poison": POISON})
    print(f"\nseed {seed}: {kills}, {time.monotonic() - start:.0f} s")
    assert kills.drivers + kills.workers == 50


@pytest.mark.slow
def test_a_cluster_of_its_own(tmp_path: Path) -> None:
    made = many(tmp_path, len(KINDS))
    alone, campaign = (made_campaign(tmp_path / name, tmp_path / "repos") for name in ("one", "two"))
    start = time.monotonic()
    assert devfix("migrate", "run", str(alone), "--jobs", "2", "-q", cwd=tmp_path).code == 2
    quiet = time.monotonic() - start
    run_and_kill(campaign, 4, int(time.time()), "--cluster", "local:3", quiet=quiet)
    assert final(campaign) == final(alone) and set(ends(campaign).values()) == {1}
    assert {Path(name).name: row["state"] for name, row in final(campaign).items()} == states(made)
    assert not list((campaign / "work").iterdir())


# As docs/scale.md has it for SLURM and Kubernetes, whose classes have the same methods.
ADAPTIVE = """
import subprocess, sys
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    adaptive = cluster.adapt(minimum=0, maximum=1, interval="100ms")
    command = [sys.executable, "-m", "devfix", "migrate", "run", sys.argv[1], "-q",
               "--cluster", cluster.scheduler_address, "--jobs", "4"]
    assert not cluster.workers
    code = subprocess.run(command).returncode
    print("workers were brought:", any(change["status"] == "up" for _, change in adaptive.log), "exit code:", code)
"""


def test_an_adaptive_cluster_that_has_no_worker_at_first(tmp_path: Path) -> None:
    made = many(tmp_path, 6)
    campaign = made_campaign(tmp_path / "one", tmp_path / "repos")
    (tmp_path / "adaptive.py").write_text(ADAPTIVE)
    command = [sys.executable, "adaptive.py", str(campaign)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert "workers were brought: True exit code: " in done.stdout, done.stdout + done.stderr
    assert set(ends(campaign).values()) == {1}
    assert {Path(name).name: row["state"] for name, row in final(campaign).items()} == states(made)


# --- errors ------------------------------------------------------------------------------------------


@pytest.fixture
def campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    repository(tmp_path / "repos" / "a", {"train.py": FIXABLE % 3})
    campaign = tmp_path / "camp"
    assert main(["migrate", "init", str(campaign), "--repos", str(tmp_path / "repos")]) == 0
    capsys.readouterr()
    return str(campaign)


def test_without_the_extra(
    campaign: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["migrate", "run", campaign, "--cluster", "local:2"]) == 2
    assert "not installed: pip install 'devfix[cluster]'" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["tcp://127.0.0.1", "local:0", "127.0.0.1:8786", "ftp://a:1", "local"])
def test_no_address(campaign: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "run", campaign, "--cluster", address]) == 2
    assert f"tls://HOST:PORT or local:N, not {address!r}" in capsys.readouterr().err


def test_nobody_there(
    campaign: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clusters, "_CONNECT", 0.3)
    assert main(["migrate", "run", campaign, "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "no dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_somebody_else_there(
    campaign: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clusters, "_CONNECT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert main(["migrate", "run", campaign, "--cluster", address]) == 2
    assert f"no dask scheduler answers at {address}" in capsys.readouterr().err


def test_other_versions(
    campaign: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = replace(onworker.versions(), libcst="0.0.1")
    monkeypatch.setattr(clusters, "_versions", lambda: ours)
    assert main(["migrate", "run", campaign, "--cluster", cluster.address]) == 2
    said = capsys.readouterr().err
    assert (
        "has libcst " in said
        and "the driver 0.0.1" in said
        and "install the same versions everywhere" in said
    )


def test_what_a_worker_must_have(tmp_path: Path) -> None:
    job = Job("a", "a", Source(str(tmp_path)), Settings("camp", "b"))
    assert clusters._needs(job) == (str(tmp_path),)
    assert clusters._needs(replace(job, source=Source(tmp_path.as_uri()))) == (str(tmp_path),)
    assert clusters._needs(replace(job, source=Source("https://example.org/a"))) == ()
    order = onworker.Order("t", job, onworker.versions(), (str(tmp_path),))
    assert onworker._wrong(order) == ""
    assert "there is no /nowhere" in onworker._wrong(replace(order, needs=("/nowhere",)))
    late = replace(order, versions=replace(order.versions, devfix="9"))
    assert f"has devfix {order.versions.devfix}, the driver 9" in onworker._wrong(late)


def test_a_cluster_of_one_worker(campaign: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = devfix("migrate", "run", campaign, "--cluster", "local:4", cwd=Path(campaign).parent)
    assert said.code == 0, said.err
    assert "[1/1] changed" in said.text and "Traceback" not in said.err
    assert not list(Path(campaign, "work").iterdir())


# --- the driver's side -------------------------------------------------------------------------------


class Client:
    """A client of dask, as far as the pool asks for one; tasks end when the test says so."""

    def __init__(self) -> None:
        self.status = "running"
        self.threads: dict[str, int] | OSError = {"a": 2, "b": 1}
        self.tasks: list[Task] = []
        self.cancelled: list[Task] = []

    def nthreads(self) -> dict[str, int]:
        if isinstance(self.threads, OSError):
            raise self.threads
        return self.threads

    def subscribe_topic(self, topic: str, handler: Callable[..., None]) -> None:
        self.tell = handler

    def submit(self, function: object, order: bytes, topic: str, **_: object) -> Task:
        self.tasks.append(Task(pickle.loads(order)))
        return self.tasks[-1]

    def cancel(self, tasks: list[Task]) -> None:
        self.cancelled += tasks

    def run(self, *_: object, **__: object) -> None: ...

    def close(self, timeout: float) -> None:
        self.status = "closed"


class Task:
    def __init__(self, order: onworker.Order) -> None:
        self.order = order
        self.status = "pending"
        self.released = False

    def add_done_callback(self, function: Callable[[Task], None]) -> None:
        self.done = function

    def end(self, value: onworker.Said | BaseException | None) -> None:
        self.value = value
        self.status = (
            "cancelled" if value is None else "error" if isinstance(value, BaseException) else "finished"
        )
        self.done(self)

    def result(self) -> bytes:
        if isinstance(self.value, BaseException):
            raise self.value
        return pickle.dumps(self.value)

    def exception(self) -> object:
        return self.value

    def release(self) -> None:
        self.released = True


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def pool(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[clusters.ClusterPool]:
    monkeypatch.setattr(clusters, "_LOOK", 0.02)
    made = clusters.ClusterPool(client, None, "tcp://h:1", "uid", "unused")
    yield made
    made.close()
    assert made._works == {} or client.cancelled
    assert client.status == "closed"


def test_the_end_of_a_clone_comes_before_the_result(client: Client, pool: clusters.ClusterPool) -> None:
    assert pool.size == 3
    clone = pool.submit("clone", JOB, None)
    (task,) = client.tasks
    assert task.order.needs == () and not clone.done()
    event = {"token": task.order.token, "outcome": pickle.dumps(CLONED)}
    client.tell((0.0, event))
    client.tell((0.0, event))  # its worker has died, and another has done it again
    client.tell((0.0, {**event, "token": "of another run"}))
    assert clone.result(0) == CLONED
    analysis = pool.submit("analyse", JOB, CLONED.head)
    assert not analysis.done()
    task.end(onworker.Said((CLONED, ENDED)))
    assert analysis.result(0) == ENDED
    assert task.released and pool._works == {} and pool._analysing == {}


def test_a_worker_that_dies_with_a_result_is_lost(client: Client, pool: clusters.ClusterPool) -> None:
    """The task has ended, but what it came to is made again when it is fetched, and that fails."""
    from distributed import KilledWorker

    clone = pool.submit("clone", JOB, None)
    (task,) = client.tasks
    task.value, task.status = KilledWorker("devfix-1", None, 0), "finished"
    task.done(task)
    with pytest.raises(Lost, match="the worker that worked on it died") as lost:
        clone.result(0)
    assert lost.value.killed


def test_a_result_without_an_event(client: Client, pool: clusters.ClusterPool) -> None:
    clone = pool.submit("clone", JOB, None)
    client.tasks[0].end(onworker.Said((CLONED, ENDED)))
    assert clone.result(0) == CLONED and pool.submit("analyse", JOB, CLONED.head).result(0) == ENDED
    skipped = Outcome("clone", "skipped", "has no commits")
    clone = pool.submit("clone", JOB, None)
    client.tasks[1].end(onworker.Said((skipped,)))
    assert clone.result(0) == skipped and pool._analysing == {} and pool._works == {}


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        (onworker.Said(lost="it died", killed=True), Lost, "it died"),
        (onworker.Said(late=True), TimeoutError, ""),
        (onworker.Said(bug="a traceback"), StepError, "a traceback"),
        (onworker.Said(wrong="worker w: has devfix 9"), MigrateError, "worker w: has devfix 9"),
        (None, Lost, "the cluster dropped it"),
        (ValueError("odd"), ValueError, "odd"),
    ],
)
@pytest.mark.parametrize("cloned", [False, True])
def test_how_a_task_may_end(
    ended: onworker.Said | ValueError | None,
    kind: type[Exception],
    words: str,
    cloned: bool,
    client: Client,
    pool: clusters.ClusterPool,
) -> None:
    future = pool.submit("clone", JOB, None)
    if cloned:
        client.tell((0.0, {"token": client.tasks[0].order.token, "outcome": pickle.dumps(CLONED)}))
        future = pool.submit("analyse", JOB, future.result(0).head)
    client.tasks[0].end(ended)
    error = future.exception(0)
    assert type(error) is kind and str(error) == words
    assert pool._works == {} and pool._analysing == {}


@pytest.mark.parametrize("kind", ["no worker", "no scheduler"])
def test_nobody_is_left(
    kind: str, client: Client, pool: clusters.ClusterPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = pool.submit("clone", JOB, None)
    monkeypatch.setattr(clusters, "_PATIENCE", 0.1)
    client.threads = {} if kind == "no worker" else OSError("closed")
    client.status = "running" if kind == "no worker" else "closed"
    words = "has had no worker for" if kind == "no worker" else "the scheduler at tcp://h:1 is gone"
    assert words in str(running.exception(10)) and isinstance(running.exception(), MigrateError)
    with pytest.raises(MigrateError, match=words):
        pool.submit("clone", replace(JOB, id="b"), None)


def test_a_run_that_cannot_go_on_leaves_what_it_had_begun_to_the_next(
    campaign: str, client: Client, pool: clusters.ClusterPool
) -> None:
    def submit(function: object, order: bytes, topic: str, **_: object) -> Task:
        task = Task(pickle.loads(order))
        threading.Timer(0.1, lambda: task.end(onworker.Said(wrong="worker w: has devfix 9"))).start()
        return task

    client.submit = submit  # type: ignore[method-assign]
    with Store(f"{campaign}/campaign.db") as store:
        with pytest.raises(MigrateError, match="worker w: has devfix 9"):
            drive(campaign, store, pool)
        assert store.recover() == 1 and store.counts() == {"pending": 1}


# --- on a worker -------------------------------------------------------------------------------------


class Slow:
    """A LocalPool whose steps end when they are let go."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.go = threading.Event()
        self.outcomes = list(outcomes)
        self.submitted: list[str] = []
        self.tidied: list[str] = []

    def submit(self, step: str, job: Job, head: Head | None) -> Future[Outcome]:
        self.submitted.append(step)
        future: Future[Outcome] = Future()

        def end() -> None:
            self.go.wait(20)
            one = self.outcomes.pop(0) if self.outcomes else StepError("more steps than there should be")
            future.set_exception(one) if isinstance(one, Exception) else future.set_result(one)

        threading.Thread(target=end, daemon=True).start()
        return future

    def lost(self, job: Job) -> None:
        self.tidied.append(job.id)

    def close(self) -> None:
        pass


def site_of(pool: Slow, monkeypatch: pytest.MonkeyPatch) -> onworker._Site:
    monkeypatch.setattr(onworker, "LocalPool", lambda *_: pool)
    monkeypatch.setattr(onworker, "_LOOK", 0.02)
    return onworker._Site("unused", JOB.settings, 1)


def test_work_that_a_killed_driver_has_left_is_not_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Slow(CLONED, ENDED, CLONED, ENDED)
    site = site_of(pool, monkeypatch)
    told: list[Outcome] = []
    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(site.work, replace(JOB, attempt=n), told.append) for n in range(2)]
        found.append(threads.submit(site.work, replace(JOB, before="d" * 40), told.append))
        while len(pool.submitted) < 1:
            time.sleep(0.01)
        time.sleep(0.1)
        assert pool.submitted == ["clone"]
        pool.go.set()
        assert [one.result().outcomes for one in found] == [(CLONED, ENDED)] * 3
    # What is not the same job is done after it.
    assert pool.submitted == ["clone", "analyse"] * 2 and told == [CLONED] * 2
    assert site.running == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Lost("it died", killed=False), onworker.Said((CLONED,), lost="it died")),
        (Lost("it died"), onworker.Said((CLONED,), lost="it died", killed=True)),
        (TimeoutError(), onworker.Said((CLONED,), late=True)),
        (StepError("a traceback"), onworker.Said((CLONED,), bug="a traceback")),
    ],
)
def test_what_keeps_a_worker_from_the_next_step(
    error: Exception, said: onworker.Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Slow(CLONED, error)
    pool.go.set()
    assert site_of(pool, monkeypatch).work(JOB, lambda outcome: None) == said
    assert pool.tidied == ([] if isinstance(error, StepError) else ["a"])


def test_the_end_of_a_run_ends_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Slow(CLONED)
    site = site_of(pool, monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(site.work, JOB, lambda outcome: None)
        while not pool.submitted:
            time.sleep(0.01)
        site.close()
        assert found.result(10).lost == "the run was ended"
    pool.go.set()
