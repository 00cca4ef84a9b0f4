"""What one looks at and decides on in a campaign: commands of `devfix migrate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from time import sleep
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import command, option, write_out
from devfix.commands.running import complain, tell

if TYPE_CHECKING:
    from devfix.migrate.state import Row, Store

campaign_argument = click.argument("campaign", type=click.Path(file_okay=False), metavar="CAMPAIGN")


def code(store: Store) -> int:
    """The exit code of a campaign: 2 if something failed."""
    return 2 if store.counts().get("failed") else 0


# --- looking -------------------------------------------------------------------------------------


@command(
    examples={
        "devfix migrate status spring --all": "show a line for each repository",
        "devfix migrate status spring --refresh-requests": "also update the state of the pull requests",
    },
    codes={0: "done", 2: "some repositories failed, or could not be asked"},
)
@campaign_argument
@option("--all", "Show a line for each repository.", "everything")
@option("--refresh-requests", "First ask the servers for the state of the pull requests.", "refresh")
@option(
    "--watch S", "Repeat this every S seconds, as long as pull requests are open.", type=click.FloatRange(1)
)
def status(campaign: str, everything: bool, refresh: bool, watch: float | None) -> int:
    """Show the progress of the campaign, also while it runs."""
    from devfix.commands.campaign_requests import refreshed
    from devfix.migrate import campaigns, showing
    from devfix.migrate.forges import OPEN

    while True:
        failed = 0
        asking = refresh or watch is not None
        with campaigns.opened(campaign, change=asking) as store:
            if asking:
                failed = refreshed(store)
            lines(showing.status(store, everything=everything))
            if watch is None or not any(row.request in OPEN for row in store.rows()):
                return 2 if failed else code(store)
        sleep(watch)  # the campaign is free for others


@command(examples={"devfix migrate show spring speechbrain --patch": "show what would be pushed"})
@campaign_argument
@click.argument("repo", metavar="REPO")
@option("--patch", "Show only the patch.")
@option("--log", "Show only the output of programs.")
def show(campaign: str, repo: str, patch: bool, log: bool) -> int:
    """Show one repository: state, history, files of the result."""
    if patch and log:
        raise click.UsageError("--patch and --log each show only that; give one of them")
    from devfix.migrate import campaigns, folders, showing

    with campaigns.opened(campaign) as store:
        id = store.find(repo)
        results = folders.results(campaign, id)
        if patch or log:
            write_out(_artefact(campaign, id, "changes.patch" if patch else "log.txt"))
            return 0
        lines(showing.show(store, store.job(id), store.row(id), results))
        text = _artefact(campaign, id, "log.txt").decode("utf-8", "replace")
        if text:
            click.echo("  log:")
            lines(f"    {line}" for line in text.splitlines()[-40:])
    return 0


def _artefact(campaign: str, id: str, name: str) -> bytes:
    from devfix.migrate import folders

    try:
        return folders.read(os.path.join(folders.results(campaign, id), name))
    except FileNotFoundError:
        return b""


def lines(all_: Iterable[str]) -> None:
    for line in all_:
        tell(line)


# --- deciding --------------------------------------------------------------------------


@command(
    examples={
        "devfix migrate review spring": "ask about each change",
        "devfix migrate review spring --accept speechbrain": "accept one without being asked",
    },
    codes={0: "done", 2: "no answer"},
)
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@option("--accept", "Accept the repositories that are named.")
@option("--reject", "Reject them: they will not be pushed.")
def review(campaign: str, repos: tuple[str, ...], accept: bool, reject: bool) -> int:
    """Show each undecided change and ask; or decide with --accept or --reject."""
    from devfix.migrate import campaigns
    from devfix.migrate.model import CHANGED

    if accept and reject:
        raise click.UsageError(
            "--accept and --reject are each for all REPOs that are named; give one of them"
        )
    decision = "accepted" if accept else "rejected" if reject else None
    if decision and not repos:
        raise click.UsageError("name what to accept or reject")
    with campaigns.opened(campaign, change=True) as store:
        rows = [store.row(store.find(repo)) for repo in repos]
        rows = rows or [row for row in store.rows(CHANGED) if not row.decision]
        chosen: str | None = ""
        for row in rows:
            if row.state not in CHANGED:
                raise click.ClickException(f"{row.name} is {row.state}: there is no change to decide on")
            chosen = decision or _asked(campaign, row)
            if chosen in ("quit", None):
                break
            if chosen in ("accepted", "rejected"):
                store.change(row.id, "review", chosen, decision=chosen, outdated="")
        left = sum(1 for row in store.rows(CHANGED) if not row.decision)
        click.echo(f"{left} left to decide on", err=True)
        return 2 if chosen is None else 0


def answer(question: str) -> str | None:
    """The line that the user types, or None at the end of the input: that is no consent."""
    click.echo(question, nl=False, err=True)
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if line:
        return line.strip()
    click.echo(err=True)
    return None


def _asked(campaign: str, row: Row) -> str | None:
    """What is decided, an empty string for later, "quit", or None where nobody answers."""
    from devfix.review.text import coloured_patch, printable

    click.echo(click.style(printable(row.name), bold=True))
    message = _artefact(campaign, row.id, "commit.txt").decode("utf-8", "replace")
    patch = coloured_patch(_artefact(campaign, row.id, "changes.patch")).decode("utf-8", "replace")
    click.echo("\n".join(printable(line) for line in message.splitlines()) + f"\n\n{patch}")
    while (typed := answer("Accept, reject, leave for later, quit (a, r, l, q): ")) not in _ANSWERS:
        if typed is None:
            complain(
                "the input has ended, so nothing more was decided; --accept and --reject decide without asking"
            )
            return None
    return _ANSWERS[typed]


_ANSWERS = {"a": "accepted", "r": "rejected", "l": "", "q": "quit"}
