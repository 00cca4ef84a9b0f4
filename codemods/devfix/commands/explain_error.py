"""`devfix explain-error`: from a pasted traceback to the likely cause."""

from __future__ import annotations

import click

from devfix.commands.helping import color_of, command, option, read_in


@command(
    "explain-error",
    examples={
        "devfix explain-error error.txt": "explain a traceback in a file",
        "python train.py 2>&1 | devfix explain-error -": "explain the error of a run",
    },
    codes={0: "a device error was explained, even if no cause was found", 2: "no device error in the text"},
)
@click.argument("file", metavar="FILE|-")
@option(
    "--project PATH...",
    "The folder of the program's files; repeatable (default: the working directory).",
    "roots",
    type=click.Path(exists=True),
)
@option("--color", "When to use colours.", type=click.Choice(["auto", "always", "never"]), default="auto")
def explain_error(file: str, roots: tuple[str, ...], color: str) -> int:
    """Find the cause of a device error, and its fix, from a pasted traceback.

    FILE contains the traceback; - reads it from stdin. The frames are looked up in the files below the working
    directory, even if the traceback is from another machine. Nothing is run or written.
    """
    from devfix.codemod import registry
    from devfix.documents import DocumentError, read_bytes
    from devfix.errors.causes import explain
    from devfix.pipeline.discover import discover
    from devfix.review.explanation import lines

    try:
        data = read_in() if file == "-" else read_bytes(file)
    except DocumentError as error:
        raise click.ClickException(f"{file}: {error}") from error
    codemods = [kind() for kind in registry().values()]
    explanation = explain(data.decode("utf-8", "replace"), discover(roots or (".",)).files, codemods)
    if explanation.kind is None:
        raise click.ClickException(
            "no device error in this text; paste the whole traceback, with the error's own line at its end"
        )
    for line in lines(explanation):
        click.echo(line, color=color_of(color))
    return 0
