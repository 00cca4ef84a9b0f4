"""The arguments that `check`, `diff` and `apply` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from devfix.commands.helping import OUTPUT, option

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RULES, _FILES, _RUN = "Codemods and settings", "Files", "Analysis"


def codemod_ids(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """For the shell: the ids of devfix's codemods that begin so; none of them is imported."""
    from devfix.codemod import registry

    return [id for id in registry() if id.startswith(begun)]


paths_argument = click.argument("paths", nargs=-1, metavar="[PATH]...", callback=lambda *it: it[2] or (".",))


def all_of(decorators: Sequence[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Several options as one, in their order."""
    return lambda command: functools.reduce(lambda made, one: one(made), reversed(decorators), command)


def files_options(group: str = "Options") -> list[Callable[[_Command], _Command]]:
    """Which files of folders are read."""
    return [
        option(
            group,
            name,
            multiple=True,
            metavar="GLOB",
            help=f"In folders, {what} files that match; repeatable.",
        )
        for name, what in (("--include", "read only"), ("--exclude", "skip"))
    ]


def jobs_option(group: str = "Options") -> Callable[[_Command], _Command]:
    """How many processes; None where nobody says."""
    return option(
        group,
        "--jobs",
        type=click.IntRange(0),
        metavar="N",
        help="Number of processes; 0: one per core (default).",
    )


def seconds_option(group: str) -> Callable[[_Command], _Command]:
    """For commands that may run another one."""
    return option(
        group,
        "--smoke-seconds",
        type=click.FloatRange(1),
        default=300.0,
        metavar="S",
        help="The time limit of that command.",
    )


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The format of the output.",
)


def arguments(command: _Command) -> _Command:
    """Give a command these arguments."""
    shared = [
        paths_argument,
        option(
            _RULES,
            "--codemod",
            "codemods",
            multiple=True,
            metavar="ID",
            shell_complete=codemod_ids,
            help="Run only this codemod; repeatable. FILE.py[:CLASS], libcst:MODULE.CLASS or bowler:FILE.py "
            "loads your own, and runs its code.",
        ),
        option(
            _RULES,
            "--exclude-codemod",
            "exclude_codemods",
            multiple=True,
            metavar="ID",
            shell_complete=codemod_ids,
            help="Do not run this codemod; repeatable.",
        ),
        option(
            _RULES,
            "--safe/--unsafe",
            "safe",
            default=None,
            help="Only safe fixes (default), or unsafe ones too.",
        ),
        option(
            _RULES,
            "--option",
            "options",
            multiple=True,
            metavar="ID.NAME=VALUE",
            help="Set an option of a codemod; repeatable.",
        ),
        option(
            _RULES,
            "--codemod-arg",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set an option of the codemod that --codemod names; repeatable.",
        ),
        option(
            _RULES,
            "--recipe",
            metavar="NAME",
            help="Run the codemods of this recipe: a name, FILE.toml or FILE.yaml.",
        ),
        option(
            _RULES, "--config", type=click.Path(), metavar="FILE", help="Read settings from this file only."
        ),
        *files_options(_FILES),
        option(
            _FILES,
            "--stdin-filename",
            default="stdin.py",
            metavar="PATH",
            help="The file name of what - reads from stdin.",
        ),
        option(
            _RUN,
            "--project-root",
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            help="The folder whose files import each other (default: the repository).",
        ),
        option(
            _RUN,
            "--project/--no-project",
            default=None,
            help="Whether to follow imports into other files (default: yes).",
        ),
        jobs_option(_RUN),
        option(
            _RUN,
            "--cache/--no-cache",
            default=None,
            help="Whether to reuse results where nothing has changed (default: yes).",
        ),
        option(
            _RUN,
            "--observed",
            type=click.Path(),
            metavar="FILE",
            help="Add the device errors that `devfix run --keep-going --format json -o FILE` recorded.",
        ),
        option(OUTPUT, "--quiet", "-q", is_flag=True, help="Print no summary."),
        option(
            OUTPUT,
            "--verbose",
            "-v",
            is_flag=True,
            help="Also print what was skipped, why, and the time taken.",
        ),
        option(
            OUTPUT,
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="When to use colours; auto: on a terminal, or as NO_COLOR, FORCE_COLOR and CLICOLOR say.",
        ),
    ]
    return all_of(shared)(command)
