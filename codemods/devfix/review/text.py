"""Findings for people, in the manner of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from devfix.findings import Safety, brief
from devfix.pipeline.selection import posix
from devfix.reports.report import (
    SEEN,
    UNREAD,
    FileError,
    FileResult,
    Place,
    PlacedFinding,
    PlacedRelated,
    Report,
)

_COLOURS = {Safety.SAFE: "green", Safety.UNSAFE: "yellow", Safety.MANUAL: "red"}


def printable(text: str) -> str:
    """Text on one line, without characters that could steer a terminal or break an encoding.

    A line that begins with `::` would be a command for GitHub's runner: a path of that kind gets a `./`.
    """
    if text.lstrip().startswith("::"):
        text = f"./{text}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return ascii(character)[1:-1]


def findings(
    path: str,
    found: tuple[PlacedFinding, ...],
    *,
    level: Safety | Callable[[str], Safety],
    width: int = 0,
) -> Iterator[str]:
    """The lines of one file's findings, each with its line of code; wrapped to `width`, if there is one."""
    for finding in found:
        yield _head(path, finding, width)
        if finding.code.strip():
            yield from _frame(finding, width)
        for other in finding.related:
            at = printable(other.path or path) + (f":{_position(other)}:{other.column}" if other.line else "")
            yield _wrapped(f"    {at}: ", printable(other.message), width)
        if finding.fix is not None:
            safety = finding.fix.safety
            wanted = level if isinstance(level, Safety) else level(finding.codemod)
            hint = " [needs --unsafe]" if wanted > safety >= Safety.UNSAFE else ""
            hint = " [`devfix repair` makes it]" if finding.codemod == SEEN else hint
            others = dict.fromkeys(edit.path for edit in finding.fix.edits if edit.path)
            also = f", together with {', '.join(map(printable, others))}" if others else ""
            head = f"    fix ({safety.label}): "
            line = _wrapped(head, f"{printable(finding.fix.title)}{also}{hint}", width)
            yield f"    {click.style(head[4:-2], fg=_COLOURS[safety])}{line[len(head) - 2 :]}"
        elif finding.refusal:
            yield _wrapped("    no fix: ", printable(finding.refusal), width)


def plain(path: str, finding: PlacedFinding) -> str:
    """The other places of a finding and its fix, a line each, for formats of other tools."""
    lines = []
    for other in finding.related:
        at = f"{printable(posix(other.path or path))}:{other.line}: " if other.line else ""
        lines.append(f"\n{at}{printable(other.message)}")
    if finding.fix is not None:
        lines.append(f"\nfix ({finding.fix.safety.label}): {printable(finding.fix.title)}")
    return "".join(lines)


def concise(path: str, found: tuple[PlacedFinding, ...]) -> Iterator[str]:
    """One line for each of a file's findings."""
    for finding in found:
        fix = finding.fix
        yield _head(path, finding, 0) + (f" [{fix.safety.label} fix]" if fix is not None else "")


def _head(path: str, finding: PlacedFinding, width: int) -> str:
    where = f"{printable(path)}:{_position(finding.place)}:{finding.place.column}:"
    plain = f"{where} {finding.codemod} "
    rest = _wrapped(plain, printable(finding.message), width)[len(plain) :]
    return f"{click.style(where, bold=True)} {click.style(finding.codemod, fg='cyan')} {rest}"


def _wrapped(head: str, text: str, width: int) -> str:
    """A line that is broken between words at `width`; without one it stays whole."""
    if len(head) + len(text) <= width or width <= 20:
        return head + text
    import textwrap

    lines = textwrap.wrap(
        "x" * len(head) + text,
        width,
        subsequent_indent=" " * 6,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return head + "\n".join(lines)[len(head) :]


_WIDEST = 160  # characters of a line of code that are shown


def _frame(finding: PlacedFinding, width: int) -> Iterator[str]:
    """The line of code, with what the finding is about underlined."""
    place = finding.place
    widest = max(20, width - len(str(place.line)) - 7) if width else _WIDEST
    text = "".join(c if c.isprintable() else " " for c in finding.code)
    start = min(place.column - 1, len(text))
    end = place.end_column - 1 if place.end_line == place.line else len(text)
    end = max(start + 1, min(end, len(text.rstrip())))
    cut = max(
        0, min(start - widest // 2, len(text.rstrip()) - widest)
    )  # a very long line is shown from near the place
    number = str(place.cell_line or place.line)
    bar = click.style("|", fg="blue")
    yield f"    {click.style(number, fg='blue')} {bar} {text[cut : cut + widest].rstrip()}"
    marks = click.style("^" * min(end - start, widest), fg="red", bold=True)
    yield f"    {' ' * len(number)} {bar} {_blank(text[cut:start])}{marks}"


def _blank(text: str) -> str:
    """Blanks as wide as a text is in a terminal."""
    import unicodedata

    return "".join("  " if unicodedata.east_asian_width(c) in "WF" else " " for c in text)


def repaired(result: FileResult) -> str:
    """What was written into one file."""
    ids = ", ".join(sorted({change.codemod for change in result.changes}))
    verdicts = "".join(sorted({f"; {change.verdict}" for change in result.changes if change.verdict}))
    what = plural(result.applied, "fix", "es") if result.applied else "its part of a fix"
    line = f"{printable(result.path)}: {what} written ({ids})"
    return line + printable(verdicts)


def coloured_patch(data: bytes) -> bytes:
    """A patch for a terminal, which nothing in it steers; no longer one for `git apply`."""
    colours = {"-": "31", "+": "32", "@": "36", "#": "2"}
    out = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        colour = "1" if line.startswith(("---", "+++", "diff ")) else colours.get(line[:1])
        line = "".join(c if c.isprintable() or c == "\t" else _escape(c) for c in line.removesuffix("\r"))
        out.append(f"\x1b[{colour}m{line}\x1b[0m" if colour else line)
    return "\n".join(out).encode()


def _position(place: Place | PlacedRelated) -> str:
    """The line, or the cell and the line in it."""
    return f"cell {place.cell}:{place.cell_line}" if place.cell else str(place.line)


def error_line(error: FileError) -> str:
    return f"devfix: {printable(error.path)}: {printable(error.message)}"


def unused(report: Report) -> Iterator[str]:
    """The suppressions that silence nothing."""
    from devfix.config import suggest
    from devfix.own.known import Known

    known = Known()
    for result in report.results:
        for line, id in result.unused:
            what = f"ignore[{id}]" if id else "ignore"
            why = "silences nothing; remove it"
            if id and id not in known:
                why = f"names no codemod{suggest(brief(id), known)}"
            yield f"devfix: {printable(f'{result.path}:{line}: `# devfix: {brief(what)}` {why}')}"


def unread(report: Report) -> Iterator[str]:
    """The cells of notebooks that were left out, since they do not parse."""
    for skipped in report.skipped:
        if skipped.reason.startswith(UNREAD):
            yield f"devfix: {printable(skipped.path)}: left out {skipped.reason}"


def check_summary(report: Report) -> str:
    """What a check found, in one line."""
    files = plural(report.files, "file")
    if not report.findings:
        return f"no findings in {files}{_errors(report)}"
    safeties = [
        finding.fix.safety if finding.fix is not None else None
        for result in report.results
        for finding in result.findings
    ]
    kinds = [(f"{safety.label} fix", safeties.count(safety)) for safety in sorted(Safety, reverse=True)]
    parts = [plural(count, what, "es") for what, count in kinds if count]
    if safeties.count(None):
        parts.append(f"{safeties.count(None)} without a fix")
    where = sum(1 for result in report.results if result.findings)
    text = f"{plural(report.findings, 'finding')} in {where} of {files}: {', '.join(parts)}{_errors(report)}"
    now, more = report.fixable, _more(report, remaining=False)
    if now:
        text += f"; `devfix diff` shows and `devfix apply` makes {now}"
        return text + (f", with `--unsafe` {more} more" if more else "")
    return text + (f"; `devfix apply --unsafe` makes {more}" if more else "")


def _more(report: Report, *, remaining: bool) -> int:
    """How many findings have a fix that only `--unsafe` makes."""
    return sum(
        finding.fix is not None and finding.fix.safety is Safety.UNSAFE < report.level_of(finding.codemod)
        for result in report.results
        for finding in (result.remaining if remaining else result.findings)
        if finding.codemod != SEEN
    )


def change_summary(report: Report, verb: str = "") -> str:
    """What a diff would change or an apply has written, in one line."""
    changed = [result for result in report.changed if not verb or result.path in set(report.written)]
    fixes = sum(result.applied for result in changed)
    left = sum(len(result.remaining) for result in report.results)
    what = f"{plural(fixes, 'fix', 'es')} in {len(changed)} of {plural(report.files, 'file')}"
    later = sum(max(0, one.applied + len(one.remaining) - len(one.findings)) for one in changed)
    text = (
        f"{what} {verb or 'to apply'}"
        if report.changed
        else f"nothing to change in {plural(report.files, 'file')}"
    )
    more = _more(report, remaining=True)
    text += f" ({later} found after other fixes)" if later else ""
    text += f", {plural(left, 'finding')} left" if left else ""
    return text + (f"; `--unsafe` makes {more}{' more' if fixes else ''}" if more else "") + _errors(report)


def details(report: Report) -> Iterator[str]:
    """What `--verbose` adds: what was skipped and why, and where the time went."""
    for skipped in report.skipped:
        yield f"skipped {printable(skipped.path)}: {skipped.reason}"
    slow = sorted(report.results, key=lambda result: -result.seconds)[:5]
    for result in slow:
        if result.seconds >= 0.1:
            yield f"{result.seconds:.2f} s in {printable(result.path)}"
    yield f"{report.files_read} of {plural(report.files, 'file')} read in {report.seconds:.2f} s"


def plural(number: int, what: str, ending: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else ending}"


def _errors(report: Report) -> str:
    return f", {plural(len(report.errors), 'error')}" if report.errors else ""
