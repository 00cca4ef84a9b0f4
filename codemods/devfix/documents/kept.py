"""The user's cache folder: small files by name, each whole or not at all, and never more than is allowed.

It is the user's and not the repository's: what somebody else's repository brings along must not be taken for
what devfix itself found out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from devfix.documents.python import DocumentError, read_bytes
from devfix.documents.state import check, is_below

BYTES = 512_000_000  # of all files together; half of it stays where there was more
DAYS = 30  # that a file stays which nobody asks for
_DAY = 86_400
_MARK = "pruned"
_HEX = 64


class Kept:
    """The files of the cache folder. Whatever cannot be done is not done, and nobody hears of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def usable(self, apart_from: Sequence[str]) -> bool:
        """Is the folder the user's own, written by nobody else, and in none of these folders?"""
        real = os.path.realpath(self.folder)
        if any(real == other or is_below(real, other) for other in apart_from):
            return False
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            check(self.folder)
        except (OSError, ValueError):
            return False
        return True

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name[:2], name)

    def read(self, name: str) -> bytes:
        """What was written under a name, or nothing: also where it was damaged since."""
        path = self._path(name)
        try:
            data = read_bytes(path)
        except DocumentError:
            return b""
        body = data[_HEX + 1 :]
        if data[:_HEX] != _checksum(body):
            return b""
        with suppress(OSError):
            if os.stat(path).st_mtime < time.time() - _DAY:
                os.utime(path)
        return body

    def write(self, name: str, body: bytes) -> None:
        path = self._path(name)
        temporary = f"{path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
            )
            try:
                with open(descriptor, "wb") as file:
                    file.write(_checksum(body) + b"\n" + body)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise
        except FileExistsError:  # of a run that was killed, with the same number
            with suppress(OSError):
                os.unlink(temporary)
        except OSError:
            pass

    def prune(self) -> None:
        """Once a day: remove what is old, and of the rest the oldest where it is too much."""
        mark = os.path.join(self.folder, _MARK)
        now = time.time()
        try:
            if os.stat(mark).st_mtime > now - _DAY:
                return
        except OSError:
            pass
        with suppress(OSError), open(mark, "wb"):
            os.utime(mark)
        found = sorted(self._files())
        total = sum(size for _, size, _ in found)
        allowed = BYTES if total <= BYTES else BYTES // 2
        for changed, size, path in found:
            if changed < now - DAYS * _DAY or total > allowed:
                with suppress(OSError):
                    os.unlink(path)
                total -= size

    def _files(self) -> list[tuple[float, int, str]]:
        found = []
        try:
            folders = [entry.path for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
            for folder in folders:
                for entry in os.scandir(folder):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, entry.path))
        except OSError:
            pass
        return found


def _checksum(body: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(body).hexdigest().encode()
