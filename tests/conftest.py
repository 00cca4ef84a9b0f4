"""Fixtures: devfix in a process of its own, and git; and the rules for marked tests."""

from __future__ import annotations

import compileall
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import devfix as package
import pytest
from devfix import smoke
from devfix.cli import main
from devfix.pipeline.parallel import cores
from forked import Command, Server
from later import is_built_for_cuda, needs_torch, torch
from ran import TESTS, Ran

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts `pytest &` with Ctrl-C ignored, and children inherit that: the tests that interrupt devfix
    # would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.dont_write_bytecode = False  # of the tests: for each worker to compile them takes seconds


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: half as many again as there are cores, since a sixth of the time tests wait for processes."""
    return cores() + cores() // 2


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither the kept results and journals nor the settings of whoever runs the tests count, for pytest either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # The suites that tests run need neither, and each would take a second to import them.
        patch.setenv("PYTEST_ADDOPTS", "-p no:pytest-lsp -p no:hypothesispytest")
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also the long form of soak and fuzz runs")


def pytest_sessionstart(session: pytest.Session) -> None:
    """devfix is compiled once: where Python writes no bytecode, each of a thousand processes would do so."""
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(package.__path__[0], quiet=2)


def pytest_collection_finish() -> None:
    """What is collected stays: to visit it at each collection of garbage, and five times at the end, takes seconds."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gpu = None
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="long run; use --long"))
        if item.get_closest_marker("cuda"):
            if gpu is None:
                gpu = is_built_for_cuda() and torch.cuda.is_available()
            if not gpu:
                item.add_marker(pytest.mark.skip(reason="no CUDA GPU"))


STUBS = str(TESTS / "stubs.py")


@pytest.fixture(scope="session")
def stubs() -> Iterator[Server]:
    """What `devfix` with the stub codemods is forked from."""
    with Server(STUBS, "serve") as server:
        yield server


@pytest.fixture
def devfix(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Ran]:
    """Run `devfix` with the stub codemods in a process of its own, in `tmp_path`."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH", ""))))

    def run(*arguments: str | bytes, stdin: bytes = b"", cwd: Path = tmp_path, **environment: str) -> Ran:
        environment = {**os.environ, "PYTHONPATH": path, **environment}
        if hasattr(os, "fork"):
            server: Server = request.getfixturevalue("stubs")
            return server.run(arguments, stdin, cwd, environment)
        command = [sys.executable, STUBS, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, cwd=cwd, env=environment, timeout=120
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode(errors="surrogateescape"))

    return run


@pytest.fixture(scope="session")
def prepared() -> Iterator[Server]:
    """What devfix itself is forked from."""
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks")
    with Server(str(TESTS / "prepared.py")) as server:
        yield server


@pytest.fixture(scope="session")
def typed() -> Iterator[Path]:
    """The folder of an executable `devfix`, which does its work in forks."""
    with Command() as command:
        yield Path(command.folder)


@pytest.fixture
def called(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `devfix` in this process, which has loaded it already."""

    def run(*arguments: str, cwd: Path) -> Ran:
        monkeypatch.chdir(cwd)
        capfdbinary.readouterr()
        code = main(arguments)
        done = capfdbinary.readouterr()
        return Ran(code, done.out, done.err.decode())

    return run


@pytest.fixture(scope="session")
def runner() -> smoke.Runner:
    """What `smoke.run_program` runs programs with: another one would take seconds to import torch."""
    needs_torch()
    return smoke._runner


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Run git in a new repository in `tmp_path`, away from the user's configuration."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }

    def run(*arguments: str, stdin: bytes = b"", cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            ["git", *arguments], input=stdin, capture_output=True, cwd=cwd, env=environment, timeout=60
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode(errors="surrogateescape")

    run("init", "-q", ".")
    return run
