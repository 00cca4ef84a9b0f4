"""The one writer: files are replaced whole or not at all, and several of them together."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from devfix.documents.python import DocumentError, digest_of, read_bytes, reason

_CHANGED = "changed since it was read; nothing was written, run devfix again"


def replace_file(path: str, digest: str, data: bytes) -> None:
    """`replace_files` of one file."""
    replace_files([(path, digest, data)])


def write_new(path: str, data: bytes, *, folder: bool = False) -> None:
    """Write a file that a user named, whole or not at all, whatever was there; with `folder` its folder, too.

    What is no file, such as /dev/stdout or a pipe, is written to. Raises DocumentError.
    """
    with _naming(path):
        if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
            with open(path, "wb") as stream:
                stream.write(data)
            return
        target = os.path.realpath(path)
        if folder:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(target):
            raise DocumentError("write", "is a folder; name a file")
        temporary = _write_beside(target, data)
        os.replace(temporary, target)


def replace_files(files: Sequence[tuple[str, str, bytes]]) -> None:
    """Put new bytes in the place of files: (path, SHA-256 of what is there now, new bytes).

    All of them are written beside their files first; if one of them cannot take its place then,
    those before it are put back. An empty digest says that the file does not exist yet.

    Raises DocumentError (with `path`) if a file's bytes no longer have their digest, or one cannot be
    written. A symbolic link stays and its target is replaced. The mode is kept, the owner and the
    extended attributes where the system allows it. Of a file with several hard links only this
    name gets the new text: the others keep the old one, since replacing a file makes a new one.
    """
    staged: list[_Staged] = []
    try:
        for path, digest, data in files:
            with _naming(path):
                staged.append(_staged(path, digest, data))
        for one in staged:
            with _naming(one.path):
                one.check()
        _put(staged)
    finally:
        for one in staged:
            with suppress(OSError):
                os.unlink(one.temporary)
    for folder in {os.path.dirname(one.target) for one in staged}:
        _sync_folder(folder)


def _put(staged: Sequence[_Staged]) -> None:
    done: list[_Staged] = []
    try:
        for one in staged:
            with _naming(one.path):
                one.put()
            done.append(one)
    except BaseException:
        for one in reversed(done):
            one.put_back()
        raise


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """DocumentErrors from here on say which file they are about; other errors become such ones."""
    try:
        yield
    except DocumentError as error:
        error.path = path
        raise
    except OSError as error:
        found = DocumentError("write", f"cannot be written: {reason(error)}")
        found.path = path
        raise found from error


@dataclass(frozen=True)
class _Staged:
    """New bytes that wait beside their file."""

    path: str
    target: str
    temporary: str
    digest: str
    before: bytes

    def check(self) -> None:
        if not self.digest:
            if os.path.lexists(self.target):
                raise DocumentError("write", "is there already; nothing was written, run devfix again")
        elif digest_of(read_bytes(self.target, "write")) != self.digest:
            raise DocumentError("write", _CHANGED)

    def put(self) -> None:
        if self.digest:
            os.replace(self.temporary, self.target)
        else:
            os.rename(self.temporary, self.target)

    def put_back(self) -> None:
        """Undo `put`, as far as the system lets us."""
        with suppress(OSError, DocumentError):
            if not self.digest:
                os.unlink(self.target)
                return
            temporary = _write_beside(self.target, self.before)
            os.replace(temporary, self.target)


def _staged(path: str, digest: str, data: bytes) -> _Staged:
    target = os.path.realpath(path)
    if not digest:
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(target), exist_ok=True)
        return _Staged(path, target, _write_beside(target, data), "", b"")
    before = read_bytes(target, "write")
    if digest_of(before) != digest:
        raise DocumentError("write", _CHANGED)
    if not os.access(target, os.W_OK):
        raise DocumentError("write", "is read-only; make it writable and run devfix again")
    return _Staged(path, target, _write_beside(target, data), digest, before)


def _write_beside(target: str, data: bytes) -> str:
    """A temporary file with `data` and the metadata of `target`; its name."""
    folder, name = os.path.split(target)
    try:
        import tempfile

        descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:40]}.", suffix=".devfix", dir=folder)
    except OSError as error:
        raise DocumentError(
            "write", f"cannot create a file beside it ({reason(error)}); make its folder writable"
        ) from error
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
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _copy_metadata(source: str, target: str) -> None:
    """Mode always; owner and extended attributes as far as the system lets us."""
    status = os.stat(source)
    made = os.stat(target)
    if hasattr(os, "chown") and (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        with suppress(OSError):
            os.chown(target, status.st_uid, status.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(target, name, os.getxattr(source, name))
    os.chmod(target, stat.S_IMODE(status.st_mode))  # last: chown clears setuid bits


def _sync_folder(folder: str) -> None:
    """Make the new name survive a power cut, on systems where a folder can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
