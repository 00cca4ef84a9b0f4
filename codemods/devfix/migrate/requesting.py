"""What becomes of the pull requests of a campaign: asked for, closed, opened again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.migrate.forges import OPEN, Forge, ForgeError, PullRequest
from devfix.migrate.forges.places import Forges
from devfix.migrate.model import MigrateError
from devfix.migrate.state import Row, Store


@dataclass(frozen=True)
class Told:
    """What has come of one request; `error` where the server could not be asked."""

    name: str
    said: str = ""
    error: str = ""


def refresh(store: Store, forges: Forges) -> Iterator[Told]:
    """Ask for every request that was open; what has changed is written down."""
    for row in list(store.rows()):
        # One without a state is of an older campaign. Merged and closed are final, until `reopen`.
        if row.pull_request and row.request in ("", *OPEN):
            try:
                forge, path, number = located(store, forges, row)
                said = record(store, row, forge.request(path, number), "request")
                yield Told(row.name, said)
            except MigrateError as error:
                yield Told(row.name, error=str(error))


def located(store: Store, forges: Forges, row: Row) -> tuple[Forge, str, int]:
    """The server of a request, its repository and its number; raises MigrateError."""
    place = forges.place(store.job(row.id).source)
    number = row.pull_request.rstrip("/").rpartition("/")[2]
    if place is None or not number.isdigit():
        raise MigrateError("has no pull request on a server that is known")
    return forges.at(place), place.path, int(number)


def record(store: Store, row: Row, found: PullRequest, command: str) -> str:
    """Write down the state of a request if it is a new one; what has changed."""
    new = {"request": found.state, "checks": found.checks, "conflicts": int(found.conflicts)}
    if all(getattr(row, name) == value for name, value in new.items()):
        return ""
    store.change(row.id, command, f"{row.request or 'unknown'} -> {found.state}", **new)
    return store.row(row.id).asked


def close(store: Store, forges: Forges, row: Row, comment: str) -> str:
    """Close a request; what has come of it. The repository is left alone from then on. Raises MigrateError."""
    forge, path, number = located(store, forges, row)
    found = forge.request(path, number)
    if found.state in OPEN:
        if comment:
            forge.comment(path, number, comment)
        forge.close(path, number)
        found = forge.request(path, number)
    return record(store, row, found, "close") or found.state


def reopen(store: Store, forges: Forges, row: Row) -> str:
    """Open a closed request again, or let the next push make a new one; which of them. Raises MigrateError."""
    forge, path, number = located(store, forges, row)
    try:
        forge.reopen(path, number)
        return record(store, row, forge.request(path, number), "reopen") or "open"
    except ForgeError as error:
        if not 400 <= error.status < 500 or error.limited:
            raise
        # A server may refuse it, such as GitHub after the branch has moved.
        again = "changed" if row.state == "pushed" else row.state
        store.change(row.id, "reopen", str(error), request="reopened", state=again)
        return f"{error}; the next push makes a new one"
