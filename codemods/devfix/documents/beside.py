"""Temporary files beside the files that they are to replace, and locks on folders."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from devfix.documents.python import DocumentError, reason

PATIENCE = 10.0  # seconds to wait for another devfix that writes into the same folder
_SUFFIX = ".devfix"
_TEMPORARY = re.compile(r"\.(.{1,40})\.[a-z0-9_]{8}\.devfix", re.DOTALL)


def write_beside(target: str, data: bytes) -> str:
    """A temporary file with `data` and the metadata of `target`, on disk; its name."""
    descriptor, temporary = _make(target)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if os.path.lexists(target):
                _copy_metadata(target, temporary)
            else:
                os.umask(umask := os.umask(0))
                os.chmod(temporary, 0o666 & ~umask)
            os.fsync(file.fileno())
    except BaseException:
        remove(temporary)
        raise
    return temporary


def keep_beside(target: str, data: bytes) -> str:
    """Another name beside `target` under which it can be had back; where links are not to be had, a copy."""
    descriptor, name = _make(target)
    os.close(descriptor)
    remove(name)
    try:
        os.link(target, name)
        return name
    except (OSError, AttributeError):  # the file system, or the system, has no such links
        return write_beside(target, data)


def _make(target: str) -> tuple[int, str]:
    import tempfile

    folder, name = os.path.split(target)
    try:
        return tempfile.mkstemp(prefix=f".{name[:40]}.", suffix=_SUFFIX, dir=folder)
    except OSError as error:
        raise DocumentError(
            "write", f"cannot create a file beside it ({reason(error)}); make its folder writable"
        ) from error


def remove(temporary: str) -> None:
    """Remove a temporary file, if it is there."""
    with suppress(OSError):
        os.unlink(temporary)


def sweep(targets: Iterable[str]) -> None:
    """Remove what a killed devfix has left beside these files: regular files of this user, by their names."""
    names: dict[str, set[str]] = {}
    for target in targets:
        folder, name = os.path.split(target)
        names.setdefault(folder, set()).add(name[:40])
    for folder, known in names.items():
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                match = _TEMPORARY.fullmatch(entry.name)
                if match is not None and match[1] in known and _is_ours(entry):
                    remove(entry.path)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())


def _copy_metadata(source: str, target: str) -> None:
    """Mode always; owner and extended attributes as far as the system lets us."""
    status = os.stat(source)
    made = os.stat(target)
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "chown") and (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.chown(target, status.st_uid, status.st_gid)
        except OSError:  # what ran as its owner must not run as us
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))
    os.chmod(target, mode)  # last: chown clears setuid bits


def sync_folder(folder: str) -> None:
    """Make new names survive a power cut, on systems where a folder can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def alone_in(folders: Iterable[str]) -> Iterator[None]:
    """While it lasts no other devfix writes into these folders. Raises DocumentError after `PATIENCE`.

    The locks are the system's, on the folders themselves: they leave nothing behind and end with the process.
    Where there are no such locks, nothing is locked.
    """
    held: list[int] = []
    try:
        import fcntl
    except ImportError:
        yield
        return
    end = time.monotonic() + PATIENCE
    try:
        for folder in sorted(set(folders)):  # all in one order, so that two never wait for each other
            with suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY)
                held.append(descriptor)
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > end:
                            raise DocumentError(
                                "write", "another program keeps its folder locked; run devfix again"
                            ) from None
                        time.sleep(0.02)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
