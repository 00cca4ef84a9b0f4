"""`devfix migrate`: fixes in many repositories, as a campaign that can be stopped at any moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from devfix.commands.campaign import campaign_argument, code, lines, review, show, status
from devfix.commands.campaign_push import push
from devfix.commands.campaign_report import report
from devfix.commands.campaign_requests import close, reopen
from devfix.commands.helping import SOME_FAILED, Group, option, under
from devfix.commands.options import all_of
from devfix.commands.running import complain, tell

if TYPE_CHECKING:
    from devfix.migrate.driver import Progress
    from devfix.migrate.state import Store


_discovery = under("Repositories of an organisation")
# Options that are settings of a campaign under the same name.
_AS_GIVEN = (
    "codemods", "exclude_codemods", "options", "recipe", "exclude", "verify_cmd", "verify_kinds", "smoke", "smoke_cmd",
    "page", "forges",
)  # fmt: skip
_DAY = click.DateTime(["%Y-%m-%d"])


class _Group(Group):
    """Errors of a campaign are lines for people."""

    def invoke(self, ctx: click.Context) -> Any:
        from devfix.migrate.model import MigrateError

        if os.name != "posix":
            raise click.ClickException("migrate needs Linux or macOS")
        try:
            return super().invoke(ctx)
        except MigrateError as error:
            raise click.ClickException(str(error)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which one needs them


@click.group(
    cls=_Group,
    examples={
        "devfix migrate init spring --repos repos.txt": "start with a list of repositories, one per line",
        "devfix migrate run spring": "analyse them and commit the fixes; push nothing",
        "devfix migrate review spring": "decide on each change",
        "devfix migrate push spring --accepted": "push branches and open pull requests",
    },
)
def migrate() -> None:
    """Fix many repositories: clone, analyse, commit, push.

    CAMPAIGN is a folder that holds everything about one campaign, clones of the repositories included. Only `push`
    changes a repository: it makes a branch. You can stop a run at any time; the next one goes on from there.
    """


# --- init ----------------------------------------------------------------------------------------


@migrate.command(
    examples={
        "devfix migrate init spring --repos ~/code": "take every repository in that folder",
        "devfix migrate init spring --repos repos.txt": "take those in a list, one per line",
        "devfix migrate init spring --organisation https://github.com/ORG": "take those of an organisation",
    }
)
@campaign_argument
@option("--repos FILE|DIR|URL...", "The repositories; repeatable.")
@_discovery("--organisation URL...", "All repositories that it has; repeatable.")
@_discovery("--language NAME", "Only those mostly in this language, e.g. Python.", default="")
@_discovery("--topic NAME...", "Only those with this topic; repeatable.", "topics")
@_discovery("--archived", "Archived ones too.")
@_discovery("--pushed-since DAY", "Only if pushed since, such as 2026-01-31.", "since", type=_DAY)
@_discovery(
    "--containing TEXT", "Only those whose code contains this, such as 'import torch'.", "text", default=""
)
@_discovery("--ssh", "Clone over ssh instead of https.")
@option("--forge KIND=URL...", "The kind of the server URL: github, gitlab or gitea; repeatable.", "forges")
@option("--codemod ID...", "Run only this codemod; repeatable.", "codemods")
@option("--exclude-codemod ID...", "Not this codemod; repeatable.", "exclude_codemods")
@option("--option ID.NAME=VALUE...", "Set a codemod's option; repeatable.", "options")
@option("--recipe NAME", "Run this recipe: a name, FILE.toml or FILE.yaml.", default="")
@option("--safe/--unsafe", "Only safe fixes (default), or unsafe ones too.", "safe", default=True)
@option("--exclude GLOB...", "In all repositories, skip files that match.")
@option("--branch NAME", "The branch to push (default: devfix/CAMPAIGN).")
@option("--author NAME <MAIL>", "The commits' author (default: yours, from git).")
@option("--verify-cmd CMD", "RUNS THEIR CODE: this, before and after.", default="")
@option(
    "--verify-kind GLOB=CMD...",
    "RUNS THEIR CODE: the same, if a file matches; the first match is used. Example: 'tests/*=pytest'.",
    "verify_kinds",
)
@option("--smoke", "RUNS THEIR CODE: the functions around each fix, before and after.")
@option("--smoke-cmd CMD", "RUNS THEIR CODE: this, on CUDA, real or simulated.", default="")
@option("--page", "Make a review page for each repository that changes.")
@option("--shard-by", "Split each repository into shards.", type=click.Choice(["folder", "codeowners"]))
@option("--shard-files N", "Files in a shard (default: 500).", type=click.IntRange(1), default=500)
@option("--seconds S", "Time for a step (default: 900).", type=click.FloatRange(1), default=900.0)
@option("--max-size MIB", "Largest repository (default: 2048).", type=click.IntRange(1), default=2048)
@option(
    "--max-files N", "Most files of a repository (default: 200000).", type=click.IntRange(1), default=200_000
)
@option("--max-file-size MIB", "Largest file (default: 16).", type=click.IntRange(1), default=16)
@option("--memory MIB", "Memory of a process (default: 4096).", type=click.IntRange(256), default=4096)
def init(campaign: str, repos: tuple[str, ...], **options: Any) -> int:
    """Create a campaign.

    --repos takes a repository (work tree, bare, or URL), a folder of repositories, a list with one per line, or a
    TOML file with a [[repository]] for each: url, ref, subfolder, exclude, smoke, verify, skip, forge. --verify-cmd,
    --verify-kind, --smoke and --smoke-cmd run the repositories' code as you: use them only if you trust it.
    """
    from devfix import config
    from devfix.migrate import campaigns
    from devfix.migrate.discovering import Wanted, discovered
    from devfix.migrate.model import Limits, Settings
    from devfix.migrate.showing import repositories
    from devfix.own.command_line import recipe_over
    from devfix.own.known import named
    from devfix.review.text import plural

    if not repos and not options["organisation"]:
        raise click.UsageError("name repositories: --repos, or --organisation")
    options["codemods"] = tuple(map(campaigns.absolute, options["codemods"]))
    options["recipe"] = campaigns.absolute(options["recipe"])
    try:
        codemods = named(options["codemods"])
        parsed = tuple(map(config.parse_option, options["options"]))
        chosen = config.Config(codemods, exclude_codemods=options["exclude_codemods"], options=parsed)
        config.choose(recipe_over(chosen, options["recipe"] or None, codemods)[1])
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error
    if options["smoke"] or options["smoke_cmd"]:
        from devfix.commands.smoke import need_torch

        need_torch("--smoke")
    name = os.path.basename(os.path.abspath(campaign))
    size, file_size, memory = (options[key] << 20 for key in ("max_size", "max_file_size", "memory"))
    settings = Settings(
        campaign=name,
        branch=options["branch"] or f"devfix/{name}",
        unsafe=not options["safe"],
        author=options["author"] or campaigns.default_author(),
        **{name: options[name] for name in _AS_GIVEN},
        limits=Limits(options["seconds"], size, options["max_files"], file_size, memory),
    )
    day = options["since"].strftime("%Y-%m-%d") if options["since"] else ""
    wanted = Wanted(
        options["language"], options["topics"], options["archived"], day, options["text"], options["ssh"]
    )
    found = [one for url in options["organisation"] for one in discovered(url, settings, wanted)]
    by, most = options["shard_by"], options["shard_files"]
    count = campaigns.init(campaign, repos, settings, by, most, found)
    what = plural(count, "shard") if options["shard_by"] else repositories(count)
    click.echo(f"{name}: {what}; `devfix migrate plan {campaign}` shows them, `run` begins", err=True)
    return 0


# --- work ----------------------------------------------------------------------------------------


@migrate.command(
    examples={"devfix migrate plan spring": "show what is left to do"},
    codes={0: "done", 2: "with --refresh: some repositories could not be asked"},
)
@campaign_argument
@option("--refresh", "First check whether finished repositories have new commits.")
def plan(campaign: str, refresh: bool) -> int:
    """Show what `run` will do."""
    from devfix.migrate import campaigns, showing

    with campaigns.opened(campaign, change=refresh) as store:
        failed = _refresh(campaign, store) if refresh else 0
        lines(showing.plan(store))
        return 2 if failed else 0


def _working(command: Callable[..., int]) -> Callable[..., int]:
    """The options of `run`, which are those of `resume`, too."""
    return all_of(
        [
            campaign_argument,
            option(
                "--jobs N",
                "Number of processes; 0: one per core (default). On an adaptive cluster: repositories at a time.",
                type=click.IntRange(0),
                default=0,
            ),
            option("--cluster URL|local:N", "Work on a dask cluster, tcp://HOST:PORT (devfix[cluster])."),
            option("--refresh", "Also redo finished repositories that have new commits."),
            option("--quiet -q", "Do not print a line for each repository."),
        ]
    )(command)


@migrate.command(examples={"devfix migrate run spring --jobs 8": "run on this machine"}, codes=SOME_FAILED)
@_working
def run(**options: Any) -> int:
    """Work on everything that is not done; push nothing. Stop with Ctrl-C; `run` again goes on."""
    return _run(**options)


@migrate.command(
    examples={"devfix migrate resume spring": "go on"}, codes={0: "done", 2: "some repositories failed"}
)
@_working
def resume(**options: Any) -> int:
    """Go on after a run that was stopped or killed; the same as `run`."""
    return _run(**options)


def _run(campaign: str, jobs: int, cluster: str | None, refresh: bool, quiet: bool) -> int:
    from devfix.migrate import campaigns, driver
    from devfix.migrate.local import LocalPool
    from devfix.pipeline.parallel import cores

    with campaigns.opened(campaign, change=True) as store:
        if refresh:
            _refresh(campaign, store)
        settings = store.settings()
        waiting = len(store.waiting()) + sum(
            store.counts().get(state, 0) for state in ("cloning", "analysing")
        )
        if waiting:
            pool: driver.Pool
            if cluster is not None:
                from devfix.migrate.cluster import connected

                pool = connected(cluster, campaign, settings, waiting, jobs)
            else:
                size = max(1, min(jobs or cores(), waiting))
                pool = LocalPool(campaign, settings.uid, size, settings.limits)
            try:
                driver.drive(campaign, store, pool, (lambda progress: None) if quiet else _told)
            except KeyboardInterrupt:
                complain("interrupted; what is done is kept, and `devfix migrate run` goes on from there")
                return 130
            finally:
                pool.close()
        return _summary(campaign, store)


@migrate.command(examples={"devfix migrate retry spring --failed": "redo what failed in the next `run`"})
@campaign_argument
@click.argument("repos", nargs=-1, metavar="[REPO]...")
@option("--failed", "All repositories that failed.")
def retry(campaign: str, repos: tuple[str, ...], failed: bool) -> int:
    """Let the next `run` redo repositories."""
    from devfix.migrate import campaigns

    if not repos and not failed:
        raise click.UsageError("name a REPO, or give --failed")
    with campaigns.opened(campaign, change=True) as store:
        ids = [store.find(repo) for repo in repos]
        ids += [row.id for row in store.rows(("failed",))] if failed else []
        for id in dict.fromkeys(ids):
            store.change(id, "retry", state="pending", stage="", reason="", attempt=0)
        many = len(set(ids))
        said = f"{many} to do again: devfix migrate run {campaign}" if many else "nothing has failed"
        click.echo(said, err=True)
    return 0


def _refresh(campaign: str, store: Store) -> int:
    """How many could not be asked."""
    from devfix.migrate.refreshing import refresh
    from devfix.migrate.showing import repositories

    moved = failed = 0
    for asked in refresh(campaign, store):
        moved += asked.moved
        failed += bool(asked.error)
        if asked.error:
            complain(f"{asked.name}: {asked.error}")
    click.echo(f"{repositories(moved)} with new commits since their result", err=True)
    return failed


def _told(progress: Progress) -> None:
    reason = f": {progress.reason}" if progress.reason else ""
    tell(f"[{progress.done}/{progress.total}] {progress.state:13}  {progress.job.name}{reason}")


def _summary(campaign: str, store: Store) -> int:
    counts = store.counts()
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    click.echo(f"{words or 'nothing'}; `devfix migrate status {campaign}` says more", err=True)
    return code(store)


for _command in (status, show, review, push, close, reopen, report):
    migrate.add_command(_command)
