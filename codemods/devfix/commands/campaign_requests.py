"""`devfix migrate close` and `reopen`, and how pull requests are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from devfix.commands.campaign import campaign_argument
from devfix.commands.helping import command, option
from devfix.commands.running import complain, tell

if TYPE_CHECKING:
    from devfix.migrate.forges.places import Forges
    from devfix.migrate.state import Row, Store


@command(
    examples={
        "devfix migrate close spring speechbrain --comment 'Not needed any more.'": "close one, with a comment",
        "devfix migrate close spring --all": "close all that are open",
    }
)
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@option("--all", "All open pull requests.", "everything")
@option("--comment TEXT", "Post this comment first.", default="")
def close(campaign: str, repos: tuple[str, ...], everything: bool, comment: str) -> int:
    """Close pull requests. `push` then leaves their repositories alone until `reopen`."""
    from devfix.migrate import requesting
    from devfix.migrate.forges import OPEN

    if bool(repos) == everything:
        raise click.UsageError("name a REPO, or give --all")
    return _each(
        campaign,
        repos,
        lambda row: row.request in ("", *OPEN),
        lambda store, forges, row: requesting.close(store, forges, row, comment),
    )


@command(examples={"devfix migrate reopen spring speechbrain": "reopen its pull request"})
@campaign_argument
@click.argument("repos", nargs=-1, required=True, metavar="REPO...")
def reopen(campaign: str, repos: tuple[str, ...]) -> int:
    """Reopen closed pull requests; if the server refuses, the next `push` opens a new one."""
    from devfix.migrate import requesting

    return _each(campaign, repos, lambda row: row.request == "closed", requesting.reopen)


def _each(
    campaign: str,
    repos: tuple[str, ...],
    fits: Callable[[Row], bool],
    work: Callable[[Store, Forges, Row], str],
) -> int:
    """Do it with the requests that are named, or else all that fit; the exit code."""
    from devfix.migrate import campaigns
    from devfix.migrate.forges.places import Forges
    from devfix.migrate.model import MigrateError

    failed = 0
    with campaigns.opened(campaign, change=True) as store:
        forges = Forges(store.settings())
        rows = [store.row(store.find(repo)) for repo in repos]
        rows = rows or [row for row in store.rows() if row.pull_request and fits(row)]
        if not rows:
            click.echo("no pull request is open", err=True)
        for row in rows:
            try:
                if not (row.pull_request and fits(row)):
                    raise MigrateError(
                        f"its pull request is {row.request}" if row.request else "it has no pull request"
                    )
                tell(f"{row.name}: {work(store, forges, row)}")
            except MigrateError as error:
                complain(f"{row.name}: {error}")
                failed += 1
    return 2 if failed else 0


def refreshed(store: Store) -> int:
    """Ask what has become of all open requests; how many could not be asked."""
    from devfix.migrate.forges.places import Forges
    from devfix.migrate.requesting import refresh

    failed = 0
    for told in refresh(store, Forges(store.settings())):
        if told.error:
            complain(f"{told.name}: {told.error}")
            failed += 1
        elif told.said:
            tell(f"{told.name}: {told.said}", err=True)
    return failed
