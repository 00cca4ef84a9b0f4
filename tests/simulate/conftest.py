"""Programs on simulated devices, forked from one process of the tests' own: torch takes seconds to be imported."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from devfix.simulate import forks as forking
from devfix.simulate import supervise, trial
from devfix.simulate.forks import Forked, Forks
from devfix.simulate.limits import Limits
from forked import Server
from ran import TESTS, Ran


@dataclass
class Relayed(Forked):
    """A fork whose output this process passes on, since it cannot inherit ours."""

    outputs: tuple[str, ...] = ()

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        for number, path in enumerate(self.outputs, 1):
            os.write(number, Path(path).read_bytes())
        return code


@dataclass
class Lent(Forks):
    """Forks for one test, from processes that all tests share."""

    lenders: dict[tuple[str, str], Forks] = field(
        default_factory=dict
    )  # by the working directory and the program

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        outputs: tuple[str, str],
        limits: Limits | None,
    ) -> Forked | None:
        if self.problem or command[0] != sys.executable:
            return None
        lender = self.lenders.setdefault((cwd, command[1]), Forks())
        return lender.start(command, outside_of_tests(env), cwd, outputs, limits)

    def close(self) -> None:
        """The next test needs them, too."""


def outside_of_tests(env: Mapping[str, str]) -> dict[str, str]:
    """Without what differs in each test, and keeps it from being run in a fork."""
    return {name: value for name, value in env.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture(scope="session")
def lenders() -> Iterator[dict[tuple[str, str], Forks]]:
    made: dict[tuple[str, str], Forks] = {}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture(scope="session")
def copied() -> Iterator[str]:
    """Where the copies of all repositories are: forks cannot choose. Workers' sockets want a short path."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield os.path.join(os.path.realpath(folder), "copy")


@pytest.fixture
def lent(
    lenders: dict[tuple[str, str], Forks], copied: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Forks]:
    """What makes forks for devfix in this process, too: `devfix repair` and trials need not wait for torch."""

    def made() -> Forks:
        return Lent(lenders=lenders)

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(trial.Copies, "base", copied)
    monkeypatch.setattr(forking, "Forks", made)
    monkeypatch.setattr(trial, "Forks", made)
    return made


@pytest.fixture(scope="session")
def suites() -> Iterator[Callable[..., Ran]]:
    """`python -m pytest` in a folder, in a process that has not imported torch, as far as the suite can see."""
    with Server(str(TESTS / "suites.py")) as server:

        def run(folder: Path, *arguments: str) -> Ran:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = server.run(["-p", "no:cacheprovider", *arguments], b"", folder, environment, 300)
            if "cannot simulate devices" in done.text + done.err:
                pytest.skip(done.text + done.err)
            return done

        yield run


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Forks]]:
    """The folder of each `program.py` that is run, and what it is forked from."""
    with Forks() as forks:
        yield tmp_path_factory.mktemp("programs"), forks


@pytest.fixture
def programs(origin: tuple[Path, Forks], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder. If devfix runs `program.py` in it, this is a fork, as `devfix repair` runs programs."""
    folder, forks = origin
    for one in folder.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    start = supervise._start

    def started(
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        reports: str,
        capture: bool,
        *rest: Any,
    ) -> Any:
        names = ["output", "output"] if capture else ["out", "err"]
        outputs = [os.path.join(reports, name) for name in names]
        for path in outputs:
            Path(path).touch()
        forked = forks.start(
            command, outside_of_tests(env), cwd or os.getcwd(), (outputs[0], outputs[1]), None
        )
        if forked is None:
            return start(command, env, cwd, reports, capture, *rest)
        return Relayed(forked.pid, forked.server, outputs=() if capture else tuple(outputs))

    monkeypatch.setattr(supervise, "_start", started)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


@pytest.fixture
def simulated(programs: Path, called: Callable[..., Ran]) -> Callable[..., Ran]:
    """Write a program and `devfix run` it in its folder, as one of `programs`."""

    def run(program: str, *arguments: str, options: Sequence[str] = ()) -> Ran:
        (programs / "program.py").write_text(program)
        sys.stdout.flush()
        ran = called("run", *options, "program.py", *arguments, cwd=programs)
        if any(said in ran.err for said in ("GPU build", "build for GPUs", "nothing was simulated")):
            pytest.skip(ran.err)
        return ran

    return run
