"""The arguments that `check`, `diff` and `apply` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from devfix.commands.completing import codemod_ids
from devfix.commands.helping import OUTPUT, option

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RULES, _FILES, _RUN = "Codemods and settings", "Files", "Analysis"

paths_argument = click.argument("paths", nargs=-1, metavar="[PATH]...", callback=lambda *it: it[2] or (".",))


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
            help="Only this one; repeatable. Also FILE.py[:CLASS], libcst:MODULE.CLASS and bowler:FILE.py, "
            "whose code is run.",
        ),
        option(
            _RULES,
            "--exclude-codemod",
            "exclude_codemods",
            multiple=True,
            metavar="ID",
            shell_complete=codemod_ids,
            help="Not this one; repeatable.",
        ),
        option(_RULES, "--safe/--unsafe", "safe", default=None, help="Safe fixes (default), or all."),
        option(
            _RULES,
            "--option",
            "options",
            multiple=True,
            metavar="ID.NAME=VALUE",
            help="Set up a codemod.",
        ),
        option(
            _RULES,
            "--codemod-arg",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set up the codemod of --codemod.",
        ),
        option(
            _RULES, "--recipe", metavar="NAME", help="The codemods of a recipe; also FILE.toml, FILE.yaml."
        ),
        option(
            _RULES, "--config", type=click.Path(), metavar="FILE", help="Read the settings from FILE only."
        ),
        option(_FILES, "--include", multiple=True, metavar="GLOB", help="In folders, only files that match."),
        option(_FILES, "--exclude", multiple=True, metavar="GLOB", help="In folders, no files that match."),
        option(
            _FILES,
            "--stdin-filename",
            default="stdin.py",
            metavar="PATH",
            help="A name for what - reads.",
        ),
        option(
            _RUN,
            "--project-root",
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            help="The folder whose files can import each other (default: the repository).",
        ),
        option(
            _RUN,
            "--project/--no-project",
            default=None,
            help="Follow imports into other files (default), or not.",
        ),
        option(
            _RUN, "--jobs", type=click.IntRange(0), metavar="N", help="Processes; 0: one per core (default)."
        ),
        option(
            _RUN,
            "--cache/--no-cache",
            default=None,
            help="Reuse the results of files that have not changed (default), or not.",
        ),
        option(
            _RUN,
            "--observed",
            type=click.Path(),
            metavar="FILE",
            help="What `devfix run --keep-going --format json -o FILE` has seen.",
        ),
        option(OUTPUT, "--quiet", "-q", is_flag=True, help="No summary."),
        option(OUTPUT, "--verbose", "-v", is_flag=True, help="Also what was skipped and why, and the time."),
        option(
            OUTPUT,
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="auto: at a terminal, unless NO_COLOR, FORCE_COLOR or CLICOLOR says otherwise.",
        ),
    ]
    for decorate in reversed(shared):
        command = decorate(command)
    return command
