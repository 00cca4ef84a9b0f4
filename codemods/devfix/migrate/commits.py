"""A commit on top of the head, made of objects: the same bytes give the same commit, on every machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from devfix.migrate.git import Git
from devfix.migrate.model import Head, Job, MigrateError
from devfix.migrate.trees import entries_of, refusal

if TYPE_CHECKING:
    from devfix.reports.report import FileResult, Report

NEW = "refs/devfix/new"
_AUTHOR = re.compile(r"([^<>\n]*)<([^<>\n]*)>\s*")


def check_author(author: str) -> tuple[str, str]:
    """Name and address; raises MigrateError."""
    found = _AUTHOR.fullmatch(author)
    name = found[1].strip() if found is not None else ""
    if found is None or not name or not found[2]:
        raise MigrateError(f"author {author!r} must be of the form 'Name <address>'")
    return name, found[2]


def contents(report: Report, tree: str) -> dict[bytes, FileResult]:
    """The changed files by their paths in the repository: what is changed through a link is what it leads to.

    Raises MigrateError where that is two different changes of one file.
    """
    top, found = os.path.realpath(tree), dict[bytes, "FileResult"]()
    for result in report.changed:
        path = os.path.relpath(os.path.realpath(os.path.join(top, result.path)), top)
        other = found.setdefault(os.fsencode(path), result)
        if other.after != result.after:
            raise MigrateError(f"{path!r} is changed in two ways, as {other.path!r} and as {result.path!r}")
    return found


def made(
    git: Git, job: Job, head: Head, files: Mapping[bytes, FileResult], message: str
) -> tuple[str, bytes]:
    """The id of the commit with these `contents`, and a pack with what is new in it.

    Its date is that of the head: a second run over the same head makes the same commit.
    """
    entries = entries_of(git, head.commit, list(files))
    name, mail = check_author(job.settings.author)
    person = f"{name} <{mail}> {head.date} +0000"
    text = message.encode("utf-8", "replace")
    stream = [
        b"commit %s\nmark :1\n" % NEW.encode(),
        f"author {person}\ncommitter {person}\n".encode(),
        b"data %d\n%s\n" % (len(text), text),
        b"from %s\n" % head.commit.encode(),
    ]
    for path, result in files.items():
        entry = entries.get(path)
        if refusal(path) or (entry is None) != result.made or (entry is not None and not entry.regular):
            raise MigrateError(f"{os.fsdecode(path)!r} cannot be committed")
        mode = entry.mode if entry is not None else "100644"
        stream.append(b"M %s inline %s\n" % (mode.encode(), _quoted(path)))
        stream.append(b"data %d\n%s\n" % (len(result.after), result.after))
    stream.append(b"\nget-mark :1\ndone\n")
    out = git("fast-import", "--quiet", "--done", "--force", stdin=b"".join(stream))
    commit = out.decode("ascii").strip()
    revisions = f"{commit}\n^{head.commit}\n".encode()
    pack = git("pack-objects", "-q", "--thin", "--stdout", "--revs", "--threads=1", stdin=revisions)
    return commit, pack


def _quoted(path: bytes) -> bytes:
    return b'"%s"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
