"""`devfix lsp`: the language server, over stdin and stdout."""

from __future__ import annotations

import click

from devfix.commands.helping import command, option


@command(
    examples={
        "devfix lsp": "start the server, as an editor does; see docs/editors.md",
        "devfix lsp --observed run.json": "also show on hover what a run recorded",
    },
    codes={0: "the editor has closed the server"},
)
@option(
    "--observed FILE",
    "Also show what `devfix run --keep-going --format json -o FILE` recorded; read again for each hover.",
    type=click.Path(),
    default="",
)
def lsp(observed: str) -> None:
    """Serve an editor over stdin and stdout (Language Server Protocol).

    It has diagnostics, quick fixes and fix-all; hover shows the device of the value under the cursor.
    """
    try:
        from devfix.lsp.server import make
    except ImportError as error:
        raise click.ClickException(f"{error}; pip install 'devfix[lsp]'") from error
    try:
        make(observed).start_io()
    except (ValueError, OverflowError, MemoryError) as error:
        raise click.ClickException(f"a message's header cannot be served: {error!r}") from error
