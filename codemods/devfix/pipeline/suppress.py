"""Comments that silence devfix.

`# devfix: skip-file` in any comment of a file: the file is not analysed.
`# devfix: ignore[ID, ID]` or `# devfix: ignore` (every codemod) at the end of a line: the findings
that start on that line, or on the statement (for `with`, `for`, `if`, `def`: its header) that the
line belongs to. A comment may say something else first: `# noqa  # devfix: ignore`.
"""

from __future__ import annotations

import ast
import io
import re
from bisect import bisect_right
from collections.abc import Iterator

from devfix.findings import Finding, Span
from devfix.reports.report import SEEN
from devfix.text.source import Source, remembered

MARK = "devfix:"
_SKIP = re.compile(r"#\s*devfix:\s*skip-file\b")
IGNORE = re.compile(r"#\s*devfix:\s*ignore\b(?!-)(?:\s*\[([^\]#]*)\])?")
_NEWLINES = re.compile(r"\r\n|\r")


def skips_file(text: str) -> bool:
    """True if a comment, not a string, says `devfix: skip-file`."""
    if MARK not in text or not _SKIP.search(text):
        return False
    return any(_SKIP.search(comment) for _, comment in _comments(text))


def unsuppressed(source: Source, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that no comment silences."""
    if not findings or MARK not in source.text:
        return findings
    ignored = _ignored_lines(source.text)
    if not ignored:
        return findings
    kept = []
    for finding in findings:
        first, last = _lines(source, finding.span.start)
        silenced = (ignored[line] for line in range(first, last + 1) if line in ignored)
        if not any(ids is None or finding.codemod in ids for ids in silenced):
            kept.append(finding)
    return tuple(kept)


def unused(source: Source, findings: tuple[Finding, ...], ids: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """Line (from 1) and id of each suppression of one of `ids`, or of no codemod, that silences none of all `findings`.

    A comment that names no id counts as a whole; its id is empty.
    """
    if MARK not in source.text:
        return ()
    from devfix.own.known import Known

    others = {"", SEEN, *Known()} - ids  # nobody knows here what they would find
    ignored = _ignored_lines(source.text)
    used: dict[int, set[str]] = {}
    for finding in findings if ignored else ():
        first, last = _lines(source, finding.span.start)
        for line in range(first, last + 1):
            used.setdefault(line, set()).add(finding.codemod)
    found = []
    for line, named in sorted(ignored.items()):
        if named is None:
            found += [(line, "")] if not used.get(line) else []
        else:
            found += [(line, id) for id in sorted(named - others - used.get(line, set()))]
    return tuple(found)


def _ignored_lines(text: str) -> dict[int, frozenset[str] | None]:
    """1-based line -> ids that are ignored there; None stands for all."""
    found: dict[int, frozenset[str] | None] = {}
    for line, comment in _comments(text):
        for match in IGNORE.finditer(comment):
            if match[1] is None:
                found[line] = None
            elif (known := found.get(line, frozenset())) is not None:
                found[line] = known | frozenset(word.strip() for word in match[1].split(","))
    return found


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """1-based line and text of every comment, up to the first thing that is no token."""
    import tokenize  # only files that mention devfix pay for it

    # One kind of newline: the tokenizers of different Python versions count lone CRs differently.
    lines = io.StringIO(_NEWLINES.sub("\n", text))
    try:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT and MARK in token.string:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):  # a broken file is reported by the parser
        return


def _lines(source: Source, offset: int) -> tuple[int, int]:
    """First and last line of the innermost statement at `offset`; of its header, if it has a body."""
    line = bisect_right(source.line_starts, offset)
    first, last = line, line
    node: ast.AST | None = source.tree
    while node is not None:
        children = _children(source, node)
        if node is not source.tree:
            first = _first_line(node)
            last = getattr(node, "end_lineno", None) or first
            if children:  # up to the line before the body, or the same line where they share it
                last = max(first, _first_line(children[0][1]) - 1)
        at = bisect_right(children, offset, key=lambda child: child[0].start) - 1
        node = children[at][1] if at >= 0 and offset < children[at][0].end else None
    return min(first, line), max(last, line)


@remembered
def _children(source: Source, node: ast.AST) -> list[tuple[Span, ast.AST]]:
    """The parts of the blocks of a statement, in the order of the text, and where they are."""
    found: list[tuple[Span, ast.AST]] = []
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        value = getattr(node, field, None)
        found += [(_span(source, child), child) for child in value] if isinstance(value, list) else []
    return sorted(found, key=lambda child: child[0])


def _first_line(node: ast.AST) -> int:
    """Of a statement (decorators included), an except clause or a case."""
    start = node.pattern if isinstance(node, ast.match_case) else node
    lines: list[int] = [start.lineno]  # type: ignore[attr-defined]
    lines.extend(decorator.lineno for decorator in getattr(node, "decorator_list", ()))
    return min(lines)


def _span(source: Source, node: ast.AST) -> Span:
    """Where a part of a block stands; of a case, its statements."""
    if isinstance(node, ast.match_case):
        return Span(source.span(node.body[0]).start, source.span(node.body[-1]).end)
    return source.span(node)
