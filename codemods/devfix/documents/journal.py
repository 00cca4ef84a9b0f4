"""What an apply replaced, so that it can be undone byte for byte, and finished or taken back after a crash.

A journal is a folder of the user's state folder (`state`): `manifest.json` names each file with the SHA-256 of
its bytes before and after, and a file named after the former has the bytes themselves. It is complete before the
first file is replaced, so that what a killed apply has written can be undone as well. While somebody writes, the
journal has a file `running`, locked by that process: where it is there and nobody holds it, the process was killed.

What a repository brings along is never taken for a journal, and nothing is restored outside of the tree that a
journal is about, in `.git`, through links, or over bytes that are not those which that run has written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby

from devfix.documents import state
from devfix.documents.beside import sweep, sync_folder
from devfix.documents.python import DocumentError, digest_of, read_bytes, reason
from devfix.documents.replace import replace_files
from devfix.pipeline.signals import held

KEPT = 20  # journals of a tree; older ones are removed
_JOURNALS = "journals"
_MANIFEST = "manifest.json"
_RUNNING = "running"
_NAME = re.compile(r"(\d{6,12})-\d{8}-\d{6}")  # they are in the order of the numbers: clocks are put back
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = 3

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
    """One apply in a tree. `folder` is where its journal is kept."""

    folder: str
    tree: str
    entries: tuple[Entry, ...]

    @property
    def when(self) -> str:
        """The time of the apply: 20261121-150405."""
        return os.path.basename(self.folder).partition("-")[2]

    @property
    def units(self) -> list[list[Entry]]:
        return [list(unit) for _, unit in groupby(self.entries, lambda entry: entry.unit)]


def record(tree: str, units: Sequence[Unit]) -> str:
    """Note down what is about to be replaced, unit by unit: (path, bytes before or None, bytes after).

    The paths are in the tree. Returns the journal's folder, which is to be `running` meanwhile and `finished`
    then. Raises DocumentError; then nothing may be relied on, and nothing was replaced yet.
    """
    folder = ""
    try:
        home = state.make(tree)
        top = os.path.join(home, _JOURNALS)
        with suppress(FileExistsError):
            os.mkdir(top, 0o700)
        folder = _new_folder(top)
        entries = []
        for number, unit in enumerate(units):
            for path, before, after in unit:
                digest = digest_of(before) if before is not None else ""
                if before is not None:
                    _write(os.path.join(folder, digest), before)
                entries.append(Entry(os.path.realpath(path), digest, digest_of(after), number))
        _write_manifest(Journal(folder, tree, tuple(entries)))
        for one in (folder, top, home, os.path.dirname(home)):
            sync_folder(one)
        for name in _journals(top)[:-KEPT]:
            if not os.path.lexists(os.path.join(top, name, _RUNNING)):
                shutil.rmtree(os.path.join(top, name), ignore_errors=True)
        return folder
    except OSError as error:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise DocumentError("write", f"no journal can be kept: {reason(error)}") from error


def finished(tree: str, folder: str, written: Collection[str]) -> None:
    """A run is over: its journal is of the files that it has written (real paths), or there is none."""
    try:
        journal = _read(folder, tree)
    except DocumentError:
        return
    entries = tuple(entry for entry in journal.entries if entry.path in written)
    if not entries:
        shutil.rmtree(folder, ignore_errors=True)
    elif len(entries) < len(journal.entries):
        with suppress(OSError):  # on a full disk it still names files that are as they were
            _write_manifest(Journal(folder, tree, entries))


def _write_manifest(journal: Journal) -> None:
    files = [vars(entry) for entry in journal.entries]
    manifest = json.dumps({"version": _VERSION, "tree": journal.tree, "files": files}, indent=1)
    path = os.path.join(journal.folder, _MANIFEST)
    _write(f"{path}.new", manifest.encode("utf-8", "surrogateescape"))
    os.replace(f"{path}.new", path)  # there is a whole manifest or none


def _journals(top: str) -> list[str]:
    """The names of the journals in a folder, oldest first."""
    try:
        found = os.listdir(top)
    except OSError:
        return []
    return sorted((name for name in found if _NAME.fullmatch(name)), key=_number)


def _number(name: str) -> int:
    return int(name.partition("-")[0])


def _new_folder(top: str) -> str:
    number = max(map(_number, _journals(top)), default=0)
    while True:
        number += 1
        folder = os.path.join(top, f"{number:06}-{time.strftime('%Y%m%d-%H%M%S')}")
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            return folder


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


def abandoned(tree: str) -> list[str]:
    """The folders of a tree's journals whose process was killed while it wrote, oldest first."""
    return [folder for folder in _all(tree) if _is_abandoned(os.path.join(folder, _RUNNING))]


def _all(tree: str) -> list[str]:
    """The folders of a tree's journals, oldest first."""
    home = state.existing(tree)
    top = os.path.join(home, _JOURNALS)
    return [os.path.join(top, name) for name in _journals(top)] if home else []


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
    """Files that were put back, after a crash or by an undo, and files that were not, and why."""

    restored: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    interrupted: bool = False


def recover(tree: str) -> Recovered:
    """Put right what killed processes left half done: of a unit all files are as they were, or none.

    A unit whose files are all written stays as it is: `undo` knows it.
    """
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    for folder in abandoned(tree):
        try:
            journal = _read(folder, tree)
        except DocumentError:  # it was killed before it wrote anything
            continue
        sweep(entry.path for entry in journal.entries if _inside(journal, entry))
        left: list[tuple[str, str]] = []
        for unit in journal.units:
            if 0 < sum(_now(entry) == entry.after for entry in unit) < len(unit):
                done, why = _restore(journal, unit)
                restored += done
                left += why
        refused += left
        with suppress(OSError):
            os.unlink(os.path.join(folder, _RUNNING))
        written = {entry.path for entry in journal.entries if _now(entry) == entry.after}
        finished(tree, folder, written.union(path for path, _ in left))
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


def last(tree: str) -> Journal | None:
    """A tree's newest journal, or None if there is none. Raises DocumentError if it cannot be read."""
    for folder in reversed(_all(tree)):
        if os.path.isfile(os.path.join(folder, _MANIFEST)):
            return _read(folder, tree)
    return None


def _read(folder: str, tree: str) -> Journal:
    data = read_bytes(os.path.join(folder, _MANIFEST))
    try:
        found = json.loads(data.decode("utf-8", "surrogateescape"))
        if found["version"] != _VERSION or found["tree"] != tree:
            raise ValueError("it is another tree's")
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
    return Journal(folder, tree, entries)


def undo(journal: Journal) -> Recovered:
    """Give every file of a journal its old bytes back, unless it changed since; then forget the journal.

    What one fix changed together is restored together or not at all. A file that is as it was needs nothing, and
    does not count. Ctrl-C ends it after the files at hand; what is left is for the next undo.
    """
    restored: list[str] = []
    refused: list[tuple[str, str]] = []
    interrupted = False
    try:
        with running([journal.folder]):
            for unit in journal.units:
                with held():
                    done, left = _restore(journal, unit)
                    restored += done
                    refused += left
    except KeyboardInterrupt:
        interrupted = True
    if not refused and not interrupted:
        shutil.rmtree(journal.folder, ignore_errors=True)
    return Recovered(tuple(restored), tuple(refused), interrupted)


def _restore(journal: Journal, unit: Sequence[Entry]) -> tuple[list[str], list[tuple[str, str]]]:
    """Restore the files of a unit: the paths that were written, or of all of them why they were not."""
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
    return [path for path, _, _ in files], []


def _inside(journal: Journal, entry: Entry) -> bool:
    """True for a file of the journal's tree, without a link on the way, which is not in git's own folder."""
    path = entry.path
    real = os.path.realpath(path) == path and state.is_below(path, journal.tree)
    return real and ".git" not in os.path.normcase(path).lower().split(os.sep)


def _old(journal: Journal, entry: Entry) -> tuple[str, str, bytes | None] | None:
    """What `replace_files` is to do to restore a file; None if it is as it was. Raises DocumentError."""
    if not _inside(journal, entry):
        raise DocumentError("write", "is not in the tree that the journal belongs to; it was left as it is")
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
