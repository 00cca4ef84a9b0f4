"""`devfix migrate push`: branches and pull requests, of what somebody has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import TYPE_CHECKING

import click

from devfix.commands.campaign import answer, campaign_argument
from devfix.commands.helping import command
from devfix.commands.running import complain

if TYPE_CHECKING:
    from devfix.migrate.state import Row, Store


@command(
    examples={
        "devfix migrate push spring --accepted --dry-run": "what would be pushed",
        "devfix migrate push spring --accepted": "do it",
    },
    codes={0: "done, or nothing to push", 2: "something could not be pushed"},
)
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@click.option("--accepted", is_flag=True, help="What was accepted in a review.")
@click.option("--all", "everything", is_flag=True, help="Also what nobody has reviewed, unasked.")
@click.option("--verified", is_flag=True, help="Of these, what was verified by running it.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many this time.")
@click.option(
    "--pause", type=click.FloatRange(0), default=1.0, metavar="S", help="Between two requests to servers (1)."
)
@click.option(
    "--pull-request/--no-pull-request", default=True, help="With `gh`, where it is there (default)."
)
@click.option("--draft", is_flag=True, help="Pull requests are drafts.")
@click.option("--dry-run", is_flag=True, help="Only say what would be pushed.")
def push(
    campaign: str,
    repos: tuple[str, ...],
    accepted: bool,
    everything: bool,
    verified: bool,
    limit: int | None,
    pause: float,
    pull_request: bool,
    draft: bool,
    dry_run: bool,
) -> int:
    """Push commits to a branch of their repositories; then pull requests. What was rejected never is.

    Where something was not accepted in a review, and neither --accepted nor --all is given, you are asked to
    type how many there are.
    """
    from devfix.migrate import campaigns
    from devfix.migrate.git import is_local
    from devfix.migrate.model import CHANGED
    from devfix.review.text import printable

    if accepted and everything:
        raise click.UsageError("--accepted and --all contradict each other")
    with campaigns.opened(campaign, change=True) as store:
        rows = [store.row(store.find(repo)) for repo in repos] or list(store.rows(CHANGED))
        chosen = [row for row in rows if not _kept_back(row, accepted, verified)]
        for row in rows if repos else ():
            if why := _kept_back(row, accepted, verified):
                complain(f"{row.name} is {why}; not pushed")
        if not chosen:
            if not repos:
                complain(_why_nothing(campaign, store, rows, accepted, verified))
            return 0
        later = len(chosen[limit:]) if limit else 0
        chosen = chosen[:limit]
        if dry_run:
            for row in chosen:
                click.echo(printable(f"{row.name}: {row.commit[:12]} to {store.job(row.id).branch}"))
            return 0
        if not everything and not _confirmed(chosen):
            return 2
        failed = 0
        asked = False  # has a server been?
        for row in chosen:
            away = not is_local(store.job(row.id).source.url)
            if away and asked:
                sleep(pause)
            asked = asked or away
            failed += not _pushed(campaign, store, row, pull_request, draft)
        if later:
            complain(f"{later} more to push; the same command goes on")
    return 2 if failed else 0


def _kept_back(row: Row, accepted: bool, verified: bool) -> str:
    """Why a repository is none of those that are asked for; empty if it is."""
    from devfix.migrate.model import CHANGED

    if row.state not in CHANGED:
        return row.state
    if row.decision == "rejected":
        return "rejected"
    if accepted and row.decision != "accepted":
        return f"{row.outdated} before, but changed since" if row.outdated else "not decided on"
    return "not verified" if verified and row.state != "verified" else ""


def _why_nothing(campaign: str, store: Store, rows: Sequence[Row], accepted: bool, verified: bool) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        why = _kept_back(row, accepted, verified)
        counts[why] = counts.get(why, 0) + 1
    said = [f"{count} {why}" for why, count in sorted(counts.items())]
    said += [f"{count} {state}" for state, count in store.counts().items() if state == "pushed"]
    hint = f"; `devfix migrate review {campaign}` shows and asks" if accepted and rows else ""
    return f"nothing to push: {', '.join(said) or 'no repository has a change'}{hint}"


def _confirmed(rows: Sequence[Row]) -> bool:
    """Is it right to push these? What was accepted needs no other word."""
    open_ = sum(1 for row in rows if row.decision != "accepted")
    if not open_:
        return True
    count = str(len(rows))
    typed = answer(f"{open_} of {count} to push were not accepted in a review. To push, type {count}: ")
    if typed == count:
        return True
    what = "nobody has answered" if typed is None else f"that was not {count}"
    complain(f"nothing was pushed: {what}; --accepted takes what was accepted, --all everything")
    return False


def _pushed(campaign: str, store: Store, row: Row, pull_request: bool, draft: bool) -> bool:
    """Push one, and write down what came of it."""
    from devfix.migrate import pushing
    from devfix.migrate.model import MigrateError
    from devfix.review.text import printable

    store.change(row.id, "push begins")
    try:
        pushed = pushing.push(campaign, store.job(row.id), row, pull_request=pull_request, draft=draft)
    except pushing.Moved as error:
        store.change(row.id, "push", str(error), state="superseded", reason=str(error))
        complain(f"{row.name}: {error}")
        return False
    except MigrateError as error:
        store.change(row.id, "push", str(error), reason=f"push: {error}")
        complain(f"{row.name}: {error}")
        return False
    url = pushed.pull_request
    detail = " ".join(part for part in (pushed.branch, url, pushed.note) if part)
    values = {"state": "pushed", "pushed": row.commit, "pull_request": url, "reason": pushed.note}
    store.change(row.id, "push", detail, **values)
    click.echo(printable(f"{row.name}: {detail}"))
    return True
