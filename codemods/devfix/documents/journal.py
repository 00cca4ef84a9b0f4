"""What an apply replaced, so that it can be undone byte for byte.

A journal is a folder of the cache: `manifest.json` names each file with the SHA-256 of its bytes before and
after, and a file named after the former has the bytes themselves. It is complete before the first file is
replaced, so that what a killed apply has written can be undone as well.

A cache folder may come with somebody's repository. So nothing outside of the folder that it is in is ever
restored, nothing is followed or removed through links, and only the user may read the copies.
"""

from __future__ import annotations

import json
import os
import re
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
_NAME = re.compile(r"\d{8}-\d{6}-\d{3}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
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

    The paths are in the folder that the cache folder is in. Raises DocumentError; then nothing may be
    relied on, and nothing was replaced yet.
    """
    try:
        make(cache)
        top = os.path.join(cache, "journal")
        if os.path.islink(top):
            raise OSError(f"{top} is a link")
        os.makedirs(top, mode=0o700, exist_ok=True)
        folder = _new_folder(top)
        entries = []
        for path, before, after in files:
            digest = digest_of(before) if before is not None else ""
            if before is not None:
                _write(os.path.join(folder, digest), before)
            entries.append({"path": os.path.realpath(path), "before": digest, "after": digest_of(after)})
        manifest = json.dumps({"version": _VERSION, "files": entries}, indent=1)
        _write(os.path.join(folder, _MANIFEST), manifest.encode("utf-8", "surrogateescape"))
        for name in _journals(top)[:-KEPT]:
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)
    except OSError as error:
        raise DocumentError("write", f"no journal can be kept in {cache}: {reason(error)}") from error


def _journals(top: str) -> list[str]:
    """The names of the journals in a folder, oldest first."""
    return sorted(
        name
        for name in os.listdir(top)
        if _NAME.fullmatch(name) and not os.path.islink(os.path.join(top, name))
    )


def _new_folder(top: str) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = os.path.join(top, f"{stamp}-{number:03}")
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
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
        for name in reversed(_journals(top)):
            folder = os.path.join(top, name)
            if os.path.isfile(os.path.join(folder, _MANIFEST)):
                return _read(folder)
    return None


def _read(folder: str) -> Journal:
    data = read_bytes(os.path.join(folder, _MANIFEST))
    try:
        found = json.loads(data.decode("utf-8", "surrogateescape"))
        entries = tuple(Entry(str(e["path"]), str(e["before"]), str(e["after"])) for e in found["files"])
        for entry in entries:
            if entry.before and not _DIGEST.fullmatch(entry.before):
                raise ValueError(f"{entry.before!r} is no digest")
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
    inside = os.path.realpath(os.path.join(journal.folder, *[os.pardir] * 3))  # what the cache folder is in
    if os.path.realpath(entry.path) != entry.path or not entry.path.startswith(
        inside.rstrip(os.sep) + os.sep
    ):
        raise DocumentError(
            "write", "is outside of the folder that the journal belongs to; it was left as it is"
        )
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
