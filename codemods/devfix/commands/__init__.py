"""Commands that are loaded only when they are used, or listed in the help; each a module of its own."""

from __future__ import annotations

import click

NAMES = ("explain-error", "run", "smoke", "undo")


def load(name: str) -> click.Command | None:
    """The command of that name; what it needs to work is loaded when it works."""
    if name == "explain-error":
        from devfix.commands.explain_error import explain_error

        return explain_error
    if name == "run":
        from devfix.commands.run import run

        return run
    if name == "smoke":
        from devfix.commands.smoke import smoke

        return smoke
    if name == "undo":
        from devfix.commands.undo import undo

        return undo
    return None
