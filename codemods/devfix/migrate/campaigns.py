"""A campaign from its beginning: its folder, settings and repositories; and who may change it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from devfix.documents.git import setting
from devfix.migrate import folders
from devfix.migrate.commits import check_author
from devfix.migrate.forges.places import parse_forge
from devfix.migrate.git import check_ref
from devfix.migrate.model import MigrateError, Settings, Source, kind_of
from devfix.migrate.shards import By, split
from devfix.migrate.sources import named, sources
from devfix.migrate.state import Store
from devfix.own.recipes import SUFFIXES


def init(
    campaign: str,
    names: Sequence[str],
    settings: Settings,
    by: By | None,
    most: int,
    discovered: Sequence[Source] = (),
) -> int:
    """Make a campaign; how many repositories or shards it has. Raises MigrateError."""
    check_author(settings.author)
    check_ref(settings.branch)
    for text in settings.forges:
        parse_forge(text)
    for text in settings.verify_kinds:
        kind_of(text)
    found = sources(names)
    named_already = {source.url for source in found}
    found += [source for source in discovered if source.url not in named_already]
    if not found:
        raise MigrateError("no repository is named")
    folders.make_campaign(campaign)
    settings = replace(settings, uid=os.urandom(8).hex(), shard_by=by or "")
    with folders.locked(campaign):
        folders.clear_unfinished(campaign)
        if by is not None:
            found = [shard for source in found for shard in _split(campaign, source, settings, by, most)]
        made = os.path.join(campaign, folders.NEW_DATABASE)
        with Store(made, make=True) as store:
            count = store.start(settings, named(found))
        # Last: a campaign that was killed while it was made has no database, and can be made again.
        folders.moved(made, os.path.join(campaign, folders.DATABASE))
    return count


def absolute(codemod: str) -> str:
    """A codemod or a recipe that is a file, by a path that means the same in every working directory."""
    tool, colon, rest = codemod.partition(":")
    prefix, path = (f"{tool}:", rest) if colon and tool in ("libcst", "bowler") else ("", codemod)
    is_path = ".py" in path or path.endswith(SUFFIXES) or "/" in path or os.sep in path
    return prefix + (os.path.abspath(os.path.expanduser(path)) if is_path else path)


def _split(campaign: str, source: Source, settings: Settings, by: By, most: int) -> list[Source]:
    if source.skip:
        return [source]
    ((id, _, _),) = named([source])
    return split(source, folders.store(campaign, id), settings.limits, by, most, settings.uid)


@contextmanager
def opened(campaign: str, *, change: bool = False) -> Iterator[Store]:
    """The state of a campaign; with `change` for this process alone. Raises MigrateError."""
    path = os.path.join(campaign, folders.DATABASE)
    if not os.path.exists(path):
        raise MigrateError(
            f"{campaign} is no campaign: it has no {folders.DATABASE}; `devfix migrate init` makes one"
        )
    if not change:
        with Store(path) as store:
            yield store
        return
    with folders.locked(campaign), Store(path) as store:
        yield store


def default_author() -> str:
    """The user's name and address, as git knows them."""
    name, mail = (setting(key, "--global") for key in ("user.name", "user.email"))
    return f"{name} <{mail}>" if name and mail else "devfix <devfix@localhost>"
