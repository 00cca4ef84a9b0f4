"""The state folder, and which settings are in force for a folder, each with where it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields

from devfix import config
from devfix.doctor.health import Line, Status, shown
from devfix.documents import DocumentError, read_bytes, state
from devfix.pipeline.listing import upward

_MOST = 20_000  # files of the state folder that are counted
_VARIABLES = ("DEVFIX_SIMULATE", "NO_COLOR", "VIRTUAL_ENV")
_TABLE = re.compile(r"\s*\[+([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w\"'.-]+?)\s*=")


def files(folder: str) -> Iterator[Line]:
    """The folder that devfix keeps in what it has written here, for `undo`."""
    start = folder if os.path.isdir(folder) else os.path.dirname(folder) or os.curdir
    tree = state.tree_of(start)
    try:
        kept = state.place(tree)
    except OSError as error:
        yield Line("state", "none", Status.PROBLEM, f"apply keeps no journal, and undo cannot work: {error}")
        return
    if not os.path.lexists(kept):
        above = next(filter(os.path.lexists, upward(kept)))
        good = os.access(above, os.W_OK | os.X_OK)
        advice = (
            ""
            if good
            else f"{shown(above)} cannot be written to: apply keeps no journal, and undo cannot work"
        )
        yield Line("state", f"{shown(kept)}, not made yet", Status.OK if good else Status.PROBLEM, advice)
        return
    count, size = _size(kept)
    many = "more than " if count >= _MOST else ""
    good = bool(state.existing(tree)) and os.access(kept, os.W_OK | os.X_OK)
    yield Line(
        "state",
        f"{shown(kept)}, {many}{count} file{'' if count == 1 else 's'}, {size / 1e6:.1f} MB",
        Status.OK if good else Status.PROBLEM,
        "" if good else "it is not yours alone, or cannot be written to; delete it",
    )


def _size(folder: str) -> tuple[int, int]:
    count = size = 0
    for above, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                size += os.lstat(os.path.join(above, name)).st_size
            except OSError:
                continue
            if count >= _MOST:
                return count, size
    return count, size


def in_force(folder: str) -> Iterator[Line]:
    """Every setting, its value, and the line that it comes from."""
    try:
        settings = config.load(folder)
        codemods = config.choose(settings)
    except config.ConfigError as error:
        yield Line("settings", str(error), Status.FAILURE, "devfix stops at this; correct the file")
        return
    where: dict[str, str] = {}
    mine = config.user_file()
    for file in (mine, settings.file):  # the repository's come last, and win
        if file and os.path.isfile(file):
            where.update(_places(file, whole=file == mine))
    yield Line("your own file", shown(mine) + ("" if os.path.isfile(mine) else ", not there"))
    if settings.file:
        yield Line("file", shown(settings.file))
    else:
        yield Line("file", "no pyproject.toml with [tool.devfix] at or above the path", Status.NOTE)
    for field in fields(settings):
        if field.name in ("base", "file", "options"):
            continue
        key = field.name.replace("_", "-")
        value = _value(getattr(settings, field.name))
        if key == "codemods" and not settings.codemods:
            value = "those that are on by default"
        yield Line(key, f"{value}  ({where.get(key, 'default')})")
    for option in settings.options:
        origin = where.get(f"options.{option.codemod}.{option.name}", "default")
        yield Line(f"option {option.codemod}.{option.name}", f"{_value(option.value)}  ({origin})")
    yield Line("codemods that run", ", ".join(codemod.id for codemod in codemods) or "none")
    for name in _VARIABLES:
        if name in os.environ:
            yield Line(name, f"{shown(os.environ[name])}  (environment)")


def _places(file: str, *, whole: bool) -> dict[str, str]:
    """File and line of each key below `[tool.devfix]` (or of the `whole` file); good enough to point at it."""
    try:
        text = read_bytes(file).decode("utf-8", "replace")
    except DocumentError:
        return {}
    found: dict[str, str] = {}
    above = "" if whole else "tool.devfix."
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = _TABLE.match(line)
        if head is not None:
            table = head[1].strip().replace('"', "").replace("'", "").replace(" ", "")
            continue
        key = _KEY.match(line)
        if key is not None:
            name = ".".join(filter(None, (table, key[1].strip("\"'"))))
            if name.startswith(above):
                found.setdefault(name.removeprefix(above), f"{os.path.basename(file)}:{number}")
    return found


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "none"
    return shown(str(value)) if value not in ("", 0) else ("0: one per core" if value == 0 else "not set")
