"""The commands, a module each. They are loaded when they are used; what they need to work, when they work."""

from __future__ import annotations

import importlib

import click

# In the order of the help: name of the command -> module, and function in it.
_HOMES = {
    "check": ("check", "check"),
    "diff": ("diff", "diff"),
    "apply": ("apply", "apply"),
    "undo": ("undo", "undo"),
    "list": ("codemods", "list_"),
    "explain": ("codemods", "explain"),
    "recipes": ("codemods", "recipes"),
    "new": ("new", "new"),
    "explain-error": ("explain_error", "explain_error"),
    "run": ("run", "run"),
    "repair": ("repair", "repair"),
    "smoke": ("smoke", "smoke"),
    "simulate": ("simulate", "simulate"),
    "migrate": ("migrate", "migrate"),
    "lsp": ("lsp", "lsp"),
    "stats": ("stats", "stats"),
    "doctor": ("doctor", "doctor"),
}
NAMES = tuple(_HOMES)


def load(name: str) -> click.Command | None:
    """The command of that name, or None."""
    if name not in _HOMES:
        return None
    module, function = _HOMES[name]
    command = getattr(importlib.import_module(f"devfix.commands.{module}"), function)
    assert isinstance(command, click.Command)
    return command
