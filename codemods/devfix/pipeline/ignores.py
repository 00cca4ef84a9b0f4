"""Writing suppression comments: `# devfix: ignore[ID]` on the line of each finding."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace

from devfix.documents import Document
from devfix.pipeline.work import Task
from devfix.reports.report import Change, FileResult, PlacedFinding
from devfix.text.lines import line_starts


def ignored(document: Document, found: Iterable[PlacedFinding], others: int, task: Task) -> FileResult | None:
    """The document with the findings silenced that were found; None where comments cannot silence them.

    It has so many others, which may stay.

    Nothing but comments is added, and a look at the result says whether they do what they should.
    """
    if not document.path.endswith(".py"):
        return None
    wanted: dict[int, list[str]] = {}
    for finding in found:
        wanted.setdefault(finding.place.line, []).append(finding.codemod)
    ends = _line_ends(document.text)
    starts = line_starts(document.text)
    comments: dict[int, dict[str, None]] = {}
    for line, ids in wanted.items():
        end = next((number for number in range(line, len(starts) + 1) if number in ends), None)
        if end is not None:
            comments.setdefault(end, {}).update(dict.fromkeys(ids))
    text = document.text
    for line, names in sorted(comments.items(), reverse=True):
        at = _end_of(text, starts, line)
        text = f"{text[:at].rstrip(' ')}  # devfix: ignore[{', '.join(sorted(names))}]{text[at:]}"
    after = document.encode(text)
    check = replace(task, repair=False, selection=None)
    left = check.document(Document.of(document.path, after))
    if left.error is not None or len(left.findings) > others:
        return None
    changes = tuple(
        Change(id, "silenced", "silence it", task.level, ((line - 1, line - 1),))
        for line, names in comments.items()
        for id in names
    )
    return FileResult(
        document.path, before=document.data, after=after, digest=document.digest, changes=changes
    )


def _line_ends(text: str) -> set[int]:
    """The 1-based lines behind whose end a comment may stand: not in a string, not before a backslash's join."""
    import tokenize

    ends: set[int] = set()
    lines = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
    try:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL):
                ends.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return set()
    return ends


def _end_of(text: str, starts: list[int], line: int) -> int:
    end = starts[line] if line < len(starts) else len(text)
    while end > starts[line - 1] and text[end - 1] in "\r\n":
        end -= 1
    return end
