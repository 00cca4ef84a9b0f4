"""Fixtures: devfix in a process of its own, and git; and the rules for marked tests."""

from __future__ import annotations

import compileall
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import devfix as package
import pytest
from devfix.cli import main
from devfix.pipeline.parallel import cores
from later import is_built_for_cuda, torch
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


STUBS = [sys.executable, str(TESTS / "stubs.py")]


@pytest.fixture(scope="session")
def stubs() -> Iterator[subprocess.Popen[str]]:
    """What `devfix` with the stub codemods is forked from."""
    with subprocess.Popen(
        [*STUBS, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield server
        server.kill()


@pytest.fixture
def devfix(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[..., Ran]:
    """Run `devfix` with the stub codemods in a process of its own, in `tmp_path`."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH", ""))))
    streams = [tmp_path_factory.mktemp("streams") / name for name in ("in", "out", "err")]

    def run(*arguments: str | bytes, stdin: bytes = b"", cwd: Path = tmp_path, **environment: str) -> Ran:
        environment = {**os.environ, "PYTHONPATH": path, **environment}
        for file, data in zip(streams, (stdin, b"", b""), strict=True):
            file.write_bytes(data)
        if hasattr(os, "fork"):
            server = request.getfixturevalue("stubs")
            words = [os.fsdecode(one) for one in arguments]
            print(
                json.dumps([words, [*map(str, streams)], str(cwd), environment]),
                file=server.stdin,
                flush=True,
            )
            assert select.select([server.stdout], [], [], 120)[0], f"{words} takes longer than two minutes"
            code = int(server.stdout.readline())
        else:
            with (
                open(streams[0], "rb") as given,
                open(streams[1], "wb") as out,
                open(streams[2], "wb") as err,
            ):
                code = subprocess.run(
                    [*STUBS, *arguments],
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    cwd=cwd,
                    env=environment,
                    timeout=120,
                ).returncode
        return Ran(code, streams[1].read_bytes(), streams[2].read_bytes().decode(errors="surrogateescape"))

    return run


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
