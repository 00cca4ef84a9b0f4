"""Fixes as commits: a mailbox that `git am` takes, one message for each step.

https://git-scm.com/docs/git-format-patch describes the form.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from email.header import Header
from email.utils import formataddr, formatdate

from devfix import __version__
from devfix.documents.git import GitError, git, setting
from devfix.pipeline.series import Step
from devfix.reports.report import Change, Report
from devfix.review.patch import patch
from devfix.review.text import plural, printable

_MARK = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
_WIDTH = 72


def render(steps: Sequence[Step]) -> bytes:
    """The messages, in order; the author is git's own `user.name` and `user.email`."""
    author = _author()
    date = _date()
    return b"".join(_message(step, number, len(steps), author, date) for number, step in enumerate(steps, 1))


def _message(step: Step, number: int, count: int, author: str, date: str) -> bytes:
    diff = patch(_as_committed(step.report))
    body = f"{_body(step.report)}---\n\n".encode("utf-8", "replace") + diff
    body += f"-- \ndevfix {__version__}\n\n".encode()
    encoding = "8bit"
    if b"\r" in diff:  # git strips a CR at the end of a line that is sent as it is
        body = base64.encodebytes(body)
        encoding = "base64"
    tag = "[PATCH]" if count == 1 else f"[PATCH {number}/{count}]"
    subject = f"{tag} {_subject(step.report)}"
    subject = subject if subject.isascii() else Header(subject, "utf-8", maxlinelen=200).encode()
    head = (
        f"From: {author}\nDate: {date}\nSubject: {subject}\n"
        f"MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        f"Content-Transfer-Encoding: {encoding}\n\n"
    )
    return (_MARK + head).encode() + body + (b"\n" if encoding == "base64" else b"")


def _as_committed(report: Report) -> Report:
    """The report with LF in files that git converts to CRLF: `git am` looks at what is committed."""
    results = []
    for result in report.results:
        if b"\r\n" in result.before and _has_only_lf(result.path):
            before, after = (data.replace(b"\r\n", b"\n") for data in (result.before, result.after))
            result = replace(result, before=before, after=after)
        results.append(result)
    return replace(report, results=tuple(results))


def _has_only_lf(path: str) -> bool:
    """Is the file committed without any CRLF?"""
    try:
        return b"\r\n" not in git("cat-file", "blob", f"HEAD:./{os.path.relpath(os.path.realpath(path))}")
    except (GitError, ValueError):
        return False


def _subject(report: Report) -> str:
    changes = [change for result in report.changed for change in result.own_changes]
    titles = list(dict.fromkeys(change.title for change in changes))
    files = [printable(result.path) for result in report.changed]
    where = files[0] if len(files) == 1 else plural(len(files), "file")
    if len(titles) == 1:
        return f"Fix device placement: {printable(titles[0])} ({where})"
    ids = ", ".join(sorted({change.codemod for change in changes}))
    return f"Fix device placement in {where} ({ids})"


def _body(report: Report) -> str:
    """What was wrong and what was done, from the findings."""
    out: list[str] = []
    for result in report.changed:
        out.append(f"In {printable(result.path)}:\n")  # no name is taken for the start of a mail or a patch
        out.extend(dict.fromkeys(map(_paragraph, result.changes)))
    return "\n".join(out) + "\n"


def _paragraph(change: Change) -> str:
    import textwrap

    said = f"{change.codemod}: {printable(change.message)}. Fix ({change.safety.label}): {printable(change.title)}."
    return textwrap.fill(said, _WIDTH, initial_indent="- ", subsequent_indent="  ") + "\n"


def _date() -> str:
    """Now, or the time that $SOURCE_DATE_EPOCH names."""
    with suppress(ValueError, OverflowError, OSError):
        return formatdate(float(os.environ.get("SOURCE_DATE_EPOCH", "")))
    return formatdate(time.time())


def _author() -> str:
    name, mail = setting("user.name") or "devfix", setting("user.email") or "devfix@localhost"
    return formataddr((printable(name), printable(mail)))
