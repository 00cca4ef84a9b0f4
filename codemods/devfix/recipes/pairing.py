"""Which scripts run a recipe: those that a test table or a path in the script names, else neighbours that fit."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from functools import lru_cache

from devfix.pipeline import depends
from devfix.recipes.files import Files
from devfix.recipes.library import around
from devfix.recipes.recipe import Recipe
from devfix.recipes.script import LOADER, Script, read_script
from devfix.recipes.usage import Usage, usage

_NEAR = 40  # scripts of one folder that are looked at
_ARGUMENTS = re.compile(r"sys\.argv|parse_arguments|argparse")
_MAY_MISS = 0.15  # of what the only script beside a recipe asks for: some of it is for other recipes


def paired(recipe: Recipe, files: Files) -> tuple[Usage, ...]:
    """What each script that surely, or by all that is seen, runs the recipe does with it."""
    named = [script for path in _tabled(recipe, files) if (script := _script(files, path))]
    if named:
        return tuple(usage(script, recipe) for script in named)
    near = [script for path in _neighbours(files) if (script := _script(files, path))]
    own = os.path.basename(recipe.path)
    literal = [script for script in near if any(os.path.basename(name) == own for name in script.files)]
    if literal:
        near = literal
    else:  # one that opens a file by name opens that one, unless it takes any from the command line
        near = [script for script in near if not script.files or _ARGUMENTS.search(script.file.source.text)]
    found = tuple(usage(script, recipe) for script in near)
    fits = tuple(item for item in found if not item.missing)
    if len(found) == 1:
        return found if found[0].missing <= _MAY_MISS else ()
    best = max((item.fit for item in fits), default=0)
    return tuple(item for item in fits if item.fit == best)


def siblings(script: Script, recipe: Recipe, files: Files) -> Iterator[Recipe]:
    """The other recipes that the script may run: YAML files beside it and beside the recipe that fit it."""
    from devfix.documents.yaml import YamlError
    from devfix.recipes.recipe import may_be_recipe

    folder = os.path.dirname(os.path.abspath(script.path))
    own = os.path.realpath(recipe.path)
    depends.note_listing(folder)
    try:
        below = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        below = []
    for place in dict.fromkeys([folder, files.folder, *sorted(below)]):
        for name in files.names(place, ".yaml", ".yml"):
            path = os.path.join(place, name)
            document = files.document(path) if os.path.realpath(path) != own else None
            if document is None or not may_be_recipe(document.text):
                continue
            try:
                other = Recipe(path, document.text)
            except YamlError:
                continue
            if not usage(script, other).missing:
                yield other


def _script(files: Files, path: str) -> Script | None:
    document = files.document(path)
    if document is None or LOADER not in document.text:
        return None
    return read_script(around(files, os.path.dirname(path)), path)


def _neighbours(files: Files) -> Iterator[str]:
    """Python files beside the recipe, and beside its folder."""
    for folder in (files.folder, os.path.dirname(files.folder)):
        for name in files.names(folder, ".py")[:_NEAR]:
            yield os.path.join(folder, name)


def _tabled(recipe: Recipe, files: Files) -> Iterator[str]:
    """The scripts that the project's own table of recipes (tests/recipes/*.csv) names for it."""
    folder = os.path.join(files.root, "tests", "recipes")
    own = os.path.relpath(os.path.abspath(recipe.path), files.root).replace(os.sep, "/")
    for name in files.names(folder, ".csv"):
        document = files.document(os.path.join(folder, name))
        if document is not None and own in document.text:
            for script in _rows(document.text).get(own, ()):
                yield os.path.join(files.root, *script.split("/"))


@lru_cache(maxsize=64)
def _rows(text: str) -> dict[str, list[str]]:
    """Recipe -> the scripts that a table has for it."""
    found: dict[str, list[str]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        cells = {(key or "").strip(): value.strip() for key, value in row.items() if isinstance(value, str)}
        if cells.get("Script_file"):
            found.setdefault(cells.get("Hparam_file", ""), []).append(cells["Script_file"])
    return found
