"""What an apply replaced, so that it can be undone byte for byte, and finished or taken back after a crash.

A journal is a folder of the cache: `manifest.json` names each file with the SHA-256 of its bytes before and
after, and a file named after the former has the bytes themselves. It is complete before the first file is
replaced, so that what a killed apply has written can be undone as well. While somebody writes, the journal has
a file `running`, locked by that process: where it is there and nobody holds it, the process was killed.

A cache folder may come with somebody's repository. So a journal is read only if it names the cache folder that
it is in, nothing outside of the folder that this is in is ever restored, nothing is followed or removed
through links, and only the user may read the copies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby

from devfix.documents.beside import sweep, sync_folder
from devfix.documents.cache import identity, make
from devfix.documents.python import DocumentError, digest_of, read_bytes, reason
from devfix.documents.replace import replace_files

KEPT = 20  # journals; older ones are removed
_MANIFEST = "manifest.json"
_RUNNING = "running"
_NAME = re.compile(r"\d{8}-\d{6}-\d{3}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = 2

Unit = Sequence[tuple[str, "bytes | None", bytes]]


@dataclass(frozen=True)
class Entry:
    """One file of an apply. `before` is empty for a file that the apply made; `path` is absolute.

    Files of one `unit` were written together, and are restored together.
    """

    path: str
    before: str
    after: str
    unit: int


@dataclass(frozen=True)
class Journal:
    """One apply. `folder` is where its journal is kept."""

    folder: str
    entries: tuple[Entry, ...]

    @property
    def when(self) -> str:
        """The time of the apply, as its folder is named: 20261121-150405."""
        return os.path.basename(self.folder).rpartition("-")[0]

    @property
    def units(self) -> list[list[Entry]]:
        return [list(unit) for _, unit in groupby(self.entries, lambda entry: entry.unit)]


def record(cache: str, units: Sequence[Unit]) -> str:
    """Note down what is about to be replaced, unit by unit: (path, bytes before or None, bytes after).

    The paths are in the folder that the cache folder is in. Returns the journal's folder, which is to be
    `running` meanwhile. Raises DocumentError; then nothing may be relied on, and nothing was replaced yet.
    """
    folder = ""
    try:
        make(cache)
        top = os.path.join(cache, "journal")
        if os.path.islink(top):
            raise OSError(f"{top} is a link")
        os.makedirs(top, mode=0o700, exist_ok=True)
        folder = _new_folder(top)
        entries = []
        for number, unit in enumerate(units):
            for path, before, after in unit:
                digest = digest_of(before) if before is not None else ""
                if before is not None:
                    _write(os.path.join(folder, digest), before)
                real = os.path.realpath(path)
                entries.append({"path": real, "before": digest, "after": digest_of(after), "unit": number})
        manifest = json.dumps({"version": _VERSION, "home": identity(cache), "files": entries}, indent=1)
        path = os.path.join(folder, _MANIFEST)
        _write(f"{path}.new", manifest.encode("utf-8", "surrogateescape"))
        os.rename(f"{path}.new", path)  # there is a whole manifest or none
        for one in (folder, top, cache, os.path.dirname(cache)):
            sync_folder(one)
        _prune(top)
        return folder
    except OSError as error:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise DocumentError("write", f"no journal can be kept in {cache}: {reason(error)}") from error


def _prune(top: str) -> None:
    for name in _journals(top)[:-KEPT]:
        if not os.path.lexists(os.path.join(top, name, _RUNNING)):
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)


def _journals(top: str) -> list[str]:
    """The names of the journals in a folder, oldest first."""
    try:
        found = os.listdir(top) if not os.path.islink(top) else []
    except OSError:
        return []
    return sorted(
        name for name in found if _NAME.fullmatch(name) and not os.path.islink(os.path.join(top, name))
    )


def _new_folder(top: str) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    last = (_journals(top) or [""])[-1]
    for number in range(1000):
        name = f"{stamp}-{number:03}"
        if name <= last and last.startswith(stamp):
            continue
        with suppress(FileExistsError):
            os.mkdir(os.path.join(top, name), 0o700)
            return os.path.join(top, name)
    raise OSError("too many applies in one second")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# --- running ---------------------------------------------------------------------------------------


@contextmanager
def running(folders: Sequence[str]) -> Iterator[None]:
    """While it lasts the files of these journals are being written. Raises DocumentError."""
    marks: list[tuple[str, int]] = []
    try:
        for folder in folders:
            path = os.path.join(folder, _RUNNING)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise DocumentError("write", f"no journal can be kept: {reason(error)}") from error
            marks.append((path, descriptor))
            _lock(descriptor)
            sync_folder(folder)
        yield
    finally:
        for path, descriptor in marks:
            if os.name == "nt":  # where an open file cannot be removed
                os.close(descriptor)
            with suppress(OSError):
                os.unlink(path)
            if os.name != "nt":
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """True if nobody else has it. Where there are no such locks, an open file cannot be removed."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def abandoned(cache: str) -> list[str]:
    """The folders of the journals whose process was killed while it wrote, oldest first."""
    top = os.path.join(cache, "journal")
    if os.path.islink(cache):
        return []
    return [
        os.path.join(top, name) for name in _journals(top) if _is_abandoned(os.path.join(top, name, _RUNNING))
    ]


def _is_abandoned(mark: str) -> bool:
    try:
        descriptor = os.open(mark, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Recovered:
    """What came of a crash: files that were put back, and files that somebody has to look at, and why."""

    restored: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def recover(cache: str) -> Recovered:
    """Put right what killed processes left half done: of a unit all files are as they were, or none.

    A unit whose files are all as they were, or all written, stays as it is: `undo` knows it.
    """
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    for folder in abandoned(cache):
        try:
            journal = _read(folder)
        except DocumentError:  # it was killed before it wrote anything, or it is not ours
            continue
        sweep(entry.path for entry in journal.entries if _inside(journal, entry))
        for unit in journal.units:
            written = {entry.path for entry in unit if _now(entry) == entry.after}
            if 0 < len(written) < len(unit):
                done, left = _restore(journal, unit)
                restored += [path for path in done if path in written]
                refused += left
        with suppress(OSError):
            os.unlink(os.path.join(folder, _RUNNING))
    return Recovered(tuple(restored), tuple(refused))


def _now(entry: Entry) -> str:
    """The SHA-256 of a file as it is; empty if it is not there."""
    if not os.path.lexists(entry.path):
        return ""
    try:
        return digest_of(read_bytes(entry.path, "write"))
    except DocumentError:
        return "unreadable"


# --- undo ------------------------------------------------------------------------------------------


def last(cache: str) -> Journal | None:
    """The newest journal, or None if there is none. Raises DocumentError if it cannot be read."""
    top = os.path.join(cache, "journal")
    if os.path.islink(cache):
        return None
    for name in reversed(_journals(top)):
        folder = os.path.join(top, name)
        if os.path.isfile(os.path.join(folder, _MANIFEST)):
            try:
                return _read(folder)
            except _Foreign:
                continue
    return None


class _Foreign(DocumentError):
    """A journal that was not made in this folder."""


def _read(folder: str) -> Journal:
    data = read_bytes(os.path.join(folder, _MANIFEST))
    try:
        found = json.loads(data.decode("utf-8", "surrogateescape"))
        home = identity(os.path.join(folder, os.pardir, os.pardir))
        if found["version"] != _VERSION or found["home"] != home:
            raise _Foreign("read", f"the journal in {folder} was not made there")
        entries = tuple(
            Entry(str(e["path"]), str(e["before"]), str(e["after"]), int(e["unit"])) for e in found["files"]
        )
        for entry in entries:
            if entry.before and not _DIGEST.fullmatch(entry.before):
                raise ValueError(f"{entry.before!r} is no digest")
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
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

    What one fix changed together is restored together or not at all. What an apply that was interrupted had
    not written yet is as it was, and counts as restored.
    """
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    with running([journal.folder]):
        for unit in journal.units:
            done, left = _restore(journal, unit)
            restored += done
            refused += left
    if not refused:
        shutil.rmtree(journal.folder, ignore_errors=True)
    return Undone(tuple(restored), tuple(refused))


def _restore(journal: Journal, unit: Sequence[Entry]) -> tuple[list[str], list[tuple[str, str]]]:
    """Restore the files of a unit: the paths that are as they were, or of all of them why not."""
    files: list[tuple[str, str, bytes | None]] = []
    try:
        for entry in unit:
            at = entry.path
            found = _old(journal, entry)
            if found is not None:
                files.append(found)
        at = unit[0].path
        if files:
            replace_files(files)
    except DocumentError as error:
        at = error.path or at
        others = [entry.path for entry in unit if entry.path != at]
        why = f"left as it is, since {os.path.basename(at)} could not be restored: one fix changed both"
        return [], [(at, error.message), *((path, why) for path in others)]
    return [entry.path for entry in unit], []


def _inside(journal: Journal, entry: Entry) -> bool:
    """True for a file below the folder that the cache is in, without a link on the way."""
    home = os.path.realpath(os.path.join(journal.folder, *[os.pardir] * 3))
    return os.path.realpath(entry.path) == entry.path and entry.path.startswith(home.rstrip(os.sep) + os.sep)


def _old(journal: Journal, entry: Entry) -> tuple[str, str, bytes | None] | None:
    """What `replace_files` is to do to restore a file; None if it is as it was. Raises DocumentError."""
    if not _inside(journal, entry):
        raise DocumentError(
            "write", "is outside of the folder that the journal belongs to; it was left as it is"
        )
    if not entry.before and not os.path.lexists(entry.path):
        return None
    now = digest_of(read_bytes(entry.path))
    if now == entry.before:
        return None
    if now != entry.after:
        raise DocumentError("write", "changed since the apply; it was left as it is")
    if not entry.before:
        return entry.path, entry.after, None
    before = read_bytes(os.path.join(journal.folder, entry.before))
    if digest_of(before) != entry.before:
        raise DocumentError("write", "the journal's copy of it is damaged; it was left as it is")
    return entry.path, entry.after, before
