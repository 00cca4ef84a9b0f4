"""Parts of a file with what fixes make of them, for any choice of fixes.

A *block* is a few lines that edits touch, with the lines that come of each set of these edits. Edits that
two fixes share (the same import) are one edit with two owners: it is made while one of them is wanted.
A *hunk* is some lines of the file with the blocks in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from devfix.findings import Span, TextEdit
from devfix.review.html.colours import Colours
from devfix.review.html.texts import Text, shown
from devfix.review.patch import hunks as differences
from devfix.rewrite import CannotRewrite, apply, select
from devfix.text.lines import line_starts

CONTEXT = 3
_MOST = 5  # edits in a block of which every set is worked out
_SCOPE = re.compile(r"([ \t]*)(?:async[ \t]+def|def|class)\b")


@dataclass(frozen=True)
class Wanted:
    """What one fix does to one file; `owner` is the finding's number."""

    owner: int
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True)
class Mark:
    """A line that a finding points at, with columns from 0; `related` is not its own place."""

    owner: int
    line: int
    start: int
    end: int
    related: bool = False  # less is shown around it


@dataclass(frozen=True)
class Block:
    """Lines `first` to before `last`, and the edits in them with their owners."""

    first: int
    last: int
    edits: tuple[tuple[TextEdit, tuple[int, ...]], ...]


def blocks(text: Text, wanted: Sequence[Wanted]) -> list[Block]:
    """The blocks of a file, in order."""
    owners: dict[TextEdit, dict[int, None]] = {}
    for one in wanted:
        for edit in one.edits:
            owners.setdefault(edit, {})[one.owner] = None
    found: list[Block] = []
    touched = sorted((*_lines(text, edit), edit) for edit in owners)
    for first, last, edit in touched:
        mine = (edit, tuple(owners[edit]))
        if found and (first < found[-1].last or (first, last) == (found[-1].first, found[-1].last)):
            before = found.pop()
            found.append(Block(before.first, max(before.last, last), (*before.edits, mine)))
        else:
            found.append(Block(first, last, (mine,)))
    return found


def conflicts(wanted: Sequence[Wanted]) -> dict[int, list[int]]:
    """By owner, the fixes before it that cannot be made at once with it."""
    found: dict[int, list[int]] = {}
    ordered = sorted(
        (edit.span.start, edit.span.end, at) for at, one in enumerate(wanted) for edit in one.edits
    )
    near: set[tuple[int, int]] = set()
    open_: list[tuple[int, int]] = []  # end and index of what may still touch
    for start, end, at in ordered:
        open_ = [pair for pair in open_ if pair[0] >= start]
        near |= {(min(at, other), max(at, other)) for _, other in open_ if other != at}
        open_.append((end, at))
    for one, other in sorted(near):
        if len(select([wanted[one].edits, wanted[other].edits])) == 1:
            found.setdefault(wanted[other].owner, []).append(wanted[one].owner)
    return found


def hunks(
    text: Text, blocks: Sequence[Block], marks: Sequence[Mark], colours: Colours, more: int
) -> list[dict[str, Any]]:
    """The hunks of a file as the page's data; `more` lines around each can be unfolded."""
    ranges = [(block.first, block.last, CONTEXT) for block in blocks]
    ranges += [(mark.line, mark.line + 1, 1 if mark.related else CONTEXT) for mark in marks]
    seen = _windows(text, ranges)
    out = []
    for at, (first, last) in enumerate(seen):
        cell, start, end = text.cell_of(min(first, max(text.count - 1, 0)))
        low = max(first - more, start, seen[at - 1][1] if at else 0)
        high = min(last + more, end, seen[at + 1][0] if at + 1 < len(seen) else end)
        low, high = min(low, first), max(high, last)
        lines = [text.line(line) for line in range(low, high)]
        begun = colours.begun(text.text, text.starts[low]) if low < len(text.starts) else ""
        inside = [block for block in blocks if first <= block.first and block.last <= last]
        out.append(
            {
                "at": low,
                "no": low - start + 1,
                "cell": cell,
                "see": [first - low, last - low],
                "scope": _scope(text, first, start),
                "lines": [list(pair) for pair in zip(lines, colours.runs(lines, begun), strict=True)],
                "blocks": [_block(text, block, low, colours) for block in inside],
                "marks": [
                    [mark.line - low, *_columns(text, mark), mark.owner, int(mark.related)]
                    for mark in marks
                    if first <= mark.line < last
                ],
            }
        )
    return out


def made(text: str, owner: int, colours: Colours) -> dict[str, Any]:
    """The only hunk of a file that a fix makes."""
    lines = [shown(line) for line in text.splitlines()]
    added = [list(pair) for pair in zip(lines, colours.runs(lines), strict=True)]
    block = {"at": 0, "n": 0, "owners": [[owner]], "rows": {"1": added}}
    return {**empty(1), "blocks": [block]}


def empty(number: int) -> dict[str, Any]:
    """A hunk without lines."""
    return {
        "at": 0, "no": number, "cell": 0, "see": [0, 0], "scope": "", "lines": [], "blocks": [], "marks": [],
    }  # fmt: skip


def composed(text: Text, wanted: Sequence[Wanted]) -> str | None:
    """The text with all fixes in it that can be made at once; None where that cannot be said."""
    from devfix.rewrite import merge

    chosen = select([one.edits for one in wanted])
    try:
        return apply(text.text, merge([wanted[at].edits for at in chosen]))
    except CannotRewrite:
        return None


# --- one block -----------------------------------------------------------------------------------


def _lines(text: Text, edit: TextEdit) -> tuple[int, int]:
    """First line that an edit touches, and the line behind the last; equal for inserted lines."""
    start, end = edit.span.start, edit.span.end
    first, last = text.line_of(start), text.line_of(end)
    whole = text.starts[first] == start and text.starts[last] == end and edit.text[-1:] in ("", "\n", "\r")
    if whole and (edit.text or first != last):
        return first, last
    return first, min(last + 1, max(text.count, 1))


def _block(text: Text, block: Block, low: int, colours: Colours) -> dict[str, Any]:
    count = len(block.edits)
    masks: Iterable[int] = range(1, 1 << count)
    if count > _MOST:
        masks = [1 << at for at in range(count)] + [(1 << count) - 1]
    rows = {}
    for mask in masks:
        edits = [edit for at, (edit, _) in enumerate(block.edits) if mask >> at & 1]
        found = _rows(text, block, edits, low, colours)
        if found is not None:
            rows[str(mask)] = found
    owners = [list(owned) for _, owned in block.edits]
    return {"at": block.first - low, "n": block.last - block.first, "owners": owners, "rows": rows}


def _rows(
    text: Text, block: Block, edits: Sequence[TextEdit], low: int, colours: Colours
) -> list[int | list[str]] | None:
    """What comes of a block: a line of the hunk that stays, or -1 - its number if it goes, or a new one."""
    start = text.starts[block.first] if block.first < len(text.starts) else len(text.text)
    end = text.starts[block.last] if block.last < len(text.starts) else len(text.text)
    moved = [TextEdit(Span(edit.span.start - start, edit.span.end - start), edit.text) for edit in edits]
    try:
        after = apply(text.text[start:end], moved)
    except CannotRewrite:
        return None
    result = _split(after)
    runs = colours.runs([shown(line) for line in result], colours.begun(text.text, start))
    before = [_line_bytes(text.raw(line)) for line in range(block.first, block.last)]
    now = [_line_bytes(line) for line in result]
    rows: list[int | list[str]] = []
    old = new = 0
    for hunk in differences(before, now, len(before) + len(now) + 1):
        for line in hunk.lines:
            if line.startswith(b"+"):
                rows.append([shown(result[new]), runs[new]])
                new += 1
                continue
            at = block.first - low + old
            rows.append(at if line.startswith(b" ") else -1 - at)
            old += 1
            new += line.startswith(b" ")
    return rows or [block.first - low + at for at in range(len(before))]


def _split(text: str) -> list[str]:
    starts = line_starts(text)
    ends = [*starts[1:], len(text)]
    lines = [text[a:b].rstrip("\r\n") for a, b in zip(starts, ends, strict=True)]
    return lines[:-1] if starts[-1] == len(text) else lines


def _line_bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogatepass") + b"\n"


# --- which lines ----------------------------------------------------------------------------------


def _windows(text: Text, ranges: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Ranges of lines, each with so many around it, put together where they meet, within cells."""
    out: list[tuple[int, int]] = []
    spread = []
    for first, last, around in ranges:
        _, start, end = text.cell_of(min(first, max(text.count - 1, 0)))
        spread.append((min(max(first - around, start), first), max(min(last + around, end), last), start))
    for low, high, start in sorted(spread):
        if out and low <= out[-1][1] and out[-1][1] > start:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _scope(text: Text, first: int, start: int) -> str:
    """The `def` or `class` line above that the first lines of a hunk are in."""
    indent: int | None = None
    for line in range(first, max(first - 400, start - 1), -1):
        if line >= text.count:
            continue
        raw = text.raw(line)
        if not raw.strip():
            continue
        if indent is None:
            indent = len(raw) - len(raw.lstrip())
            continue
        found = _SCOPE.match(raw)
        if found and len(found[1]) < indent:
            return shown(raw.strip())[:100]
        indent = min(indent, len(raw) - len(raw.lstrip()))
    return ""


def _columns(text: Text, mark: Mark) -> tuple[int, int]:
    """The columns of a mark in the line as it is shown."""
    raw = text.raw(mark.line)
    return len(shown(raw[: mark.start])), len(shown(raw[: mark.end]))
