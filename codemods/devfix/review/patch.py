"""The changes of a run as a patch that `git apply` takes as it is, byte for byte.

Lines end with LF only, as git sees them: a CR, a form feed or U+2028 is a byte of its line. Names
are relative to the working directory and quoted as git quotes them; a symbolic link stands for its
target. A file outside of the working directory keeps its `..`, which git takes only with
`git apply --unsafe-paths` outside of a repository.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from devfix.report import Change, FileResult, Report, Scope
from devfix.review.text import printable

CONTEXT = 3
_HEADER = 80  # what git keeps of a function's first line


@dataclass(frozen=True)
class Hunk:
    """0-based line ranges of before and after, context included, with what is in between."""

    first: int
    last: int
    new_first: int
    new_last: int
    lines: tuple[bytes, ...]
    changed: int  # first changed line of before
    indent: int | None  # indentation of the first line that is only inserted there


def patch(report: Report, *, explain: bool = False) -> bytes:
    """Every changed file of the report, in its order; empty if nothing changed.

    With `explain` each hunk has a `diff --git` header of its own, since only before such a header
    does git skip text: there stands which codemod changed what, and how safe it is.
    """
    return b"".join(file_patch(result, explain=explain) for result in report.changed)


def file_patch(result: FileResult, *, explain: bool = False) -> bytes:
    before, after = split(result.before), split(result.after)
    header = _file_header(result.path)
    out: list[bytes] = [] if explain else [header]
    for hunk in hunks(before, after):
        if explain:
            out.append(_explanation(result.changes, hunk))
            out.append(header)
        # With a header of its own a hunk is applied to what the hunks before it have made.
        first = hunk.new_first if explain else hunk.first
        old = _range(first, hunk.last - hunk.first)
        new = _range(hunk.new_first, hunk.new_last - hunk.new_first)
        function = _function(result.scopes, before, hunk)
        out.append(b"@@ -%s +%s @@%s\n" % (old, new, b" " + function if function else b""))
        out.extend(hunk.lines)
    return b"".join(out)


def hunk_lines(before: str, after: str) -> Iterator[str]:
    """The hunks of two texts without any file names, for people."""
    for hunk in hunks(split(before.encode()), split(after.encode())):
        old = _range(hunk.first, hunk.last - hunk.first)
        new = _range(hunk.new_first, hunk.new_last - hunk.new_first)
        yield (b"@@ -%s +%s @@" % (old, new)).decode()
        for line in hunk.lines:
            yield line.decode().rstrip("\n")


def split(data: bytes) -> list[bytes]:
    """Lines with their LF; the last one may have none."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


# --- names ---------------------------------------------------------------------------------

_ESCAPES = {
    7: b"\\a",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
    34: b'\\"',
    92: b"\\\\",
}


def quoted(name: bytes) -> bytes:
    """A path as git writes it: in quotes, with C escapes, where it is not plain ASCII."""
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in name):
        return name
    parts = (_ESCAPES.get(byte) or (bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte) for byte in name)
    return b'"' + b"".join(parts) + b'"'


def outside(path: str) -> bool:
    """True for a file outside of the working directory, which `git apply` refuses."""
    return _name(path).startswith((b"../", b"/"))


def _name(path: str) -> bytes:
    here = os.getcwd()
    real = os.path.realpath(path)
    if os.path.islink(path) or real != os.path.join(here, os.path.normpath(path)):
        path = os.path.relpath(real, here)
    return os.fsencode(os.path.normpath(path)).replace(os.fsencode(os.sep), b"/")


def _file_header(path: str) -> bytes:
    name = _name(path)
    old, new = quoted(b"a/" + name), quoted(b"b/" + name)
    # git ends a name with blanks by a tab, or other tools would cut it.
    end = b"\t\n" if b" " in name and not old.startswith(b'"') else b"\n"
    return b"diff --git %s %s\n--- %s%s+++ %s%s" % (old, new, old, end, new, end)


def _range(first: int, length: int) -> bytes:
    """Git's `start,length`: an empty range is numbered by the line before it, 1 is left out."""
    start = first + 1 if length else first
    return b"%d" % start if length == 1 else b"%d,%d" % (start, length)


# --- what stands around a hunk -------------------------------------------------------------


def _function(scopes: Sequence[Scope], before: list[bytes], hunk: Hunk) -> bytes:
    """First line of the innermost function or class that the hunk's first change is in."""
    line, indent = hunk.changed, hunk.indent
    if indent is not None:
        line -= 1  # new lines belong to the scope of the line above them, if they are deep enough
    found = b""
    for scope in scopes:
        if scope.first <= line <= scope.last and scope.header < len(before):
            header = before[scope.header].lstrip(b" \t\f")
            if indent is None or indent > len(before[scope.header]) - len(header):
                found = header.split(b"\r")[0].rstrip()[:_HEADER]
    return found


def _explanation(changes: Sequence[Change], hunk: Hunk) -> bytes:
    """Lines that git skips: one for each fix that has a part in the hunk."""
    out = []
    for change in changes:
        if any(first < hunk.last + 1 and last >= hunk.first for first, last in change.lines):
            text = f"# {change.codemod} ({change.safety.label}): {change.message}\n#   fix: {change.title}\n"
            out.append("".join(printable(line) + "\n" for line in text.splitlines()))
    return "".join(out).encode("utf-8", "backslashreplace")


# --- difference ----------------------------------------------------------------------------


def hunks(before: list[bytes], after: list[bytes]) -> Iterator[Hunk]:
    """Minimal hunks with three lines of context, as git groups them."""
    group: list[tuple[int, int, int, int]] = []
    for block in _differences(before, after):
        if group and block[0] - group[-1][1] > 2 * CONTEXT:
            yield _hunk(group, before, after)
            group = []
        group.append(block)
    if group:
        yield _hunk(group, before, after)


def _hunk(group: list[tuple[int, int, int, int]], before: list[bytes], after: list[bytes]) -> Hunk:
    first = max(0, group[0][0] - CONTEXT)
    last = min(len(before), group[-1][1] + CONTEXT)
    new_first = group[0][2] - (group[0][0] - first)
    lines: list[bytes] = []
    at = first
    for i1, i2, j1, j2 in group:
        lines.extend(_line(b" ", line) for line in before[at:i1])
        lines.extend(_line(b"-", line) for line in before[i1:i2])
        lines.extend(_line(b"+", line) for line in after[j1:j2])
        at = i2
    lines.extend(_line(b" ", line) for line in before[at:last])
    new_last = group[-1][3] + last - group[-1][1]
    i1, i2, j1, j2 = group[0]
    indent = None
    if i1 == i2:
        indent = next((len(x) - len(x.lstrip(b" \t\f")) for x in after[j1:j2] if x.strip()), 0)
    return Hunk(first, last, new_first, new_last, tuple(lines), i1, indent)


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


def _differences(before: list[bytes], after: list[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges (i1, i2, j1, j2) of lines that differ, in order.

    Lines that occur once on either side are the fixed points, and difflib works between them: on a
    whole file it takes seconds, since blank lines match everywhere.
    """
    i = j = 0
    pending: list[tuple[int, int, int, int]] = []
    for a, b in [*_anchors(before, after), (len(before), len(after))]:
        if a > i or b > j:
            pending.extend(_small_differences(before, after, i, a, j, b))
        i, j = a + 1, b + 1
    for block in pending:
        yield block


def _small_differences(
    before: list[bytes], after: list[bytes], i: int, a: int, j: int, b: int
) -> Iterator[tuple[int, int, int, int]]:
    while i < a and j < b and before[i] == after[j]:
        i, j = i + 1, j + 1
    while i < a and j < b and before[a - 1] == after[b - 1]:
        a, b = a - 1, b - 1
    if i == a or j == b:
        if i < a or j < b:
            yield i, a, j, b
        return
    matcher = SequenceMatcher(None, before[i:a], after[j:b], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield i + i1, i + i2, j + j1, j + j2


def _anchors(before: list[bytes], after: list[bytes]) -> list[tuple[int, int]]:
    """Lines that are unique on both sides, without those that changed their order (patience diff)."""
    unique_before, unique_after = _unique(before), _unique(after)
    pairs = [(i, unique_after[line]) for line, i in unique_before.items() if line in unique_after]
    # Longest run of pairs whose places in `after` rise.
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, b) in enumerate(pairs):
        at = bisect_left(tails, b)
        previous.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [b]
        ends[at : at + 1] = [index]
    found = []
    index = ends[-1] if ends else -1
    while index >= 0:
        found.append(pairs[index])
        index = previous[index]
    return found[::-1]


def _unique(lines: list[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for index, line in enumerate(lines):
        found[line] = -1 if line in found else index
    return {line: index for line, index in found.items() if index >= 0}
