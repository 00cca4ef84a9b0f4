"""A monorepo in parts: shards of at most so many files, by folder or by owner."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from devfix.migrate import folders, trees
from devfix.migrate.git import Git
from devfix.migrate.model import Limits, MigrateError, Source
from devfix.migrate.steps import close_tree, commit_of, made_tree, working_in
from devfix.text.globs import Globs

By = Literal["folder", "codeowners"]
_OWNERS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")

_TOP = "/repository"  # patterns and paths are compared by their words


@dataclass(frozen=True)
class Shard:
    name: str
    files: tuple[str, ...]


def split(source: Source, store: str, limits: Limits, by: By, most: int, mark: str) -> list[Source]:
    """Fetch a monorepo into `store`, and give a source for each of its shards."""
    part, paths, rules = _fetched(source, store, limits, by, mark)
    found = by_owner(paths, most, rules) if by == "codeowners" else by_folder(paths, most)
    return [replace(part, shard=shard.name, files=shard.files) for shard in found]


def split_again(before: Sequence[Source], store: str, limits: Limits, by: By, mark: str) -> list[Source]:
    """Fetch a monorepo once more, into another store: the shards as they were, with the files that it has now."""
    part, paths, rules = _fetched(replace(before[0], shard="", files=()), store, limits, by, mark)
    found = regrouped(paths, [Shard(source.shard, source.files) for source in before], rules)
    return [replace(part, shard=shard.name, files=shard.files) for shard in found]


def regrouped(paths: Sequence[str], before: Sequence[Shard], rules: Sequence[tuple[str, str]]) -> list[Shard]:
    """A file stays where it was, unless it has other owners; a new one joins the neighbour with the same owners."""
    compiled = _compiled(rules)
    home = {path: shard.name for shard in before for path in shard.files}
    owners = {path: _owners(f"{_TOP}/{path}", compiled) or "nobody" for path in paths} if rules else {}
    of: dict[str, str] = {}  # the owners of a shard: those of its first file
    for path in paths:
        if path in home:
            of.setdefault(home[path], owners.get(path, ""))
    last: dict[str, str] = {}  # by owners
    for name, who in of.items():
        last.setdefault(who, name)
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        who = owners.get(path, "")
        name = home.get(path, "")
        if not name or of[name] != who:
            name = last.get(who) or who or "all"
        last[who] = name
        found.setdefault(name, []).append(path)
    return [Shard(name, tuple(members)) for name, members in found.items()]


def _fetched(
    source: Source, store: str, limits: Limits, by: By, mark: str
) -> tuple[Source, tuple[str, ...], list[tuple[str, str]]]:
    """What all shards have in common, the files to share out, and the rules of CODEOWNERS where they count."""
    from devfix.pipeline.discover import discover

    folders.fresh(store)
    git = Git(store, limits, mark)
    remote = git.remote(source.url, source.ref)
    if remote is None:
        raise MigrateError(f"{source.url} has no commits")
    git.make(remote.commit)
    git.fetch(source.url, remote.name)
    commit, _ = commit_of(git)
    entries = trees.listed(git, commit, limits).entries
    tree = os.path.join(store, "tree")
    made_tree(tree)
    trees.export(git, trees.for_analysis(git, entries), tree, limits)
    close_tree(tree)
    with working_in(tree):
        paths = discover([source.subfolder or "."]).files
        rules = _rules() if by == "codeowners" else []
    part = replace(source, store=os.path.realpath(store), base=commit, ref=source.ref or remote.branch)
    return part, tuple(paths), rules


def by_folder(paths: Sequence[str], most: int, name: str = "") -> list[Shard]:
    """Whole folders where they fit, neighbours together; every path is in one shard."""
    if len(paths) <= most:
        return [Shard(name or "all", tuple(paths))] if paths else []
    return list(_packed(sorted(paths), most, name, 0))


def _packed(paths: Sequence[str], most: int, name: str, depth: int) -> Iterator[Shard]:
    groups: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        # A file of this very folder stands for itself.
        groups.setdefault(parts[depth] + ("/" if depth < len(parts) - 1 else ""), []).append(path)
    pack: list[str] = []
    first = last = ""
    for group, members in groups.items():
        if pack and len(pack) + len(members) > most:
            yield Shard(_name(name, first, last), tuple(pack))
            pack = []
        if len(members) > most:
            yield from _packed(members, most, f"{name}{group}", depth + 1)
            continue
        first = group if not pack else first
        last = group
        pack += members
    if pack:
        yield Shard(_name(name, first, last), tuple(pack))


def _name(folder: str, first: str, last: str) -> str:
    return f"{folder}{first}" if first == last else f"{folder}{first}..{last}"


def by_owner(paths: Sequence[str], most: int, rules: Sequence[tuple[str, str]]) -> list[Shard]:
    """The files of each set of owners, in shards by folder; the last rule that matches a path counts."""
    compiled = _compiled(rules)
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_owners(f"{_TOP}/{path}", compiled) or "nobody", []).append(path)
    return [
        replace(shard, name=owners if shard.name == "all" else f"{owners} {shard.name}")
        for owners, members in sorted(groups.items())
        for shard in by_folder(members, most)
    ]


def _compiled(rules: Sequence[tuple[str, str]]) -> list[tuple[Globs, bool, str]]:
    return [(Globs(_TOP, (pattern,)), pattern.endswith("/*"), owners) for pattern, owners in rules]


def _owners(path: str, rules: Sequence[tuple[Globs, bool, str]]) -> str:
    for globs, direct, owners in reversed(rules):
        if globs.decide(path, False) if direct else globs.below(path):
            return owners
    return ""


def _rules() -> list[tuple[str, str]]:
    """(pattern, owners) of the CODEOWNERS file of the working directory; raises MigrateError."""
    for name in _OWNERS:
        if os.path.isfile(name):
            lines = folders.read(name).decode("utf-8", "replace").splitlines()
            words = [line.partition("#")[0].split() for line in lines]
            return [(line[0], " ".join(line[1:])) for line in words if line]
    raise MigrateError(f"the repository has no {' or '.join(_OWNERS)}; use --shard-by folder")
