"""`devfix lsp`: the language server, over stdin and stdout."""

from __future__ import annotations

import click

from devfix.commands.helping import command


@command(
    examples={
        "devfix lsp": "what an editor starts; see docs/editors.md",
        "devfix lsp --observed run.json": "hover also tells what a run has seen",
    },
    codes={0: "the editor has closed it"},
)
@click.option(
    "--observed",
    type=click.Path(),
    default="",
    metavar="FILE",
    help="What `devfix run --keep-going --format json -o FILE` has seen; read again for each hover.",
)
def lsp(observed: str) -> None:
    """Serve an editor over stdin and stdout (Language Server Protocol).

    Diagnostics, quick fixes, fix-all, and on hover where the value under the cursor lives.
    """
    try:
        from devfix.lsp.server import make
    except ImportError as error:
        raise click.ClickException(f"{error}; pip install 'devfix[lsp]'") from error
    try:
        make(observed).start_io()
    except (ValueError, OverflowError, MemoryError) as error:
        raise click.ClickException(f"a message's header cannot be served: {error!r}") from error
