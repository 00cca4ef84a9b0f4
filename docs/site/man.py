"""Writes the manual page `docs/man/devfix.1` from the command line's own help.

python docs/site/man.py
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from devfix import __version__, commands
from devfix.cli import group
from devfix.commands.helping import HELP, Command

PAGE = Path(__file__).resolve().parent.parent / "man" / "devfix.1"


def page() -> str:
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield f'.TH DEVFIX 1 "" "devfix {__version__}" "User Commands"'
    yield from (".SH NAME", "devfix \\- find and fix device bugs in PyTorch programs")
    yield from (".SH SYNOPSIS", ".B devfix", ".I COMMAND", "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]")
    yield ".SH DESCRIPTION"
    yield from _prose(inspect.cleandoc(group.callback.__doc__ or ""))
    yield ".SH COMMANDS"
    for name in commands.NAMES:
        command = commands.load(name)
        assert command is not None
        yield from _command(f"devfix {name}", command)
    yield ".SH EXIT STATUS"
    yield from _exit_codes(group)
    yield ".SH FILES"
    yield from (
        ".TP",
        ".I pyproject.toml",
        "the nearest one at or above the first PATH; its table [tool.devfix] has the settings",
    )
    yield from (
        ".TP",
        ".I $XDG_STATE_HOME/devfix/",
        "devfix's own, where that is not set in ~/.local/state: the journals that undo reads, by tree",
    )
    yield ".SH ENVIRONMENT"
    yield from (".TP", ".B NO_COLOR", "no colours, if it is set")
    yield from (".TP", ".BR FORCE_COLOR ,\\  CLICOLOR_FORCE", "colours also in a file or pipe, if one is set")
    yield from (".TP", ".B CLICOLOR", "no colours, if it is 0")
    yield ".SH SEE ALSO"
    yield "The documentation comes with the source, in docs/; \\fBdevfix explain \\fICODEMOD\\fR describes a codemod."


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path, help_option_names=HELP)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f".SS {path}", f"\\fB{path}\\fR {_escaped(usage)}", ".PP")
    yield from _prose(inspect.cleandoc(command.help or ""))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(record[1]) or "\\&")
    if isinstance(command, Command):
        yield from (".PP", "Examples:")
        for example, meaning in command.examples.items():
            yield from (".TP", f".B {_escaped(example)}", _escaped(meaning))
        yield from (".PP", "Exit codes:", *_exit_codes(command))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _command(f"{path} {name}", inner)


def _exit_codes(command: Command) -> Iterator[str]:
    for code, meaning in command.codes.items():
        yield from (".TP", f".B {code}", _escaped(meaning))


def _prose(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.replace("\b", ""))):
        if number:
            yield ".PP"
        yield _escaped(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
