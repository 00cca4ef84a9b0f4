"""`--codemod`, `--codemod-arg` and `--recipe`: what a command line says of codemods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.config import Config, ConfigError, Option
from devfix.own.known import is_code, named
from devfix.reports.report import FileError, Report

if TYPE_CHECKING:
    from devfix.own.recipes import CodemodRecipe


def recipe_over(
    base: Config, recipe: str | None, codemods: Sequence[str]
) -> tuple[CodemodRecipe | None, Config]:
    """The recipe that was asked for, and the settings with it; raises ConfigError."""
    if recipe is None:
        return None, base
    if codemods:
        raise ConfigError("--recipe and --codemod both say what runs; give one of them")
    from devfix.own.recipes import recipe_of

    found = recipe_of(recipe)
    return found, found.over(base)


def argument_options(
    codemods: Sequence[str], arguments: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """The ids of `--codemod`, their code loaded, and what `--codemod-arg` sets up. Raises ConfigError."""
    ids = named(codemods)
    if not arguments:
        return ids, ()
    code = named([spec for spec in codemods if is_code(spec)]) or ids
    if len(code) != 1:
        many = ", ".join(code) or "none"
        raise ConfigError(
            f"--codemod-arg is for one codemod that --codemod names, and here are: {many}; "
            "--option ID.NAME=VALUE says which one is meant"
        )
    found = []
    for text in arguments:
        name, equals, value = text.partition("=")
        if not name.strip():
            raise ConfigError(f"--codemod-arg {text!r} must be NAME=VALUE")
        # A flag may stand alone.
        found.append(Option(code[0], name.strip().lstrip("-"), value if equals else "true"))
    return ids, tuple(found)


def with_broken(report: Report, broken: dict[str, str]) -> Report:
    """The report with an error for each installed codemod that could not be loaded."""
    errors = tuple(FileError(f"codemod {id}", "check", why) for id, why in broken.items())
    return replace(report, errors=(*report.errors, *errors)) if errors else report
