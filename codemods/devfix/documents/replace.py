"""The one writer: files are replaced whole or not at all, and several of them together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from devfix.documents.beside import alone_in, keep_beside, remove, sync_folder, write_beside
from devfix.documents.python import DocumentError, digest_of, read_bytes, reason
from devfix.documents.state import is_below, leads_out, tree_of
from devfix.pipeline.signals import held

_CHANGED = "changed since it was read; nothing was written, run devfix again"


def write_new(path: str, data: bytes, *, folder: bool = False) -> None:
    """Write a file that a user named, whole or not at all, whatever was there; with `folder` its folder, too.

    What is no file, such as /dev/stdout or a pipe, is written to; a link of this tree that leads out of it is not
    written through. Raises DocumentError.
    """
    with _naming(path):
        if is_below(os.path.abspath(path), tree_of(os.curdir)) and leads_out(path, os.curdir):
            target = os.path.realpath(path)
            raise DocumentError(
                "write", f"a link leads from it to {target}, out of the tree; name that file itself"
            )
        if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
            with open(path, "wb") as stream:
                stream.write(data)
            return
        target = os.path.realpath(path)
        if folder:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(target):
            raise DocumentError("write", "is a folder; name a file")
        temporary = write_beside(target, data)
        os.replace(temporary, target)


def replace_files(files: Sequence[tuple[str, str, bytes | None]]) -> None:
    """Put new bytes in the place of files: (path, SHA-256 of what is there now, new bytes).

    All of them are written beside their files first; if one of them cannot take its place then,
    those before it are put back. An empty digest says that the file does not exist yet, and None for new
    bytes that it is to be removed. Ctrl-C waits until all of it is done.

    Raises DocumentError (with `path`) if a file's bytes no longer have their digest, or one cannot be
    written. A symbolic link stays and its target is replaced. The mode is kept, the owner and the
    extended attributes where the system allows it. Of a file with several hard links only this
    name gets the new text: the others keep the old one, since replacing a file makes a new one.
    """
    targets = [os.path.realpath(path) for path, _, _ in files]
    with held(), _naming(files[0][0] if files else ""):
        for target, (_, digest, _) in zip(targets, files, strict=True):
            if not digest:
                with suppress(FileExistsError):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
        with alone_in(os.path.dirname(target) for target in targets):
            _replace(files)


def _replace(files: Sequence[tuple[str, str, bytes | None]]) -> None:
    staged: list[_Staged] = []
    try:
        for path, digest, data in files:
            with _naming(path):
                staged.append(_staged(path, digest, data, alone=len(files) == 1))
        for one in staged:
            with _naming(one.path):
                one.check()
        _put(staged)
    finally:
        for one in staged:
            remove(one.temporary)
            remove(one.kept)
    for folder in {os.path.dirname(one.target) for one in staged}:
        sync_folder(folder)


def _put(staged: Sequence[_Staged]) -> None:
    done: list[_Staged] = []
    try:
        for one in staged:
            with _naming(one.path):
                if done:
                    one.check()  # once more: the first ones took their time
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
        error.path = error.path or path
        raise
    except OSError as error:
        found = DocumentError("write", f"cannot be written: {reason(error)}")
        found.path = path
        raise found from error


@dataclass(frozen=True)
class _Staged:
    """New bytes that wait beside their file; `kept` is the old file's other name, for `put_back`."""

    path: str
    target: str
    temporary: str
    digest: str
    kept: str = ""

    def check(self) -> None:
        if not self.digest:
            if os.path.lexists(self.target):
                raise DocumentError("write", "is there already; nothing was written, run devfix again")
        elif digest_of(read_bytes(self.target, "write")) != self.digest:
            raise DocumentError("write", _CHANGED)

    def put(self) -> None:
        if not self.temporary:
            os.unlink(self.target)
        elif self.digest:
            os.replace(self.temporary, self.target)
        else:
            os.rename(self.temporary, self.target)

    def put_back(self) -> None:
        """Undo `put`: a rename, which takes no space on a full disk."""
        with suppress(OSError):
            if self.digest:
                os.replace(self.kept, self.target)
            else:
                os.unlink(self.target)


def _staged(path: str, digest: str, data: bytes | None, *, alone: bool) -> _Staged:
    target = os.path.realpath(path)
    if not digest:
        assert data is not None
        return _Staged(path, target, write_beside(target, data), "")
    before = read_bytes(target, "write")
    if digest_of(before) != digest:
        raise DocumentError("write", _CHANGED)
    if not os.access(target, os.W_OK):
        raise DocumentError("write", "is read-only; make it writable and run devfix again")
    kept = "" if alone else keep_beside(target, before)
    try:
        temporary = "" if data is None else write_beside(target, data)
    except BaseException:
        remove(kept)
        raise
    return _Staged(path, target, temporary, digest, kept)
