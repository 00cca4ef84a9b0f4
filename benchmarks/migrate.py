"""What a campaign costs: time, memory, network and disk for each repository, beside a loop in the shell.

    python benchmarks/migrate.py [--count 30] [--rounds 3] [--memory 1000] [--only WHAT]

Repositories are generated in a temporary folder: small ones of eight Python files, of which every third
repository has a bug with a safe repair. In each round the same work is done in turn by a loop in the shell
(`git clone`, `devfix apply`, `git commit`), by `devfix migrate run` with one and with two processes, and by
`--cluster local:2`; ratios are taken within a round, and the median of the rounds is printed, since other
programs may be at work on the machine, too. CPU seconds are those of all processes together.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from devfix.migrate import campaigns, driver, folders, steps
from devfix.migrate.model import Artefact, Count, Head, Job, Outcome, Settings, Source, StepName
from devfix.migrate.state import Store
from devfix.migrate.summary import summary
from devfix.review.html.campaign import render

ONE = ("--codemod", "reorder-to")
DEVFIX = [sys.executable, "-m", "devfix"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "OMP_NUM_THREADS": "1",
}
PROGRAM = '''\
"""Part {n} of a program that trains a small network.

{words}
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear({n} + 3, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default={n} + 16)
    parser.add_argument("--epochs", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(arguments.width)
    {before}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(64, {n} + 3), torch.randint(0, 2, (64,)))
    for epoch in range(arguments.epochs):
        for x, y in DataLoader(data, batch_size=8):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
'''
LOOP = """
for repository in "$1"/*; do
  git clone -q --depth=1 "file://$repository" "$2/work" || exit 1
  (cd "$2/work" && {devfix} apply --quiet --codemod reorder-to . > /dev/null; git commit -q -a -m repair > /dev/null)
  rm -rf "$2/work"
done
"""


def generate(top: pathlib.Path, count: int, files: int = 8) -> pathlib.Path:
    """Copies of three repositories, one of which has something to repair."""
    originals = []
    chance = random.Random(count)
    for kind in range(min(3, count)):
        work = top / f"original-{kind}"
        work.mkdir(parents=True)
        for n in range(files):
            before = "model.to(device)"
            if kind == 0 and n == 0:
                before = "model.to(device)\n    model.second = nn.Linear(arguments.width, 2)"
            path = work / f"part{n // 100}" / f"train{n}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(PROGRAM.format(n=n, before=before, words=words(chance)))
        git(work, "init", "-q", "-b", "main", "--template=", ".")
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", "first")
        git(work, "gc", "-q")
        originals.append(work)
    repos = top / "repos"
    repos.mkdir()
    for n in range(count):
        shutil.copytree(originals[n % 3] / ".git", repos / f"{n:05}.git")
        git(repos / f"{n:05}.git", "config", "core.bare", "true")
    return repos


def words(chance: random.Random) -> str:
    """Half a KiB of prose that packs as badly as any."""
    letters = "etaoinshrdlucmfwypvbgk"
    found = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(85)]
    return "\n".join(" ".join(found[at : at + 12]) for at in range(0, len(found), 12))


def git(folder: pathlib.Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "gc.auto=0", *arguments], cwd=folder, env=ENVIRONMENT, check=True)


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float


def cost(command: list[str], okay: tuple[int, ...] = (0, 1)) -> Cost:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert done.returncode in okay, done.stderr.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - start, cpu)


def campaign(top: pathlib.Path, repos: pathlib.Path, *options: str) -> pathlib.Path:
    """A new one with nothing done."""
    path = top / "campaign"
    shutil.rmtree(path, ignore_errors=True)
    command = [*DEVFIX, "migrate", "init", str(path), "--repos", str(repos), *options]
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
    return path


def run(top: pathlib.Path, repos: pathlib.Path, *options: str) -> Cost:
    return cost([*DEVFIX, "migrate", "run", str(campaign(top, repos, *ONE)), "--quiet", *options])


def compare(top: pathlib.Path, count: int, rounds: int, *, loop: bool) -> None:
    repos = generate(top / f"compare-{count}", count)
    ways = {
        "a loop in the shell": lambda: cost(
            ["sh", "-c", LOOP.format(devfix=" ".join(DEVFIX)), "sh", str(repos), str(top)]
        ),
        "migrate, 1 process": lambda: run(top, repos, "--jobs", "1"),
        "migrate, 2 processes": lambda: run(top, repos, "--jobs", "2"),
        "migrate, dask local:2": lambda: run(top, repos, "--cluster", "local:2"),
    }
    if not loop:
        del ways["a loop in the shell"]
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
            print(f"{name}: {found[name][-1]}", file=sys.stderr, flush=True)
    name, first = next(iter(found.items()))
    print(f"\n{count} repositories of 8 files, {rounds} rounds; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"times as fast, times less CPU: than {name}")
    print(f"{'':24}{'wall s':>8}{'CPU s':>8}{'per CPU s':>11}{'as fast':>9}{'less CPU':>10}")
    for name, costs in found.items():
        wall, cpu = (statistics.median(getattr(one, what) for one in costs) for what in ("wall", "cpu"))
        ratios = [
            statistics.median(getattr(a, what) / getattr(b, what) for a, b in zip(first, costs, strict=True))
            for what in ("wall", "cpu")
        ]
        print(f"{name:24}{wall:8.1f}{cpu:8.1f}{count / cpu:11.1f}{ratios[0]:9.2f}{ratios[1]:10.2f}")


# --- memory ------------------------------------------------------------------------------------------


@dataclass
class Sample:
    share: float  # of the repositories that are done
    driver: int  # KiB
    others: dict[int, int]


def memory(top: pathlib.Path, count: int, *options: str) -> None:
    """The driver and its processes while they work on many small repositories."""
    repos = top / "memory" / "repos"
    path = campaign(top, repos if repos.exists() else generate(top / "memory", count, 2), *ONE)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(
        [*DEVFIX, "migrate", "run", str(path), *options], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    done = [0]

    def read() -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            done[0] += 1

    reader = threading.Thread(target=read)
    reader.start()
    samples = []
    while process.poll() is None:
        rss = dict(resident(process.pid))
        if process.pid in rss:
            samples.append(Sample(done[0] / count, rss.pop(process.pid), rss))
        time.sleep(0.2)
    reader.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.monotonic() - start
    print(
        f"\nmemory over {count} repositories of 2 files, {' '.join(options)} ({seconds:.0f} s, CPU {cpu:.0f} s)"
    )
    print(f"{'done':>10}{'driver MiB':>12}{'largest other MiB':>19}{'all MiB':>10}")
    for low in (0.05, 0.25, 0.5, 0.75, 0.95):
        near = [one for one in samples if low - 0.05 <= one.share < low + 0.05]
        if near:
            driver_, other, whole = (
                statistics.median(values) / 1024
                for values in (
                    [one.driver for one in near],
                    [max(one.others.values(), default=0) for one in near],
                    [one.driver + sum(one.others.values()) for one in near],
                )
            )
            print(f"{low:10.0%}{driver_:12.0f}{other:19.0f}{whole:10.0f}")
    size = (path / folders.DATABASE).stat().st_size
    print(
        f"state: {size / count:.0f} bytes for each repository; results: {disk(path / 'results') / count:.0f}"
    )


def resident(top: int) -> Iterator[tuple[int, int]]:
    """(process, KiB) of a process and all below it that run Python."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path(f"/proc/{name}/stat").read_text()
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    for process in parents:
        at = process
        while at not in (top, 0):
            at = parents.get(at, 0)
        if at == top:
            try:
                for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
                    if line.startswith("VmRSS:"):
                        yield process, int(line.split()[1])
            except OSError:
                continue


# --- the driver alone --------------------------------------------------------------------------------


class Ready:
    """A pool whose steps take no time: what is left is the driver's own work."""

    size = 8

    def submit(self, step: StepName, job: Job, head: Head | None) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        if step == "clone":
            future.set_result(Outcome("clone", "analysing", head=Head("c" * 40, branch="main")))
            return future
        names = ("changes.patch", "commit.txt", "body.md", "findings.json", "commit.pack")
        files = tuple(Artefact(name, b"x" * 800) for name in names)
        counts = (Count("reorder-to", 2, 1, 1),)
        future.set_result(
            Outcome(
                "analyse", "changed", head=head, counts=counts, commit="d" * 40, subject="s", artefacts=files
            )
        )
        return future

    def lost(self, job: Job) -> None: ...

    def close(self) -> None: ...


def driver_alone(top: pathlib.Path, count: int) -> None:
    path = str(top / "driven")
    folders.make_campaign(path)
    found = [(f"r-{n:06}", f"group/r-{n:06}", Source(f"https://example.org/{n}")) for n in range(count)]
    with Store(os.path.join(path, folders.DATABASE), make=True) as store:
        store.start(Settings("driven", "devfix/driven"), found)
        start, cpu = time.monotonic(), time.process_time()
        driver.drive(path, store, Ready())
        wall, cpu = time.monotonic() - start, time.process_time() - cpu
        start, before = time.process_time(), peak()
        page = render(summary(store), "results", lambda id: (frozenset(), ""))
        took = time.process_time() - start
    print(
        f"\nthe driver alone, {count} repositories with a change: {1000 * cpu / count:.2f} CPU ms for each"
        f" ({1000 * wall / count:.1f} ms), peak {peak():.0f} MiB; report page {took:.1f} CPU s,"
        f" {len(page) >> 10} KiB, {peak() - before:+.0f} MiB"
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- network and disk --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """One clone: bytes that were fetched, that it took on disk, and that are kept; CPU seconds."""

    files: int
    size: int
    fetched: int
    scratch: int
    kept: int
    analysed: int
    clone: float
    analyse: float


def spaces(top: pathlib.Path, repos: pathlib.Path, *options: str) -> Iterator[Space]:
    path = campaign(top, repos, *options)
    folder = str(top / "scratch")
    with campaigns.opened(str(path)) as store:
        for id in store.waiting():
            job = store.job(id)
            start = cpu()
            outcome = steps.clone(job, folder)
            middle = cpu()
            if outcome.head is None:
                continue
            packs = pathlib.Path(folder).glob("repo.git/objects/pack/*.pack")
            fetched, scratch = sum(one.stat().st_size for one in packs), disk(pathlib.Path(folder))
            ended = steps.analyse(job, folder, outcome.head)
            kept = sum(len(one.data) for one in ended.artefacts)
            head = outcome.head
            yield Space(
                head.files, head.size, fetched, scratch, kept, ended.files, middle - start, cpu() - middle
            )


def cpu() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def space(top: pathlib.Path) -> None:
    print("generated repositories; KiB and CPU ms")
    print(f"{'files':>7}{'size':>9}{'fetched':>9}{'at work':>9}{'kept':>7}{'clone':>8}{'analyse':>9}")
    list(spaces(top, generate(top / "first", 1)))  # what is imported is there from now on
    for files in (2, 8, 100, 1000):
        (one,) = spaces(top, generate(top / f"space-{files}", 1, files))
        sizes = (one.size, one.fetched, one.scratch)
        print(
            f"{one.files:7}" + "".join(f"{size >> 10:9}" for size in sizes) + f"{one.kept / 1024:7.1f}"
            f"{1000 * one.clone:8.0f}{1000 * one.analyse:9.0f}"
        )


def real(top: pathlib.Path, repos: pathlib.Path) -> None:
    found = list(spaces(top, repos))
    print(
        f"\n{len(found)} repositories in {repos.name}, with the codemods that are on by default: median, sum"
    )
    for name, unit in (
        ("files", 1), ("size", 1 << 20), ("fetched", 1 << 20), ("scratch", 1 << 20), ("kept", 1 << 10),
        ("analysed", 1), ("clone", 1), ("analyse", 1),
    ):  # fmt: skip
        values = [getattr(one, name) / unit for one in found]
        print(f"{name:10}{statistics.median(values):10.2f}{sum(values):12.1f}")


def shards(top: pathlib.Path, files: int) -> None:
    """A monorepo: what `init` costs, in a process of its own, and one of its shards."""
    repos = generate(top / f"mono-{files}", 1, files)
    path = top / f"sharded-{files}"
    command = [*DEVFIX, "migrate", "init", str(path), "--repos", str(repos), "--shard-by", "folder"]
    command += ["--max-files", str(2 * files)]
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True);"
    )
    program += "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime + u.ru_stime, u.ru_maxrss)"
    out = subprocess.run(
        [sys.executable, "-c", program, *command], env=ENVIRONMENT, check=True, capture_output=True
    )
    seconds, memory = map(float, out.stdout.split())
    folder = str(top / "scratch")
    with campaigns.opened(str(path)) as store:
        ids = store.waiting()
        job = store.job(ids[-1])
        start = cpu()
        outcome = steps.clone(job, folder)
        middle = cpu()
        steps.analyse(job, folder, outcome.head)
        after = cpu()
    print(
        f"monorepo of {files} files: init {seconds:.1f} CPU s, {memory / 1024:.0f} MiB, {len(ids)} shards,"
        f" {disk(path) / files / 1024:.1f} KiB on disk a file; a shard of {len(job.source.files)} files:"
        f" clone {1000 * (middle - start):.0f} CPU ms, analyse {1000 * (after - middle):.0f}"
    )


def disk(folder: pathlib.Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=1000)
    parser.add_argument("--only", choices=["compare", "driver", "memory", "scaling", "shards", "space"])
    parser.add_argument("--repos", type=pathlib.Path, help="real ones, to measure space and time of, too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        if arguments.only in (None, "space") and arguments.repos is None:
            space(top)
        if arguments.repos is not None:
            real(top, arguments.repos)
        if arguments.only in (None, "compare"):
            compare(top, arguments.count, arguments.rounds, loop=True)
        if arguments.only in (None, "scaling"):
            compare(top, 4 * arguments.count, arguments.rounds, loop=False)
        if arguments.only in (None, "driver"):
            for count in (1000, 10_000):
                driver_alone(top / str(count), count)
        if arguments.only in (None, "shards"):
            for files in (5_000, 20_000):
                shards(top, files)
        if arguments.only in (None, "memory"):
            for options in (("--jobs", "2"), ("--cluster", "local:2")):
                memory(top, arguments.memory, *options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
