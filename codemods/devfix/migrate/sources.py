"""What `--repos` names: files with lists, folders with repositories, and URLs -> sources."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from devfix.config import suggest
from devfix.documents import DocumentError, read_bytes
from devfix.migrate.forges.places import place_of
from devfix.migrate.git import check_ref, check_url, shown
from devfix.migrate.model import MigrateError, Source

_DEPTH = 4  # folders below the one that is named
_KEYS = {
    "url": str, "ref": str, "subfolder": str, "smoke": str, "verify": str, "exclude": list, "skip": str, "forge": str,
}  # fmt: skip
_FIELDS = {"smoke": "smoke_cmd", "verify": "verify_cmd"}


def sources(names: Sequence[str]) -> list[Source]:
    """Every repository once, in the order in which they are named; raises MigrateError."""
    found: dict[tuple[str, str, str], Source] = {}
    for name in names:
        for source in _of(name):
            found.setdefault((source.url, source.ref, source.subfolder), source)
    return list(found.values())


def _of(name: str) -> Iterable[Source]:
    if os.path.isfile(name):
        return _table(name) if name.endswith(".toml") else _list(name)
    if os.path.isdir(name):
        return [Source(check_url(name))] if _repository(name) else _folder(name)
    return [Source(check_url(name))]


def _list(path: str) -> Iterator[Source]:
    """A line is a URL or a path, perhaps with a branch or tag behind it; `#` begins a comment."""
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = re.sub(r"(?:^|\s)#.*", "", line).split()
        if not words:
            continue
        try:
            if len(words) > 2:
                raise MigrateError("a line is a repository and perhaps a ref; a TOML file can say more")
            ref = check_ref(words[1]) if len(words) > 1 else ""
            yield Source(_url(words[0], path), ref)
        except MigrateError as error:
            raise MigrateError(f"{path}:{number}: {error}") from error


def _table(path: str) -> Iterator[Source]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        data = toml.loads(_text(path))
    except toml.TOMLDecodeError as error:
        raise MigrateError(f"{path}: is not valid TOML: {error}") from error
    tables = data.pop("repository", None)
    if data or not isinstance(tables, list):
        raise MigrateError(f"{path}: must have tables [[repository]] and nothing else")
    for number, table in enumerate(tables, 1):
        try:
            yield _entry(table, path)
        except MigrateError as error:
            raise MigrateError(f"{path}: repository {number}: {error}") from error


def _entry(table: dict[str, Any], path: str) -> Source:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise MigrateError(f"unknown setting {key!r}{suggest(key, _KEYS)}")
        texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not isinstance(value, _KEYS[key]) or (_KEYS[key] is list and not texts):
            raise MigrateError(f"{key} must be {'a list of texts' if _KEYS[key] is list else 'a text'}")
        values[_FIELDS.get(key, key)] = tuple(value) if texts else value
    if "url" not in values:
        raise MigrateError("has no url")
    values["url"] = _url(values["url"], path)
    check_ref(values.get("ref", ""))
    if values.get("forge"):
        place_of(values["url"], kind=values["forge"])
    if "subfolder" in values:
        values["subfolder"] = check_subfolder(values["subfolder"])
    return Source(**values)


def check_subfolder(folder: str) -> str:
    """Relative, and below the top of the repository."""
    inside = os.path.normpath(folder)
    if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir or "\0" in inside:
        raise MigrateError(f"subfolder {folder!r} is not inside the repository")
    return "" if inside == os.curdir else inside


def _url(name: str, path: str) -> str:
    """Paths in a file are relative to it."""
    beside = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(name))
    return check_url(beside if os.path.exists(beside) else name)


def _text(path: str) -> str:
    try:
        return read_bytes(path).decode("utf-8", "surrogateescape")
    except DocumentError as error:
        raise MigrateError(f"{path}: {error}") from error


# --- folders ---------------------------------------------------------------------------------


def _folder(top: str) -> list[Source]:
    """The repositories below a folder; links are not followed."""
    found: list[Source] = []
    todo = [(os.path.realpath(top), 0)]
    while todo:
        folder, depth = todo.pop()
        # `commondir` makes git take refs and objects from elsewhere.
        if depth and _repository(folder) and not os.path.lexists(os.path.join(folder, ".git", "commondir")):
            found.append(Source(folder))
            continue
        if os.path.lexists(os.path.join(folder, ".git")):
            why = "its .git is a file or a link, or has a commondir, which may lead anywhere"
            why += "; name it itself to include it"
            found.append(Source(folder, skip=why))
            continue
        if depth < _DEPTH:
            try:
                with os.scandir(folder) as entries:
                    todo += [(one.path, depth + 1) for one in entries if one.is_dir(follow_symlinks=False)]
            except OSError as error:
                raise MigrateError(f"{folder} cannot be listed: {error.strerror}") from error
    if not found:
        raise MigrateError(f"{top}: is no repository, and none is found below it")
    return sorted(found, key=lambda source: source.url)


def _repository(folder: str) -> bool:
    def plain(*names: str) -> bool:
        path = os.path.join(folder, *names)
        return os.path.isdir(path) and not os.path.islink(path)

    if plain(".git"):
        return True
    return os.path.isfile(os.path.join(folder, "HEAD")) and plain("objects") and plain("refs")


# --- names -----------------------------------------------------------------------------------


def named(found: Sequence[Source]) -> Iterator[tuple[str, str, Source]]:
    """(id, name for people, source), ids and names unique."""
    taken: set[str] = set()
    for source in found:
        key = "\0".join((source.url, source.ref, source.subfolder, source.shard))
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:10]
        plain = re.sub(r"/\.git$|\.git$", "", shown(source.url).rstrip("/"))
        parts = [part for part in re.split(r"[/:]+", plain) if part]
        name = "/".join(parts[-2:])
        extra = [part for part in (source.subfolder, source.shard) if part]
        name = " ".join([name, *extra, *([f"@{source.ref}"] if source.ref and not source.shard else [])])
        slug = (
            re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join([*parts[-1:], *extra])).strip("-")[:60] or "repository"
        )
        if name in taken:
            name = f"{name} {digest[:4]}"
        taken.add(name)
        yield f"{slug}-{digest}", name, source
