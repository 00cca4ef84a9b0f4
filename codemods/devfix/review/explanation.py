"""An explained error for people: what it says, where it came about, the likely cause and its fix."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from devfix.errors.causes import Cause, Explanation
from devfix.findings import Safety
from devfix.review.patch import hunk_lines
from devfix.review.text import findings, printable


def lines(explanation: Explanation) -> Iterator[str]:
    """The explanation, line by line."""
    kind = explanation.kind
    assert kind is not None
    yield (
        click.style("error", fg="red", bold=True)
        + f": {printable(explanation.traceback.message.splitlines()[0])}"
    )
    yield f"  meaning: {kind.meaning}"
    yield from _where(explanation)
    if explanation.known:
        yield "  what devfix knows of the values on that line:"
        for known in explanation.known:
            at = f" (line {known.line})" if known.line else ""
            yield f"    {printable(known.expression)}: {printable(known.what)}{at}"
    for setting in explanation.settings:
        at = f"{printable(setting.path)}:{setting.line}"
        yield f"  a default of the whole program, set at {at}: {printable(setting.code)}"
        yield "    whatever names no device is made there, and a generator that names none stays on the CPU"
    if explanation.hint is not None:
        yield f"  operation: {explanation.hint.operation}"
        yield f"  most often the stray one: {explanation.hint.stray}"
        yield f"  look for: {explanation.hint.look}"
    if explanation.settings and not explanation.causes and explanation.explained:
        yield "  to fix it: give what shuffles or splits a generator of that device, or set no default"
        return
    if not explanation.causes:
        yield "  no cause found in these files; `devfix check` over the whole repository may know more"
        return
    several = len(explanation.causes) > 1
    for number, cause in enumerate(explanation.causes, 1):
        yield ""
        yield click.style(f"likely cause{f' {number}' if several else ''}:", bold=True)
        for line in findings(cause.path, (cause.finding,), level=Safety.UNSAFE):
            yield f"  {line}"
        yield from _repair(cause)


def _where(explanation: Explanation) -> Iterator[str]:
    if not explanation.traceback.frames:
        yield "  the text has no traceback, so only the kind of error is known"
    elif not explanation.places:
        yield "  none of its files is here; run devfix in the repository that it comes from"
    for place in explanation.places:
        path, line = printable(place.document.path), place.line
        note = "" if place.certain else " (the file has other code there now)"
        inside = f" in {printable(place.frame.function)}" if place.frame.function else ""
        code = printable(place.frame.code)
        yield f"  at {path}:{line}{inside}{note}{f': {code}' if code else ''}"


def _repair(cause: Cause) -> Iterator[str]:
    fix = cause.finding.fix
    if fix is None:
        return
    others = any(edit.path for edit in fix.edits)
    before, after = cause.texts
    if not others:
        for line in hunk_lines(before, after):
            yield f"    {printable(line)}"
    if fix.safety is Safety.MANUAL:
        yield "  this fix is only shown: it needs your judgement"
        return
    unsafe = " --unsafe" if fix.safety is Safety.UNSAFE else ""
    command = f"devfix apply --codemod {cause.finding.codemod}{unsafe} {shlex.quote(cause.path)}"
    yield f"  to fix it: {command}"
