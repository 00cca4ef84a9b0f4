"""Several servers in one campaign: each has its own queue, and they are pushed to at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from devfix.migrate import pushing
from devfix.migrate.state import Store
from making import FIXABLE, git, repository
from standin import TOKEN, VARIABLES, serving

Migrate = Callable[..., int]


def test_servers_do_not_wait_for_each_other(
    tmp_path: Path, migrate: Migrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pushes to all three meet; on one server there never are two."""
    real, meeting, lock = pushing.push, threading.Barrier(3, timeout=60), threading.Lock()
    under_way: dict[str, int] = {}

    def noted(campaign: str, job: object, row: object, own: object, asking: pushing.Asking) -> pushing.Pushed:
        server = type(asking.forge).__name__
        with lock:
            first = server not in under_way
            under_way[server] = under_way.get(server, 0) + 1
            assert under_way[server] == 1
        try:
            if first:
                meeting.wait()
            return real(campaign, job, row, own, asking)  # type: ignore[arg-type]
        finally:
            with lock:
                under_way[server] -= 1

    monkeypatch.setattr(pushing, "push", noted)
    with ExitStack() as stack:
        init = ["init"]
        servers = []
        for kind in VARIABLES:
            monkeypatch.setenv(VARIABLES[kind], TOKEN)
            server = stack.enter_context(serving(kind, tmp_path / kind))
            servers.append(server)
            for name in ("a", "b"):
                at = repository(server.add(f"org/{name}"), {"train.py": FIXABLE % 2})
                git(at, "config", "http.receivepack", "true")
            init += ["--organisation", f"{server.url}/org", "--forge", f"{kind}={server.url}"]
        assert migrate(*init) == 0 and migrate("run") == 0
        assert migrate("push", "--all", "--pause", "0") == 0
        assert [server.created for server in servers] == [2, 2, 2]
    with Store("camp/campaign.db") as store:
        assert {row.state for row in store.rows()} == {"pushed"}
