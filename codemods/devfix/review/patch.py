"""The changes of a run as a patch that `git apply` takes as it is, byte for byte.

Lines end with LF only, as git sees them: a CR, a form feed or U+2028 is a byte of its line. Names
are quoted as git quotes them, a symbolic link stands for its target, and names count from where
git counts them in a patch with `diff --git` headers: from the top of the repository that the
working directory is in, or from the working directory itself where there is none. (Without such
headers git guesses in sub-folders how much of a name to strip, and takes `site/site/x.py` for
`site/x.py`.) Git skips files outside of the working directory without a word: see `outside`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devfix.pipeline.listing import upward
from devfix.reports.report import Change, FileResult, Report, Scope
from devfix.review.text import printable

CONTEXT = 3
_MOST = 2000  # differences; beyond it a patch is one block
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
    top = _top()
    return b"".join(file_patch(result, top, explain=explain) for result in report.changed)


def file_patch(result: FileResult, top: str, *, explain: bool = False) -> bytes:
    """The part of a patch for one file, named from the folder `top`."""
    before, after = split(result.before), split(result.after)
    header = _file_header(_name(result.path, top), made=result.made)
    out: list[bytes] = [] if explain else [header]
    for hunk in hunks(before, after):
        if explain:
            out.append(_explanation(result.changes, hunk))
            out.append(header)
        # With a header of its own a hunk is applied to what the hunks before it have made.
        first = hunk.new_first if explain else hunk.first
        function = _function(result.scopes, before, hunk)
        out.append(_head(hunk, first) + (b" " + function if function else b"") + b"\n")
        out.extend(hunk.lines)
    return b"".join(out)


def hunk_lines(before: str, after: str) -> Iterator[str]:
    """The hunks of two texts without any file names, for people."""
    for hunk in hunks(split(before.encode()), split(after.encode())):
        yield _head(hunk, hunk.first).decode()
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
    """True for a file outside of the working directory, which `git apply` skips or refuses."""
    return not os.path.realpath(path).startswith(os.getcwd().rstrip(os.sep) + os.sep)


def _name(path: str, top: str) -> bytes:
    return os.fsencode(os.path.relpath(os.path.realpath(path), top)).replace(os.fsencode(os.sep), b"/")


def _top() -> str:
    """The top of the repository that the working directory is in; else that directory itself."""
    here = os.getcwd()
    for folder in upward(here):
        git = os.path.join(folder, ".git")
        if os.path.isfile(git) or os.path.isfile(os.path.join(git, "HEAD")):
            return folder
    return here


def _file_header(name: bytes, *, made: bool) -> bytes:
    old, new = quoted(b"a/" + name), quoted(b"b/" + name)
    if made:
        end = b"\t\n" if b" " in name and not new.startswith(b'"') else b"\n"
        return b"diff --git %s %s\nnew file mode 100644\n--- /dev/null\n+++ %s%s" % (old, new, new, end)
    # git ends a name with blanks by a tab, or other tools would cut it.
    end = b"\t\n" if b" " in name and not old.startswith(b'"') else b"\n"
    return b"diff --git %s %s\n--- %s%s+++ %s%s" % (old, new, old, end, new, end)


def _head(hunk: Hunk, first: int) -> bytes:
    old = _range(first, hunk.last - hunk.first)
    return b"@@ -%s +%s @@" % (old, _range(hunk.new_first, hunk.new_last - hunk.new_first))


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
    """Text that git skips: what each fix that has a part in the hunk is for."""
    out: dict[str, None] = {}  # a fix that was made several times in the hunk is named once
    for change in changes:
        if any(first <= hunk.last and last >= hunk.first for first, last in change.lines):
            said = printable(f"# {change.codemod} ({change.safety.label}): {change.message}")
            also = f" (together with {', '.join(change.also)})" if change.also else ""
            fix = printable(f"#   fix: {change.title}{also}")
            verdict = f"{printable(f'#   {change.verdict}')}\n" if change.verdict else ""
            out[f"{said}\n{fix}\n{verdict}"] = None
    return "".join(out).encode("utf-8", "backslashreplace")


# --- difference ----------------------------------------------------------------------------


def hunks(before: list[bytes], after: list[bytes], context: int = CONTEXT) -> Iterator[Hunk]:
    """Minimal hunks with some lines of context, as git groups them."""
    group: list[tuple[int, int, int, int]] = []
    for block in _differences(before, after):
        if group and block[0] - group[-1][1] > 2 * context:
            yield _hunk(group, before, after, context)
            group = []
        group.append(block)
    if group:
        yield _hunk(group, before, after, context)


def _hunk(
    group: list[tuple[int, int, int, int]], before: list[bytes], after: list[bytes], context: int
) -> Hunk:
    first = max(0, group[0][0] - context)
    last = min(len(before), group[-1][1] + context)
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


def _differences(before: list[bytes], after: list[bytes]) -> list[tuple[int, int, int, int]]:
    """Ranges (i1, i2, j1, j2) of lines that differ, in order; the fewest lines that can be.

    Myers' algorithm, as in git: the time is that of the lines times the differences. (difflib takes
    the lines times the lines, a minute for a long file with many blank ones.)
    """
    start, end, new_end = 0, len(before), len(after)
    while start < end and start < new_end and before[start] == after[start]:
        start += 1
    while end > start and new_end > start and before[end - 1] == after[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    found: list[tuple[int, int, int, int]] = []
    i = j = start
    for a, b in [*_common(before, after, start, end, new_end), (end, new_end)]:
        if a > i or b > j:
            found.append((i, a, j, b))
        i, j = a + 1, b + 1
    return found


def _common(
    before: list[bytes], after: list[bytes], start: int, end: int, new_end: int
) -> list[tuple[int, int]]:
    """Pairs of lines that stay, between `start` (of both) and the ends."""
    height, width = end - start, new_end - start
    if not height or not width:
        return []
    furthest = {1: 0}  # diagonal (i - j) -> how far down it we can come
    trace: list[dict[int, int]] = []
    for differences in range(min(height + width, _MOST) + 1):
        trace.append(dict(furthest))
        for k in range(-differences, differences + 1, 2):
            down = k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])
            i = furthest[k + 1] if down else furthest[k - 1] + 1
            j = i - k
            while i < height and j < width and before[start + i] == after[start + j]:
                i, j = i + 1, j + 1
            furthest[k] = i
            if i >= height and j >= width:
                return _trace_back(trace, height, width, start)
    return []  # nearly everything differs


def _trace_back(trace: list[dict[int, int]], i: int, j: int, start: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for differences in range(len(trace) - 1, -1, -1):
        furthest, k = trace[differences], i - j
        down = k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])
        previous = furthest[k + 1] if down else furthest[k - 1]
        stop = previous if down else previous + 1
        while i > stop and j > 0:
            i, j = i - 1, j - 1
            pairs.append((start + i, start + j))
        i, j = previous, previous - (k + 1 if down else k - 1)
    return pairs[::-1]
