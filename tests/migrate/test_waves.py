"""Few first: when the next may go, and what stops them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from devfix.migrate.model import MigrateError
from devfix.migrate.state import Row
from devfix.migrate.waves import Waves, next_wave, parse, parse_hours, within
from standin import Fault, Standin
from test_forges import campaign, filled, push, server, slept

__all__ = ["server", "slept"]  # fixtures
Migrate = Callable[..., int]


def out(count: int, **values: Any) -> list[Row]:
    empty: dict[str, Any] = dict.fromkeys(Row.__dataclass_fields__, "")
    return [Row(**{**empty, "pushed": "1", "request": "open", **values}) for _ in range(count)]


@pytest.mark.parametrize(
    ("rows", "waiting", "count", "said"),
    [
        (
            [],
            100,
            5,
            "wave 1 of 3: 5 of 100 repositories, 0 already pushed; the waves stop if more than 10 % have failed",
        ),
        (out(3), 97, 2, "wave 1 of 3"),
        (out(5), 95, 20, "wave 2 of 3: 25 of 100"),
        (out(5, checks="passed"), 95, 20, "wave 2 of 3"),
        ([*out(4), *out(1, checks="pending")], 95, 0, "Not yet: the checks of 1 still run"),
        (
            [*out(4), *out(1, checks="failed")],
            95,
            0,
            "stopped: 1 of 5 pull requests have failed checks or are closed",
        ),
        ([*out(4), *out(1, request="closed")], 95, 0, "stopped: 1 of 5"),
        ([*out(4), *out(1, request="merged", checks="failed")], 95, 20, "wave 2 of 3"),
        ([*out(22), *out(3, request="closed")], 75, 0, "stopped: 3 of 25"),
        ([*out(23), *out(2, request="closed")], 75, 75, "wave 3 of 3: 100 of 100"),
        (out(100), 0, 0, "all waves are pushed"),
        (out(1), 1, 1, "wave 1 of 3: 2 of 2"),
    ],
)
def test_the_next_wave(rows: list[Row], waiting: int, count: int, said: str) -> None:
    found = next_wave(Waves(parse("5,25%,100%")), rows, waiting, last=0, now=1000)
    assert (found.count, found.stopped) == (count, "stopped" in said) and said in found.said


def test_a_rest_between_waves_and_none_within_one() -> None:
    waves = Waves(parse("5,100%"), rest=600)
    assert "5 minutes of rest are left" in next_wave(waves, out(5), 5, last=100, now=400).said
    assert next_wave(waves, out(5), 5, last=100, now=700).count == 5
    assert next_wave(waves, out(4), 6, last=100, now=101).count == 1


@pytest.mark.parametrize("text", ["", "5,", "x", "120%", "0", "5;6", "-1"])
def test_waves_that_are_none(text: str) -> None:
    with pytest.raises(MigrateError, match="--waves takes numbers or percentages"):
        parse(text)


def test_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devfix.migrate.waves.time.localtime", lambda at: type("", (), {"tm_hour": at}))
    assert [at for at in range(24) if within(parse_hours("9-17"), at)] == list(range(9, 17))
    assert [at for at in range(24) if within(parse_hours("22-2"), at)] == [0, 1, 22, 23]
    for text in ("9", "9-9", "24-3", "1-25", "a-b"):
        with pytest.raises(MigrateError):
            parse_hours(text)


@pytest.mark.parametrize("server", ["gitea"], indirect=True)
def test_waves_of_a_campaign(
    server: Standin,
    migrate: Migrate,
    slept: list[float],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in "abcdefgh":
        filled(server, f"org/{name}")
    campaign(migrate, server)
    waves = ("--waves", "2,50%,100%", "--rest", "0")

    def sent(code: int = 0) -> int:
        assert push(migrate, *waves) == code
        return server.created

    monkeypatch.setattr("devfix.migrate.waves.within", lambda hours, at: False)
    assert push(migrate, *waves, "--hours", "9-17") == 0 and not server.created
    assert "it is not the time (9-17): 2 not pushed" in capsys.readouterr().err
    # One that cannot be pushed holds up nobody.
    server.faults.append(Fault(404, 1, "GET", "org/a$"))
    assert sent(2) == 1 and sent() == 2
    assert [pull.path for pull in server.pulls] == ["org/b", "org/c"]
    server.pulls[0].checks = "pending"
    assert sent() == 2 and "the checks of 1 still run" in capsys.readouterr().err
    server.pulls[0].checks = "passed"
    assert sent() == 4
    server.pulls[1].state = "closed"
    assert (
        sent(2) == 4
        and "stopped: 1 of 4 pull requests have failed checks or are closed" in capsys.readouterr().err
    )
    assert push(migrate, *waves, "--stop-at", "30") == 0 and server.created == 8
    assert "org/a" in {pull.path for pull in server.pulls}
