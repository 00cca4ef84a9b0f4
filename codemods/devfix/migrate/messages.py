"""What people read of a change: the commit message and the body of the pull request."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from devfix import __version__
from devfix.migrate.model import Head, Job
from devfix.review.text import plural, printable

if TYPE_CHECKING:
    from devfix.migrate.verifying import Verification
    from devfix.reports.report import Change, FileResult, Report

_WIDTH = 72
_MOST = 10  # findings that are left and named in a body


def subject(report: Report) -> str:
    """One line, at most 72 characters where that is possible."""
    changes = [change for result in report.changed for change in _home(result)]
    titles = list(dict.fromkeys(printable(change.title) for change in changes))
    names = [printable(result.path) for result in report.changed]
    where = names[0].rpartition("/")[2] if len(names) == 1 else plural(len(names), "file")
    ids = ", ".join(sorted({change.codemod for change in changes}))
    if len(titles) == 1:
        line = f"Fix device placement in {where}: {titles[0]}"
        if len(line) <= _WIDTH:
            return line
    line = f"Fix device placement in {where} ({ids})"
    return line if len(line) <= _WIDTH else f"Fix device placement in {where}"


def commit(job: Job, head: Head, report: Report, verification: Verification) -> str:
    """What was wrong, what was done, and how that was verified."""
    parts = [f"{subject(report)}\n"]
    for result in report.changed:
        lines = dict.fromkeys(_wrapped(_said(change), "- ") for change in _home(result))
        if lines:
            parts.append(f"{printable(result.path)}:\n" + "\n".join(lines) + "\n")
    how = verification.words or " ".join([_default(report), *_and_run(verification)])
    parts.append(_wrapped(f"Verified: {how.rstrip('.')}.", "") + "\n")
    parts.append(
        _wrapped(f"Made by devfix {__version__} in the campaign {job.settings.campaign}.", "") + "\n"
    )
    return "\n".join(parts)


def body(job: Job, head: Head, report: Report, verification: Verification, notes: Sequence[str]) -> str:
    """Markdown for a pull request."""
    return "\n".join(_body(job, head, report, verification, notes)) + "\n"


def _body(
    job: Job, head: Head, report: Report, verification: Verification, notes: Sequence[str]
) -> Iterator[str]:
    fixes = sum(result.applied for result in report.changed)
    files = plural(len(report.changed), "file")
    yield f"This fixes {plural(fixes, 'device bug')} in {files}, found by devfix {__version__} at {head.commit[:12]}."
    yield ""
    yield "### What is changed, and why"
    yield ""
    for result in report.changed:
        for change in _home(result):
            line = change.lines[0][0] + 1 if change.lines else 0
            where = _code(_place(result.path, line, change.cell, change.cell_line))
            yield f"- {where}: {_said(change, code=True)}"
    yield ""
    yield "### How it was verified"
    yield ""
    yield f"- {_text(_default(report))}"
    if verification.words:
        yield f"- {_text(verification.words)}."
    for note in _and_run(verification):
        yield f"- {_text(note)}"
    left = [(result.path, finding) for result in report.results for finding in result.remaining]
    if left:
        yield ""
        yield "### Found, and left to you"
        yield ""
        for path, finding in left[:_MOST]:
            at = finding.place
            where = _code(_place(path, at.line, at.cell, at.cell_line))
            yield f"- {where}: {finding.codemod}: {_text(finding.message)}"
        if len(left) > _MOST:
            yield f"- and {len(left) - _MOST} more"
    if notes:
        yield ""
        yield "### Not looked at"
        yield ""
        for note in notes:
            yield f"- {_text(note)}"


def _default(report: Report) -> str:
    safe = all(change.safety.name == "SAFE" for result in report.changed for change in result.changes)
    what = (
        "each change gives the same result on the CPU, and on an accelerator can only turn an error into a run"
        if safe
        else "the changes marked unsafe rest on assumptions that devfix cannot prove"
    )
    more = any(
        finding.fix is not None and finding.fix.safety >= report.level_of(finding.codemod)
        for result in report.changed
        for finding in result.remaining
    )
    then = "devfix finds more to fix in them" if more else "devfix finds nothing more to fix in them"
    return f"by analysis: {what}; the changed files parse, and {then}."


def _and_run(verification: Verification) -> list[str]:
    """Sentences on what was run besides."""
    if not (verification.words or verification.notes):
        return ["No program was run."]
    return [f"{note[:1].upper()}{note[1:]}." for note in verification.notes]


def _place(path: str, line: int, cell: int, cell_line: int) -> str:
    """The path with the line, if it is known; in a notebook, with the cell and the line in it."""
    if cell:
        return f"{path}:cell {cell}:{cell_line}"
    return f"{path}:{line}" if line else path


def _home(result: FileResult) -> list[Change]:
    return sorted(result.own_changes, key=lambda change: change.lines[:1])


def _said(change: Change, *, code: bool = False) -> str:
    show = _text if code else printable
    said = f"{change.codemod}: {show(change.message)}. Fix ({change.safety.label}): {show(change.title)}."
    name = _code if code else printable
    if change.also:
        said += f" That changes {listed([name(path) for path in change.also])}, too."
    if change.found_in:
        said += f" Found in {listed([name(path) for path in change.found_in])}."
    good = change.verdict.startswith("verified")  # why it was not run elsewhere is in the log
    return f"{said} {show(change.verdict[:1].upper() + change.verdict[1:])}." if good else said


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _wrapped(text: str, bullet: str) -> str:
    indent = " " * len(bullet)
    return textwrap.fill(
        printable(text), _WIDTH, initial_indent=bullet, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _text(text: str) -> str:
    """Words of a message in Markdown: code stays code, and no mark-up or mention comes to life."""
    out = []
    for at, part in enumerate(printable(text).split("`")):
        if at % 2:
            out.append(f"`{part}`")
        else:
            for mark in ("\\", "*", "_", "<", ">", "[", "]", "#", "|"):
                part = part.replace(mark, f"\\{mark}")
            out.append(part.replace("@", "@\u200b"))
    return "".join(out)


def _code(text: str) -> str:
    plain = printable(text)
    return f"`{plain}`" if "`" not in plain else f"`` {plain} ``"
