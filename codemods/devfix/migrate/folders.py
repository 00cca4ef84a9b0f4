"""Where things are in the folder of a campaign; the only module of `migrate` that opens files."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from devfix.migrate.model import Artefact, MigrateError

DATABASE = "campaign.db"
NEW_DATABASE = f"{DATABASE}.new"  # while it is made
_MARK = b"*\n"
_DATABASES = (NEW_DATABASE, f"{NEW_DATABASE}-wal", f"{NEW_DATABASE}-shm")
_UNFINISHED = {".gitignore", "lock", "results", "stores", "work", *_DATABASES}


def scratch(campaign: str, id: str) -> str:
    """Where steps work on one repository; nothing in it is worth keeping."""
    return os.path.join(campaign, "work", _plain(id))


def results(campaign: str, id: str) -> str:
    """What came of one repository."""
    return os.path.join(campaign, "results", _plain(id))


def store(campaign: str, id: str) -> str:
    """What the shards of one monorepo share."""
    return os.path.join(campaign, "stores", _plain(id))


def _plain(id: str) -> str:
    """A name that leads nowhere else: a campaign's file may be somebody else's. Raises MigrateError."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", id):
        raise MigrateError(f"{id[:99]!r} is no id of a repository; restore campaign.db from a copy")
    return id


def make_campaign(campaign: str) -> None:
    """The folder, empty or as an `init` that was killed has left it; raises MigrateError for anything else."""
    try:
        there = os.listdir(campaign) if os.path.isdir(campaign) else []
        there = [name for name in there if not re.fullmatch(r"\.gitignore\.\d+\.tmp", name)]
        if DATABASE in there:
            raise MigrateError(
                f"{campaign} is a campaign already; `devfix migrate status {campaign}` says more"
            )
        mark = os.path.join(campaign, ".gitignore")
        ours = not there or (".gitignore" in there and read(mark) == _MARK and {*there} <= _UNFINISHED)
        if not ours:
            raise MigrateError(f"{campaign} is there and not empty; name a new folder for the campaign")
        os.makedirs(campaign, exist_ok=True)
        if not there:
            write(mark, _MARK)
        os.makedirs(os.path.join(campaign, "work"), exist_ok=True)
        os.makedirs(os.path.join(campaign, "results"), exist_ok=True)
    except OSError as error:
        raise MigrateError(f"{campaign} cannot be made: {error.strerror}") from error


def clear_unfinished(campaign: str) -> None:
    """Remove what an `init` that was killed has left in a campaign, which the caller has locked."""
    if os.path.exists(os.path.join(campaign, DATABASE)):  # of another process, a moment ago
        raise MigrateError(f"{campaign} is a campaign already")
    for name in (*_DATABASES, "stores"):
        remove(os.path.join(campaign, name))


def clear_stores(campaign: str, wanted: Collection[str]) -> None:
    """Remove what shards shared and, by these paths, share no longer. A campaign may have been moved: names count."""
    names = {os.path.basename(path) for path in wanted}
    top = os.path.join(campaign, "stores")
    for name in os.listdir(top) if os.path.isdir(top) else ():
        if name not in names:
            remove(os.path.join(top, name))


@contextmanager
def locked(campaign: str) -> Iterator[None]:
    """One process at a time may change a campaign; raises MigrateError for a second one.

    The system takes the lock back however the process ends.
    """
    path = os.path.join(campaign, "lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with suppress(OSError):
                other = os.read(descriptor, 20).decode("ascii", "replace").strip()
                raise MigrateError(
                    f"process {other} is at work on {campaign}; wait for it or end it"
                ) from None
            raise MigrateError(f"another process is at work on {campaign}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def fresh(folder: str) -> None:
    """An empty folder in the place of whatever is there."""
    remove(folder)
    os.makedirs(folder)


def remove(folder: str) -> None:
    """Remove a folder, also one that a program made read-only."""
    if os.path.islink(folder) or os.path.isfile(folder):
        os.unlink(folder)
    for _ in range(3):  # something that is being killed may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        for at, _folders, _files in os.walk(folder):
            with suppress(OSError):
                os.chmod(at, stat.S_IRWXU)
    shutil.rmtree(folder)


def write(path: str, data: bytes) -> None:
    """Whole or not at all."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def moved(path: str, to: str) -> None:
    os.replace(path, to)


def dropped(path: bytes) -> None:
    os.unlink(path)


def write_new(path: bytes, data: bytes, *, executable: bool = False) -> None:
    """A file that is not there yet; a link in its place is an error. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o755 if executable else 0o644)
    with open(descriptor, "wb") as file:
        file.write(data)


def make_folders(path: bytes) -> None:
    os.makedirs(path, exist_ok=True)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def keep(campaign: str, id: str, artefacts: Sequence[Artefact]) -> None:
    """Put the files of a result in the place of those of the last one."""
    folder = results(campaign, id)
    os.makedirs(folder, exist_ok=True)
    for artefact in artefacts:
        write(os.path.join(folder, artefact.name), artefact.data)
    wanted = {artefact.name for artefact in artefacts}
    for name in os.listdir(folder):
        if name not in wanted:
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def program(name: str) -> str | None:
    """Where a program is, if it is installed."""
    return shutil.which(name)


def size(folder: str, most: int) -> int:
    """Bytes of the files below a folder; may stop once it is more than `most`."""
    total = 0
    todo = [folder]
    while todo and total <= most:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total
