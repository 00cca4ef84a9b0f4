"""The files of a commit: listed within limits, and written into a folder without a checkout."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from devfix.documents import SUFFIXES
from devfix.migrate import folders
from devfix.migrate.children import TooMuch
from devfix.migrate.git import Git
from devfix.migrate.model import Limits
from devfix.review.text import printable

_AT_ONCE = 32 << 20  # bytes of blobs that are in memory
_NOTES = 20
_WANTED = (".gitignore", "pyproject.toml", "setup.py", "setup.cfg", "pyvenv.cfg", "CODEOWNERS", *SUFFIXES)
_LONGEST = 4096  # bytes of where a link leads to, as on Linux
_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Entry:
    """One line of a tree. `size` is 0 for what is no blob."""

    mode: str
    id: str
    size: int
    path: bytes

    @property
    def regular(self) -> bool:
        return self.mode in ("100644", "100755", "100664")

    @property
    def link(self) -> bool:
        return self.mode == "120000"

    @property
    def shown(self) -> str:
        return printable(os.fsdecode(self.path))


@dataclass(frozen=True)
class Listing:
    entries: tuple[Entry, ...]
    size: int


def listed(git: Git, commit: str, limits: Limits) -> Listing:
    """Every entry of a commit; raises TooMuch for a tree that is beyond the limits."""
    try:
        out = git("ls-tree", "-r", "-l", "-z", "--full-tree", commit, most=limits.files * 400)
    except TooMuch:
        raise TooMuch(f"has more than {limits.files} files; --max-files sets the limit") from None
    entries = tuple(_parsed(out))
    if len(entries) > limits.files:
        raise TooMuch(f"has {len(entries)} files, more than {limits.files}; --max-files sets the limit")
    return Listing(entries, sum(entry.size for entry in entries))


def entries_of(git: Git, commit: str, paths: Sequence[bytes]) -> dict[bytes, Entry]:
    """The entries of some paths, by path."""
    found: dict[bytes, Entry] = {}
    for at in range(0, len(paths), 500):
        out = git("ls-tree", "-l", "-z", "--full-tree", commit, "--", *paths[at : at + 500])
        found.update((entry.path, entry) for entry in _parsed(out))
    return found


def _parsed(out: bytes) -> Iterator[Entry]:
    for line in out.split(b"\0")[:-1]:
        about, _, path = line.partition(b"\t")
        mode, _, id, length = about.decode("ascii").split()
        yield Entry(mode, id, int(length) if length.isdigit() else 0, path)


def analysable(path: bytes) -> bool:
    """Is it a file that the analysis reads?"""
    name = os.fsdecode(path)
    return name.endswith(_WANTED) or name.startswith("tests/recipes/")


def for_analysis(git: Git, entries: Sequence[Entry]) -> list[Entry]:
    """What the analysis may look at: files, folders of submodules, links, and the files that those lead to."""
    found = [entry for entry in entries if entry.link or entry.mode == "160000" or analysable(entry.path)]
    links = [entry for entry in found if entry.link and analysable(entry.path) and entry.size <= _LONGEST]
    targets = set(map(_inside, links, _contents(git, links))) if links else set()
    return [*found, *(one for one in entries if one.path in targets and not analysable(one.path))]


def _contents(git: Git, entries: Sequence[Entry]) -> list[bytes]:
    return git.blobs([one.id for one in entries], [one.size for one in entries])


def _inside(link: Entry, target: bytes) -> bytes:
    """What a link leads to, by its words alone, from the top of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(link.path), target))


def refusal(path: bytes) -> str:
    """Why a path may not be written below a folder; empty if it may."""
    parts = path.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        return "has a path that leaves its folder"
    for part in parts:
        plain = part.lower().rstrip(b". ").partition(b":")[0]
        if plain in (b".git", b"git~1") or (b"\\" in part and b".git" in plain):
            return "has a path into .git"
        if len(part) > 255:
            return "has too long a name"
    return "has too long a path" if len(path) > 3000 else ""


@dataclass(frozen=True)
class Export:
    """What was written, and notes on what was not."""

    files: int
    notes: tuple[str, ...]


def export(
    git: Git,
    entries: Iterable[Entry],
    folder: str,
    limits: Limits,
    *,
    whole: bool = False,
    instead: Mapping[bytes, bytes] | None = None,
) -> Export:
    """Write files below an empty folder as they are in git: no filter, no line endings.

    Of symbolic links those that stay inside, and of a submodule its folder. With `whole`, a copy to run programs in:
    large files and pointers of LFS, too, and links that lead to nothing. `instead` has other contents for some
    files, and contents of files that are not in git.
    """
    instead = dict(instead or {})
    top = os.fsencode(folder)
    notes: list[str] = []
    wanted: list[Entry] = []
    linked: list[Entry] = []
    for entry in entries:
        if why := refusal(entry.path):
            notes.append(f"{entry.shown}: {why}; left out")
        elif entry.link and entry.size > _LONGEST:
            notes.append(f"{entry.shown}: is too long a link; left out")
        elif entry.link:
            linked.append(entry)
        elif entry.mode == "160000":
            _empty_folder(top, entry, notes)
        elif not entry.regular:
            continue
        elif entry.size > limits.file_size and not whole:
            notes.append(f"{entry.shown}: has more than {limits.file_size >> 20} MiB; not analysed")
        else:
            wanted.append(entry)
    made: set[bytes] = set()
    count = 0
    for batch in _batches(wanted):
        for entry, data in zip(batch, _contents(git, batch), strict=True):
            if data.startswith(_POINTER) and not whole:
                notes.append(f"{entry.shown}: is a pointer of Git LFS; not analysed")
                continue
            count += _write(top, entry, instead.pop(entry.path, data), made, notes)
    for path, data in instead.items():
        count += _write(top, Entry("100644", "", len(data), path), data, made, notes)
    _link(git, linked, top, notes, dangling=whole)
    if len(notes) > _NOTES:
        notes[_NOTES:] = [f"and {len(notes) - _NOTES} more"]
    return Export(count, tuple(notes))


def _empty_folder(top: bytes, entry: Entry, notes: list[str]) -> None:
    """A submodule that is not fetched, as git leaves it."""
    try:
        folders.make_folders(os.path.join(top, entry.path))
    except OSError as error:
        notes.append(f"{entry.shown}: cannot be made: {error.strerror}; left out")


def _batches(entries: Sequence[Entry]) -> Iterable[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size > _AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def _write(top: bytes, entry: Entry, data: bytes, made: set[bytes], notes: list[str]) -> int:
    path = os.path.join(top, entry.path)
    try:
        parent = os.path.dirname(path)
        if parent not in made:
            folders.make_folders(parent)
            made.add(parent)
        folders.write_new(path, data, executable=entry.mode == "100755")
    except OSError as error:
        notes.append(f"{entry.shown}: cannot be written: {error.strerror}; left out")
        return 0
    return 1


def _link(git: Git, linked: Sequence[Entry], top: bytes, notes: list[str], *, dangling: bool) -> None:
    """Links are made last, so nothing is written through one."""
    made_links: list[tuple[bytes, str]] = []
    root = os.path.realpath(top)
    for entry, target in zip(linked, _contents(git, linked) if linked else (), strict=True):
        inside = _inside(entry, target)
        if target.startswith(b"/") or inside.startswith(b"..") or b"\0" in target or refusal(inside):
            notes.append(f"{entry.shown}: is a link out of the repository; left out")
            continue
        path = os.path.join(root, entry.path)
        parent = os.path.dirname(path)
        if os.path.realpath(parent) != parent:  # a tree may have a link and a folder of the same name
            notes.append(f"{entry.shown}: is behind a link; left out")
            continue
        try:
            folders.make_folders(parent)
            os.symlink(target, path)
        except OSError as error:
            notes.append(f"{entry.shown}: cannot be linked: {error.strerror}; left out")
            continue
        made_links.append((path, entry.shown))
    while out := [one for one in made_links if not os.path.realpath(one[0]).startswith(root + b"/")]:
        # Each link is inside by its words alone, but a link to a link may go up elsewhere.
        for path, name in out:
            made_links.remove((path, name))
            folders.dropped(path)
            notes.append(f"{name}: is a link out of the repository; left out")
    if not dangling:
        for path, _ in made_links:
            if not os.path.exists(path):
                folders.dropped(path)
