"""The arguments that `check`, `diff` and `apply` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from devfix.commands.helping import option, output, under

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Declare = Callable[..., Callable[[Any], Any]]
_rules, _files, _run = map(under, ("Codemods and settings", "Files", "Analysis"))


def codemod_ids(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """For the shell: the ids of devfix's codemods that begin so; none of them is imported."""
    from devfix.codemod import registry

    return [id for id in registry() if id.startswith(begun)]


paths_argument = click.argument("paths", nargs=-1, metavar="[PATH]...", callback=lambda *it: it[2] or (".",))


def all_of(decorators: Sequence[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Several options as one, in their order."""
    return lambda command: functools.reduce(lambda made, one: one(made), reversed(decorators), command)


def files_options(declare: _Declare = option) -> list[Callable[[_Command], _Command]]:
    """Which files of folders are read."""
    return [
        declare(f"{name} GLOB...", f"In folders, {what} files that match; repeatable.")
        for name, what in (("--include", "read only"), ("--exclude", "skip"))
    ]


def jobs_option(declare: _Declare = option) -> Callable[[_Command], _Command]:
    """How many processes; None where nobody says."""
    return declare("--jobs N", "Number of processes; 0: one per core (default).", type=click.IntRange(0))


def seconds_option(declare: _Declare) -> Callable[[_Command], _Command]:
    """For commands that may run another one."""
    return declare(
        "--smoke-seconds S", "The time limit of that command.", type=click.FloatRange(1), default=300.0
    )


format_option = option(
    "--format", "The format of the output.", "form", type=click.Choice(["text", "json"]), default="text"
)


def arguments(command: _Command) -> _Command:
    """Give a command these arguments."""
    shared = [
        paths_argument,
        _rules(
            "--codemod ID...",
            "Run only this codemod; repeatable. FILE.py[:CLASS], libcst:MODULE.CLASS or bowler:FILE.py "
            "loads your own, and runs its code.",
            "codemods",
            shell_complete=codemod_ids,
        ),
        _rules(
            "--exclude-codemod ID...",
            "Do not run this codemod; repeatable.",
            "exclude_codemods",
            shell_complete=codemod_ids,
        ),
        _rules("--safe/--unsafe", "Only safe fixes (default), or unsafe ones too.", "safe", default=None),
        _rules("--option ID.NAME=VALUE...", "Set an option of a codemod; repeatable.", "options"),
        _rules(
            "--codemod-arg NAME=VALUE...",
            "Set an option of the codemod that --codemod names; repeatable.",
            "arguments",
        ),
        _rules("--recipe NAME", "Run the codemods of this recipe: a name, FILE.toml or FILE.yaml."),
        _rules("--config FILE", "Read settings from this file only.", type=click.Path()),
        *files_options(_files),
        _files("--stdin-filename PATH", "The file name of what - reads from stdin.", default="stdin.py"),
        _run(
            "--project-root DIR",
            "The folder whose files import each other (default: the repository).",
            type=click.Path(exists=True, file_okay=False),
        ),
        _run(
            "--project/--no-project",
            "Whether to follow imports into other files (default: yes).",
            default=None,
        ),
        jobs_option(_run),
        _run(
            "--cache/--no-cache",
            "Whether to reuse results where nothing has changed (default: yes).",
            default=None,
        ),
        _run(
            "--observed FILE",
            "Add the device errors that `devfix run --keep-going --format json -o FILE` recorded.",
            type=click.Path(),
        ),
        output("--quiet -q", "Print no summary."),
        output("--verbose -v", "Also print what was skipped, why, and the time taken."),
        output(
            "--color",
            "When to use colours; auto: on a terminal, or as NO_COLOR, FORCE_COLOR and CLICOLOR say.",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
        ),
    ]
    return all_of(shared)(command)
