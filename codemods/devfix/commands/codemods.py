"""`devfix list` and `devfix explain`: what codemods there are."""

from __future__ import annotations

import os
import re

import click

from devfix.commands.helping import command
from devfix.commands.options import codemod_ids
from devfix.commands.running import complain, tell

# As `check` prints places, with or without the column.
_AT = re.compile(r"(.+?)(?::cell (\d+))?:(\d+)(?::\d+)?", re.DOTALL)


@command("list", examples={"devfix list": "list every codemod, your own included"})
def list_() -> int:
    """List the codemods: id, on or off by default, safety of the fixes, title."""
    from devfix import config
    from devfix.explain import listing
    from devfix.own.known import Known

    try:
        config.load(os.curdir)  # loads what the user's own settings name
        known = Known()
        known.by_default()  # what cannot be loaded is left out, and said
        shown = {id: known[id] for id in known if id not in known.broken}
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in listing(shown):
        click.echo(line)
    for why in known.broken.values():
        complain(why)
    return 2 if known.broken else 0


@command(
    examples={
        "devfix explain move-inputs": "describe that codemod, with examples",
        "devfix explain train.py:30": "say why that line has a finding, or none",
    }
)
@click.argument("codemod", shell_complete=codemod_ids, metavar="CODEMOD|FILE:LINE")
def explain(codemod: str) -> int:
    """Describe a codemod, or explain what devfix knows about a line.

    CODEMOD is what --codemod takes: an id, or code of your own, which is run. With FILE:LINE, or a place as `check`
    prints it (FILE:LINE:COLUMN, NOTEBOOK:cell N:LINE), say what the values on that line are, which device they are on
    and since when, and why the line has a finding or none; this runs no code.
    """
    at = _AT.fullmatch(codemod)
    if at is not None and os.path.isfile(at[1]):
        return _trace(at[1], int(at[3]), int(at[2] or 0))
    from devfix import config
    from devfix.explain import explanation
    from devfix.own.known import Known, named

    try:
        config.load(os.curdir)
        kinds = [config.find(id, Known()) for id in named([codemod])]
    except config.ConfigError as error:
        raise click.UsageError(str(error)) from error
    for kind in kinds:
        for text in explanation(kind):
            click.echo(text)
    return 0


def _trace(file: str, line: int, cell: int) -> int:
    from devfix.commands.tracing import traced
    from devfix.documents import DocumentError

    try:
        for text in traced(file, line, cell):
            tell(text)
    except (DocumentError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    return 0


@command(examples={"devfix recipes": "list every recipe", "devfix recipes portable": "describe one of them"})
@click.argument("name", required=False)
def recipes(name: str | None) -> None:
    """List the recipes, or describe one: codemods, options and levels.

    NAME is what --recipe takes: a name, or a .toml or .yaml file.
    """
    from devfix.config import ConfigError
    from devfix.own import recipes as known

    try:
        found = [known.recipe_of(name)] if name else list(known.every())
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in known.explanation(found[0]) if name else known.listing(found):
        click.echo(line)
