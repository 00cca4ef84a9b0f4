"""`devfix list` and `devfix explain`: what codemods there are."""

from __future__ import annotations

import click


@click.command("list")
def list_() -> None:
    """List the codemods: id, on or off by default, safety, title."""
    from devfix.codemod import registry
    from devfix.explain import listing

    for line in listing(registry()):
        click.echo(line)


@click.command()
@click.argument("codemod")
def explain(codemod: str) -> None:
    """Describe a codemod: what, why, how safe, its options and examples."""
    from devfix.codemod import registry
    from devfix.config import ConfigError, find
    from devfix.explain import explanation

    try:
        kind = find(codemod, registry())
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in explanation(kind):
        click.echo(line)
