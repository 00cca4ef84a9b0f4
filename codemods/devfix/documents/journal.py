"""What an apply replaced, so that it can be undone byte for byte.

A journal is a folder of the cache: `manifest.json` names each file with the SHA-256 of its bytes before and
after, and a file named after the former has the bytes themselves. It is complete before the first file is
replaced, so that what a killed apply has written can be undone as well.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from devfix.documents.cache import make
from devfix.documents.python import DocumentError, digest_of, read_bytes, reason
from devfix.documents.replace import replace_files

KEPT = 20  # journals; older ones are removed
_MANIFEST = "manifest.json"
_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One file of an apply. `before` is empty for a file that the apply made; `path` is absolute."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Journal:
    """One apply. `folder` is where its journal is kept."""

    folder: str
    entries: tuple[Entry, ...]

    @property
    def when(self) -> str:
        """The time of the apply, as its folder is named: 20261121-150405."""
        return os.path.basename(self.folder).rpartition("-")[0]


def record(cache: str, files: Sequence[tuple[str, bytes | None, bytes]]) -> None:
    """Note down what is about to be replaced: (path, bytes before or None, bytes after).

    Raises DocumentError; then nothing may be relied on, and nothing was replaced yet.
    """
    try:
        make(cache)
        top = os.path.join(cache, "journal")
        os.makedirs(top, exist_ok=True)
        folder = _new_folder(top)
        entries = []
        for path, before, after in files:
            digest = digest_of(before) if before is not None else ""
            if before is not None:
                _write(os.path.join(folder, digest), before)
            entries.append({"path": os.path.realpath(path), "before": digest, "after": digest_of(after)})
        manifest = json.dumps({"version": _VERSION, "files": entries}, indent=1)
        _write(os.path.join(folder, _MANIFEST), manifest.encode("utf-8", "surrogateescape"))
        for name in sorted(os.listdir(top))[:-KEPT]:
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)
    except OSError as error:
        raise DocumentError("write", f"no journal can be kept in {cache}: {reason(error)}") from error


def _new_folder(top: str) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = os.path.join(top, f"{stamp}-{number:03}")
        with suppress(FileExistsError):
            os.mkdir(folder)
            return folder
    raise OSError("too many applies in one second")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def last(cache: str) -> Journal | None:
    """The newest journal, or None if there is none. Raises DocumentError if it cannot be read."""
    top = os.path.join(cache, "journal")
    with suppress(OSError):
        for name in sorted(os.listdir(top), reverse=True):
            folder = os.path.join(top, name)
            if os.path.isfile(os.path.join(folder, _MANIFEST)):
                return _read(folder)
    return None


def _read(folder: str) -> Journal:
    data = read_bytes(os.path.join(folder, _MANIFEST))
    try:
        found = json.loads(data.decode("utf-8", "surrogateescape"))
        entries = tuple(Entry(str(e["path"]), str(e["before"]), str(e["after"])) for e in found["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(
            "read", f"the journal in {folder} is damaged ({error}); remove that folder"
        ) from error
    return Journal(folder, entries)


@dataclass(frozen=True)
class Undone:
    """What came of an undo: paths restored, and of the others why not."""

    restored: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def undo(journal: Journal) -> Undone:
    """Give every file of a journal its old bytes back, unless it changed since; then forget the journal.

    What an apply that was interrupted had not written yet is as it was, and counts as restored.
    """
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    for entry in journal.entries:
        try:
            _restore(journal, entry)
            restored.append(entry.path)
        except DocumentError as error:
            refused.append((entry.path, error.message))
    if not refused:
        shutil.rmtree(journal.folder, ignore_errors=True)
    return Undone(tuple(restored), tuple(refused))


def _restore(journal: Journal, entry: Entry) -> None:
    if not entry.before and not os.path.lexists(entry.path):
        return
    now = digest_of(read_bytes(entry.path))
    if now == entry.before:
        return
    if now != entry.after:
        raise DocumentError("write", "changed since the apply; it was left as it is")
    if not entry.before:
        try:
            os.unlink(entry.path)
        except OSError as error:
            raise DocumentError("write", f"cannot be removed: {reason(error)}") from error
        return
    before = read_bytes(os.path.join(journal.folder, entry.before))
    if digest_of(before) != entry.before:
        raise DocumentError("write", "the journal's copy of it is damaged; it was left as it is")
    replace_files([(entry.path, entry.after, before)])
