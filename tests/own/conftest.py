"""devfix in this process, with nothing loaded before, and with settings of nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from authors import Ran
from devfix.cli import main
from devfix.own import known


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    path = list(sys.path)
    yield
    sys.path[:] = path
    known.forget()
    known.installed.cache_clear()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def devfix(*arguments: str) -> Ran:
        capfd.readouterr()
        code = main(arguments)
        done = capfd.readouterr()
        return Ran(code, done.out, done.err)

    return devfix


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file below the working directory, or beside it with `../`."""

    def put(name: str, text: str | bytes) -> Path:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put
