"""When a server says no for now: how long to wait, and when to give up."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from time import sleep
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from devfix.migrate.model import MigrateError
from devfix.review.text import printable

if TYPE_CHECKING:
    from devfix.migrate.forges import Forge

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
TRIES = 5
LONGEST = 3600.0  # seconds that are waited for a limit to be over
_UNSAID = (
    60.0  # where a server limits and does not say for how long: GitHub's documentation asks for a minute
)


class ForgeError(MigrateError):
    """A server's no. `status` is 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0, headers: Mapping[str, str] | None = None) -> None:
        said = printable(" ".join(message.split()))[:300]
        super().__init__(f"{said or 'no reason is given'} ({status})" if status else said)
        self.status = status
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}

    @property
    def limited(self) -> bool:
        """Too many requests, in the words of any of the servers."""
        told = "retry-after" in self.headers or self.headers.get("x-ratelimit-remaining") == "0"
        return self.status == 429 or (self.status == 403 and (told or "rate limit" in str(self).lower()))


def patient(
    method: Callable[Concatenate[Forge, _Given], _Result],
) -> Callable[Concatenate[Forge, _Given], _Result]:
    """A method of a forge that is repeated after a limit, a fault of the server or a broken connection."""

    @functools.wraps(method)
    def repeated(forge: Forge, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        for attempt in range(TRIES):
            try:
                return method(forge, *given, **named)
            except forge.errors as error:
                failure = forge.failure(error)
                wait = _wait(failure, attempt)
                if wait is None or attempt == TRIES - 1:
                    raise failure from error
                sleep(wait)
        raise AssertionError

    return cast("Callable[Concatenate[Forge, _Given], _Result]", repeated)


def _wait(failure: ForgeError, attempt: int) -> float | None:
    """Seconds until another try may do; None where none will."""
    if failure.limited:
        wait = _told(failure.headers)
        return wait if wait <= LONGEST else None
    return float(2**attempt) if failure.status == 0 or failure.status >= 500 else None


def _told(headers: Mapping[str, str]) -> float:
    """`Retry-After` in seconds, or the time at which a limit is over (GitHub's and GitLab's names for it)."""
    for name, since in (
        ("retry-after", 0.0),
        ("x-ratelimit-reset", time.time()),
        ("ratelimit-reset", time.time()),
    ):
        value = headers.get(name, "")
        if value.isdigit():
            return max(0.0, int(value) - since)
    return _UNSAID
