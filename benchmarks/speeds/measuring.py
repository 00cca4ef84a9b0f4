"""Processes as a user starts them: what they take, in interleaved rounds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

# Byte code is kept, as it is for a user: it may be new in the first round, but not in the minimum.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Contender:
    """One command line, and what its runs took.

    A run has worked if it ends with one of `codes` and says what `says` (a regular expression).
    `before` is run each time before it and not timed.
    """

    name: str
    command: Sequence[str]
    codes: frozenset[int] = frozenset({0})
    says: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB: of its largest process
    failed: str = ""

    def run(self, cwd: Path) -> None:
        """Run once and note what it took; one that fails is not run again."""
        if self.failed:
            return
        if self.before:
            subprocess.run(self.before, check=True)
        with tempfile.TemporaryFile() as output:
            start = time.perf_counter()
            process = subprocess.Popen(
                self.command,
                cwd=cwd,
                env={**ENVIRONMENT, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            code = process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read().decode(errors="replace")
        if code not in self.codes or not re.search(self.says, said):
            self.failed = f"exit code {code}"
            print(f"{self.name}: {self.failed}\n{shlex.join(self.command)}\n{said[-1500:]}", file=sys.stderr)
            return
        self.wall.append(wall)
        self.cpu.append(used.ru_utime + used.ru_stime)
        self.memory.append(used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3))

    def forget(self) -> None:
        """Runs before the first round do not count."""
        for taken in (self.cpu, self.wall, self.memory):
            taken.clear()

    def first_output(self, cwd: Path) -> float:
        """Seconds to the first line on stdout."""
        start = time.perf_counter()
        with subprocess.Popen(
            self.command,
            cwd=cwd,
            env={**ENVIRONMENT, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            found = time.perf_counter() - start
            process.stdout.read()
        return found


def measure(contenders: Sequence[Contender], rounds: int, cwd: Path) -> None:
    """Run everything `rounds` times, each round beginning with another contender."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{rounds} {contender.name:40}\r", end="", file=sys.stderr, flush=True)
            contender.run(cwd)


def table(title: str, contenders: Sequence[Contender], bases: Sequence[Contender]) -> None:
    """Minima and medians; the CPU time beside that of each of the bases, and the wall time of the last."""
    print(f"\n{title}")
    heads = "".join(f" {'CPU/' + base.name[:12]:>16}" for base in bases)
    print(f"  {'':44} {'CPU min':>9} {'median':>9} {'wall min':>9} {'memory':>8}{heads}")
    for one in contenders:
        if not one.cpu:
            print(f"  {one.name:44} {one.failed or 'not measured'}")
            continue
        ratios = "".join(
            f" {min(one.cpu) / min(base.cpu):16.2f}" if base.cpu else f" {'-':>16}" for base in bases
        )
        print(
            f"  {one.name:44} {min(one.cpu):8.3f}s {median(one.cpu):8.3f}s {min(one.wall):8.3f}s "
            f"{min(one.memory):5.0f} MB{ratios}"
        )


def aim(what: str, value: float, bound: float, *, at_least: bool, unit: str = "x") -> None:
    met = value >= bound if at_least else value <= bound
    word = "at least" if at_least else "at most"
    print(f"  {what}: {value:.2f}{unit} (aim: {word} {bound:g}{unit}) {'met' if met else 'MISSED'}")
