"""`devfix migrate push`: branches and pull requests, of what somebody has looked at."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import click

from devfix.commands.campaign import answer, campaign_argument
from devfix.commands.helping import command, option, under
from devfix.commands.running import complain, tell

if TYPE_CHECKING:
    from devfix.migrate.forges.places import Forges
    from devfix.migrate.model import MigrateError
    from devfix.migrate.pushing import Order, Pushed
    from devfix.migrate.state import Row, Store
    from devfix.migrate.waves import Waves

_request, _when = under("Pull requests"), under("When")
_FAILED = "push: "  # begins the reason of what could not be pushed


@command(
    examples={
        "devfix migrate push spring --accepted --dry-run": "show what would be pushed",
        "devfix migrate push spring --accepted": "push it",
        "devfix migrate push spring --accepted --waves 5,25%,100%": "push the next wave, if the last one went well",
    },
    codes={0: "done, or nothing to push now", 2: "something could not be pushed, or the waves have stopped"},
)
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@option("--accepted", "Only what was accepted in a review.")
@option("--all", "Also what nobody has reviewed, without asking.", "everything")
@option("--verified", "Of these, only what was verified by running it.")
@option("--limit N", "Push at most N repositories this time.", type=click.IntRange(1))
@_request(
    "--pull-request/--no-pull-request",
    "Whether to open pull requests, on GitHub, GitLab, Gitea and Forgejo (default: yes); needs devfix[forges].",
    default=True,
)
@_request("--draft", "Open them as drafts.")
@_request("--label NAME...", "A label; repeatable.", "labels")
@_request("--reviewer USER...", "A reviewer; repeatable.", "reviewers")
@_request("--title TEXT", "A Jinja template for the title (default: the commit's subject).", default="")
@_request("--body FILE", "A Jinja template for the text; {{ body }} is devfix's own.", type=click.File())
@_when(
    "--pause S",
    "Seconds between two changes on one server (default: 1).",
    type=click.FloatRange(0),
    default=1.0,
)
@_when(
    "--waves N",
    "Push in waves: how many repositories have been pushed after each; one wave per call.",
    metavar="N|N%,...",
)
@_when(
    "--stop-at PERCENT",
    "Push no wave if a larger share has failed checks or is closed (default: 10).",
    type=click.FloatRange(0, 100),
    default=10.0,
)
@_when("--rest MINUTES", "Minutes between two waves (default: 10).", type=click.FloatRange(0), default=10.0)
@_when("--hours H-H", "Push only at this time of day, such as 9-17.")
@option("--dry-run", "Only say what would be pushed.")
def push(
    campaign: str,
    repos: tuple[str, ...],
    accepted: bool,
    everything: bool,
    verified: bool,
    limit: int | None,
    pull_request: bool,
    draft: bool,
    labels: tuple[str, ...],
    reviewers: tuple[str, ...],
    title: str,
    body: IO[str] | None,
    pause: float,
    waves: str | None,
    stop_at: float,
    rest: float,
    hours: str | None,
    dry_run: bool,
) -> int:
    """Push the commits to branches, and open pull requests. Rejected changes are never pushed.

    Without --accepted or --all, you are asked to confirm changes that were not accepted in a review, by typing the
    number of repositories. With --waves, each call checks the pull requests of the waves before, and pushes the next
    one or says why not yet. A repository whose pull request was closed is left alone until `reopen`.
    """
    from devfix.migrate import campaigns, pushing
    from devfix.migrate.forges.places import Forges
    from devfix.migrate.forges.wording import Wording
    from devfix.migrate.git import host_of
    from devfix.migrate.model import CHANGED
    from devfix.migrate.pushing import Asking
    from devfix.migrate.waves import Waves, parse, parse_hours, within

    if accepted and everything:
        raise click.UsageError("--accepted and --all contradict each other")
    plan = Waves(parse(waves), stop_at, rest * 60) if waves else None
    open_hours = parse_hours(hours) if hours else None
    wording = Wording(title, body.read() if body is not None else "")
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
        chosen.sort(key=lambda row: row.reason.startswith(_FAILED))  # so that these do not hold up the others
        forges = Forges(store.settings(), pause)
        if plan is not None:
            sent = _wave(store, forges, plan, chosen)
            if sent is None:
                return 2
            chosen = sent
        later = len(chosen[limit:]) if limit else 0
        chosen = chosen[:limit]
        if dry_run:
            for row in chosen:
                tell(f"{row.name}: {row.commit[:12]} to {store.job(row.id).branch}")
            return 0
        orders = []
        for row in chosen:
            job = store.job(row.id)
            place = forges.place(job.source)
            asking = None
            if pull_request and place is not None:
                again = row.request == "reopened"
                asking = Asking(forges.at(place), place.path, wording, labels, reviewers, draft, again)
            server = place.base if place is not None else host_of(job.source.url)
            own = frozenset({row.pushed, *store.begun(row.id)})
            orders.append(pushing.Order(row, job, own, server, asking))
        if orders and not everything and not _confirmed(chosen):
            return 2
        failed = begun = 0

        def begin(order: Order) -> bool:
            nonlocal begun
            if open_hours is not None and not within(open_hours, time.time()):
                return False
            begun += 1
            store.change(order.row.id, "push begins", order.row.commit)
            return True

        for order, came in pushing.push_all(campaign, orders, pause, begin):
            failed += not _recorded(store, order.row, came)
        if begun < len(orders):
            complain(
                f"it is not the time ({hours}): {len(orders) - begun} not pushed; run the same command again then"
            )
        if later:
            complain(f"{later} more to push; run the same command again")
    return 2 if failed else 0


def _kept_back(row: Row, accepted: bool, verified: bool) -> str:
    """Why a repository is none of those that are asked for; empty if it is."""
    from devfix.migrate.model import CHANGED

    if row.state not in CHANGED:
        return row.state
    if row.decision == "rejected":
        return "rejected"
    if row.request == "closed":
        return "left alone, since its pull request was closed"
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
    undecided = any(not row.decision for row in rows)
    hint = f"; `devfix migrate review {campaign}` shows and asks" if accepted and undecided else ""
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
    complain(f"nothing was pushed: {what}; --accepted pushes what was accepted, --all everything")
    return False


def _wave(store: Store, forges: Forges, plan: Waves, chosen: list[Row]) -> list[Row] | None:
    """What of `chosen` goes now: what is out already is brought up to date, and the next wave. None: stopped."""
    from devfix.migrate.requesting import refresh
    from devfix.migrate.waves import next_wave

    for told in refresh(store, forges):
        if told.error:
            complain(f"{told.name}: {told.error}")
    out = [row for row in store.rows() if row.pushed or row.pull_request]
    there = {row.id for row in out}
    # One may have been closed a moment ago.
    updates = [row for row in chosen if row.id in there and store.row(row.id).request != "closed"]
    new = [row for row in chosen if row.id not in there]
    wave = next_wave(plan, out, len(new), store.last_push(), time.time())
    complain(wave.said)
    return None if wave.stopped else [*updates, *new[: wave.count]]


def _recorded(store: Store, row: Row, came: Pushed | MigrateError) -> bool:
    """Write down what came of a push; was it one?"""
    from devfix.migrate import pushing

    if not isinstance(came, pushing.Pushed):
        values: dict[str, object] = {"reason": f"{_FAILED}{came}"}
        if isinstance(came, pushing.Moved):
            values = {"reason": str(came), "state": "superseded"}
        elif isinstance(came, pushing.NoRequest):
            values["pushed"] = row.commit
        store.change(row.id, "push", str(came), **values)
        complain(f"{row.name}: {came}")
        return False
    request = came.request
    values = {"state": "pushed", "pushed": row.commit, "reason": ""}
    if request is not None:
        values |= {"pull_request": request.url, "request": request.state, "checks": "", "conflicts": 0}
        if request.state == "closed":
            why = "its pull request was closed, so it is left alone; `devfix migrate reopen` changes that"
            store.change(row.id, "push", why, pull_request=request.url, request="closed", reason=why)
            complain(f"{row.name}: {why}")
            return True
    detail = " ".join(part for part in (came.branch, request.url if request else "") if part)
    store.change(row.id, "push", detail, **values)
    tell(f"{row.name}: {detail}")
    return True
