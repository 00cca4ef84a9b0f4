"""`devfix migrate` in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.migrate import local
from inline import InlinePool
from making import ENVIRONMENT


@pytest.fixture
def migrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`devfix migrate COMMAND camp ...` in `tmp_path`; the exit code."""
    monkeypatch.setattr(local, "LocalPool", InlinePool)
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    return lambda command, *arguments: main(["migrate", command, "camp", *arguments])
