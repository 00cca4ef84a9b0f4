"""What the shell completes beside commands and options."""

from __future__ import annotations

import click


def codemod_ids(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The ids of devfix's codemods that begin so; none of them is imported."""
    from devfix.codemod import registry

    return [id for id in registry() if id.startswith(begun)]
