"""`devfix new`: the first files of a codemod of one's own."""

from __future__ import annotations

import os

import click

from devfix.commands.helping import command, option, write_into


@command(examples={"devfix new no-device-in-device": "write no_device_in_device.py and its tests"})
@click.argument("id")
@option(
    "--folder DIR",
    "The folder to write to (default: this one).",
    type=click.Path(file_okay=False),
    default=".",
)
@option("--package", "Also write a pyproject.toml, to install the codemod with pip.")
def new(id: str, folder: str, package: bool) -> None:
    """Write a first codemod of your own, with an example and tests that pass.

    ID is words with - between them, such as no-device-in-device. Nothing is overwritten.
    """
    from devfix.config import ConfigError
    from devfix.own.skeleton import files

    try:
        texts = files(id, package)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    paths = {os.path.join(folder, name): text for name, text in texts.items()}
    for path in paths:
        if os.path.lexists(path):
            raise click.ClickException(f"{path}: already exists; nothing was written")
    for path, text in paths.items():
        write_into(path, text.encode(), folder=True)
        click.echo(os.path.normpath(path))
    rule, tests = list(paths)[:2]
    click.echo(f"test it:  python -m pytest {os.path.normpath(tests)}", err=True)
    click.echo(f"run it:   devfix check --codemod {os.path.normpath(rule)} PATH...", err=True)
