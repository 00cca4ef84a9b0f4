"""What one looks at, decides on and pushes in a campaign: commands of `devfix migrate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from devfix.commands.running import complain

if TYPE_CHECKING:
    from devfix.migrate.state import Row, Store

_Command = TypeVar("_Command", bound=Callable[..., Any])


def campaign_argument(command: _Command) -> _Command:
    return click.argument("campaign", type=click.Path(file_okay=False), metavar="CAMPAIGN")(command)


def code(store: Store) -> int:
    """The exit code of a campaign: 2 if something failed, 1 if something is changed."""
    counts = store.counts()
    if counts.get("failed"):
        return 2
    return 1 if any(counts.get(state) for state in ("changed", "verified", "pushed")) else 0


# --- looking -------------------------------------------------------------------------------------


@click.command()
@campaign_argument
@click.option("--all", "everything", is_flag=True, help="A line for each repository.")
def status(campaign: str, everything: bool) -> int:
    """Show where the campaign is; also while it runs. The exit code is that of `run`."""
    from devfix.migrate import campaigns, showing

    with campaigns.opened(campaign) as store:
        lines(showing.status(store, everything=everything))
        return code(store)


@click.command()
@campaign_argument
@click.argument("repo", metavar="REPO")
@click.option("--patch", is_flag=True, help="Only the patch.")
@click.option("--log", is_flag=True, help="Only what programs printed.")
def show(campaign: str, repo: str, patch: bool, log: bool) -> int:
    """Show all that is known of one repository: state, history, files of the result."""
    from devfix.commands.running import write_out
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
    from devfix.review.text import printable

    for line in all_:
        click.echo(printable(line))


# --- deciding and pushing --------------------------------------------------------------------------


@click.command()
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@click.option("--accept", "decision", flag_value="accepted", help="Accept what is named.")
@click.option("--reject", "decision", flag_value="rejected", help="Reject it: it will not be pushed.")
def review(campaign: str, repos: tuple[str, ...], decision: str | None) -> int:
    """Show each change that has not been decided on, and ask; or decide with --accept or --reject."""
    from devfix.migrate import campaigns
    from devfix.migrate.model import CHANGED

    if decision and not repos:
        raise click.UsageError("name what to accept or reject")
    with campaigns.opened(campaign, change=True) as store:
        rows = [store.row(store.find(repo)) for repo in repos]
        rows = rows or [row for row in store.rows(CHANGED) if not row.decision]
        for row in rows:
            if row.state not in CHANGED:
                raise click.ClickException(f"{row.name} is {row.state}: there is no change to decide on")
            chosen = decision or _asked(campaign, row)
            if chosen == "quit":
                break
            if chosen in ("accepted", "rejected"):
                store.change(row.id, "review", chosen, decision=chosen)
        left = sum(1 for row in store.rows(CHANGED) if not row.decision)
        click.echo(f"{left} left to decide on", err=True)
        return 1 if left else 0


def _asked(campaign: str, row: Row) -> str:
    from devfix.review.text import coloured_patch, printable

    click.echo(click.style(printable(row.name), bold=True))
    message = _artefact(campaign, row.id, "commit.txt").decode("utf-8", "replace")
    patch = coloured_patch(_artefact(campaign, row.id, "changes.patch")).decode("utf-8", "replace")
    click.echo("\n".join(printable(line) for line in message.splitlines()) + f"\n\n{patch}")
    answer = click.prompt(
        "Accept, reject, leave for later, quit", type=click.Choice(["a", "r", "l", "q"]), err=True
    )
    return {"a": "accepted", "r": "rejected", "l": "", "q": "quit"}[answer]


@click.command()
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@click.option("--accepted", is_flag=True, help="Only what was accepted in a review.")
@click.option("--verified", is_flag=True, help="Only what was verified by running it.")
@click.option(
    "--pull-request/--no-pull-request", default=True, help="With `gh`, where it is there (default)."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be pushed.")
def push(
    campaign: str, repos: tuple[str, ...], accepted: bool, verified: bool, pull_request: bool, dry_run: bool
) -> int:
    """Push the commits that are not rejected to a branch of their repositories; then pull requests.

    Exit code: 0 nothing to push, 1 pushed, 2 something could not be.
    """
    from devfix.migrate import campaigns, pushing
    from devfix.migrate.model import CHANGED, MigrateError
    from devfix.review.text import printable

    done = failed = 0
    with campaigns.opened(campaign, change=True) as store:
        rows = [store.row(store.find(repo)) for repo in repos] or list(store.rows(CHANGED))
        for row in rows:
            wrong = row.state not in CHANGED or (verified and row.state != "verified")
            if wrong or row.decision == "rejected" or (accepted and row.decision != "accepted"):
                if repos:
                    complain(f"{row.name} is {row.decision or row.state}; not pushed")
                continue
            job = store.job(row.id)
            if dry_run:
                click.echo(printable(f"{row.name}: {row.commit[:12]} to {job.branch}"))
                done += 1
                continue
            try:
                store.change(row.id, "push begins")
                pushed = pushing.push(campaign, job, row, pull_request=pull_request)
            except pushing.Moved as error:
                store.change(row.id, "push", str(error), state="superseded", reason=str(error))
                complain(f"{row.name}: {error}")
                failed += 1
            except MigrateError as error:
                store.change(row.id, "push", str(error), reason=f"push: {error}")
                complain(f"{row.name}: {error}")
                failed += 1
            else:
                url = pushed.pull_request
                detail = " ".join(part for part in (pushed.branch, url, pushed.note) if part)
                store.change(
                    row.id,
                    "push",
                    detail,
                    state="pushed",
                    pushed=row.commit,
                    pull_request=url,
                    reason=pushed.note,
                )
                click.echo(printable(f"{row.name}: {detail}"))
                done += 1
    return 2 if failed else 1 if done else 0
