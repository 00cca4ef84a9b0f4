"""`devfix smoke`."""

import click


@click.command()
def smoke() -> int:
    """Run the examples of codemods."""
    return 0
