"""What commands share: what `--help` shows of them (examples, options in groups, exit codes), and how they speak."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
OUTPUT = "Output"
CANNOT = "something could not be done"
DONE = {0: "done, or nothing to do", 2: CANNOT}
HELP = ["-h", "--help"]
SOME_FAILED = {0: "done", 2: "some repositories failed"}


class Option(click.Option):
    """An option that `--help` shows under the heading `group`."""

    def __init__(self, *given: Any, group: str = "Options", **named: Any) -> None:
        super().__init__(*given, **named)
        self.group = group


class Command(click.Command):
    """A command with `examples` (what to type, and what for) and `codes` (its exit codes)."""

    def __init__(
        self,
        *given: Any,
        examples: Mapping[str, str] | None = None,
        codes: Mapping[int, str] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self.context_settings.setdefault(
            "help_option_names", HELP
        )  # also where it runs without the group above
        self.examples, self.codes = dict(examples or {}), dict(DONE if codes is None else codes)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl(list(self.examples.items()), col_max=48)
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "Options"), []).append(record)
        for last in (name for name in (OUTPUT, "Options") if name in groups):
            groups[last] = groups.pop(last)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.codes.items()])


class Group(Command, click.Group):
    """A group of such commands."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):  # click's own cuts what is longer than a few words
            formatter.write_dl([(name, one.get_short_help_str(100)) for name, one in found if one])


command = functools.partial(click.command, cls=Command)


def option(declared: str, help: str, *name: str, **named: Any) -> Callable[[_Function], _Function]:
    """An option as `--help` shows it: `--jobs -j N`, or `--include GLOB...` if repeatable; without a value a flag.

    `name` is that of the parameter, where it is another one; `named` is what `click.option` takes, and a `group`.
    """
    words = declared.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(flags) :])
    if metavar:
        named = {"metavar": metavar.removesuffix("..."), "multiple": metavar.endswith("..."), **named}
    elif "type" not in named and "/" not in declared:
        named["is_flag"] = True
    return click.option(*flags, *name, cls=Option, help=help, **named)


def under(group: str) -> Callable[..., Callable[[_Function], _Function]]:
    """`option`, under a heading of its own."""
    return functools.partial(option, group=group)


output = under(OUTPUT)


def write_out(data: bytes) -> None:
    """Bytes as they are, on stdout."""
    if sys.stdout is None:
        raise click.ClickException("stdout is closed, so nothing can be written to it")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def read_in() -> bytes:
    """All of stdin."""
    if sys.stdin is None:
        raise click.ClickException("stdin is closed, so nothing can be read from it")
    return sys.stdin.buffer.read()


def write_into(path: str, data: bytes, *, folder: bool = False) -> None:
    """Write a file that the user has named, `-` for stdout; with `folder` its folder, too.

    Raises click.ClickException.
    """
    from devfix.documents import DocumentError, write_new

    if path == "-":
        write_out(data)
        return
    try:
        write_new(path, data, folder=folder)
    except DocumentError as error:
        raise click.ClickException(f"{path}: {error}") from error


def need_html(option: str = "--html") -> None:
    """Raise the error of an option if a page cannot be made."""
    from devfix.review.html import MissingLibraries, need_libraries

    try:
        need_libraries()
    except MissingLibraries as error:
        raise click.ClickException(str(error).replace("--format html", option)) from error


def color_of_environment() -> bool | None:
    """Whether to colour by NO_COLOR, FORCE_COLOR and CLICOLOR (the first that is set); None: at a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if name in os.environ and os.environ[name] != "":
            return os.environ[name] != "0"
    return False if os.environ.get("CLICOLOR") == "0" else None


def color_of(given: str) -> bool | None:
    """The same with `--color`, which comes first."""
    return {"always": True, "never": False}.get(given, color_of_environment())
