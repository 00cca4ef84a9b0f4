"""The lines that changed since a revision, or since the commit at which the history of what is here left its.

Git names the files and gives their old contents. Which lines differ it says of copies in an empty folder: in the
tree it would run what the tree's own configuration names, such as filters.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from devfix.documents import SUFFIXES
from devfix.documents.git import GitError, git
from devfix.documents.python import DocumentError, read_bytes
from devfix.documents.state import is_below

LARGEST = 64_000_000  # bytes of an old file; one that is larger counts as changed all over
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORD = re.compile(r"[\w./@^~:{}+-]+")
_EVERYTHING = ((1, 1 << 30),)

Lines = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Old:
    """A file of a revision; `size` is -1 if its contents are not here."""

    id: str
    size: int


def changed_lines(revision: str, named: Collection[str] = ()) -> dict[str, Lines]:
    """By path relative to the working directory, the line ranges that have changed since `revision`.

    As in `git diff revision...`, what others have changed in the meantime does not count.
    Looked at are the files with the endings that devfix reads, and those that are `named`, unless git ignores
    them. Files that the revision does not have are new as a whole. Raises GitError.
    """
    if not _WORD.fullmatch(revision) or revision.startswith("-"):
        raise GitError(f"{revision!r} is not a revision")
    also = {os.path.relpath(path) for path in named}
    base = git("merge-base", revision, "HEAD", okay=(0, 1, 128)).decode().strip()
    old = dict(_files_of(base or revision))
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    here = os.path.realpath(os.curdir)
    found: dict[str, Lines] = {}
    pairs: dict[str, tuple[_Old, bytes]] = {}
    for path in sorted({os.fsdecode(name) for name in listed if name}):
        if not path.endswith(SUFFIXES) and path not in also:
            continue
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode) or not is_below(os.path.realpath(path), here):
                continue
            data = read_bytes(path)
        except (OSError, DocumentError):  # it is not there any more, or will be named when it is analysed
            continue
        if path not in old or old[path].size > LARGEST:
            found[path] = _EVERYTHING
        elif _id(data, len(old[path].id)) != old[path].id:
            pairs[path] = old[path], data
    found.update(_differences(pairs, revision))
    return found


def _files_of(revision: str) -> Iterator[tuple[str, _Old]]:
    for line in git("ls-tree", "-r", "-l", "-z", revision, "--").split(b"\0"):
        about, _, name = line.partition(b"\t")
        words = about.split()
        if len(words) == 4 and words[0] in (b"100644", b"100755", b"100664"):
            yield os.fsdecode(name), _Old(words[2].decode(), int(words[3]) if words[3].isdigit() else -1)


def _id(data: bytes, digits: int) -> str:
    """The name that git gives to these bytes, unless it would convert them."""
    start = b"blob %d\0" % len(data)
    made = hashlib.sha256(start) if digits == 64 else hashlib.sha1(start, usedforsecurity=False)
    made.update(data)
    return made.hexdigest()


def _differences(pairs: dict[str, tuple[_Old, bytes]], revision: str) -> Iterator[tuple[str, Lines]]:
    """The lines of each file that differ. That of line ends alone does not count: git may convert them."""
    if not pairs:
        return
    paths = list(pairs)
    with tempfile.TemporaryDirectory(prefix="devfix-") as folder:
        for side in ("a", "b"):
            os.mkdir(os.path.join(folder, side))
        before = _blobs([old for old, _ in pairs.values()], revision)
        for number, (old, (_, new)) in enumerate(zip(before, pairs.values(), strict=True)):
            for side, data in (("a", old), ("b", new)):
                with open(os.path.join(folder, side, str(number)), "wb") as file:
                    file.write(data.replace(b"\r\n", b"\n"))
        nowhere = {"GIT_DIR": os.path.join(folder, "none"), "GIT_CEILING_DIRECTORIES": folder}
        patch = git(
            "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--text",
            "-U0", "--no-prefix", "a", "b",
            folder=folder, variables=nowhere, okay=(0, 1),
        )  # fmt: skip
    for name, lines in _ranges(patch).items():
        yield paths[int(os.path.basename(name))], lines


def _blobs(wanted: list[_Old], revision: str) -> Iterator[bytes]:
    """The contents of files of a revision, in that order."""
    out = git("cat-file", "--batch", stdin="".join(f"{old.id}\n" for old in wanted).encode())
    at = 0
    for old in wanted:
        end = out.find(b"\n", at)
        if out[at:end] != f"{old.id} blob {old.size}".encode():
            raise GitError(
                f"not all of {revision} is here (a partial clone?); `git diff {revision}` fetches it"
            )
        yield out[end + 1 : end + 1 + old.size]
        at = end + 2 + old.size


def _ranges(patch: bytes) -> dict[str, Lines]:
    found: dict[str, Lines] = {}
    path, inside = "", 0
    for line in patch.split(b"\n"):
        if inside and line[:1] in (b"+", b"-"):  # a line of a file, which may look like anything
            inside -= 1
        elif match := _HUNK.match(line):
            first, count = int(match[2]), int(match[3] or 1)
            # Where lines were only removed, the ones around the place have changed their meaning.
            lines = (first, first + count - 1) if count else (first, first + 1)
            found[path] = (*found.get(path, ()), lines)
            inside = int(match[1] or 1) + count
        elif line.startswith(b"+++ "):
            path = os.fsdecode(line[4:])
    return found
