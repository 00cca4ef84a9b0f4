"""Lines, indentation, newlines and comments of a parsed text."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from devfix.findings import Span, TextEdit
from devfix.text.lines import NEWLINE
from devfix.text.source import Source, children

_TAIL = re.compile(r"[ \t\f]*(?:;[ \t\f]*)?(#[^\r\n]*)?")
_CELL = re.compile(
    r"#\s*(%%|<codecell>|In\s*\[|region\b|endregion\b|fmt:|isort:|yapf:|pylint:|ruff:|devfix:|!)"
)
_PLACED = (ast.stmt, ast.expr, ast.excepthandler, ast.pattern, ast.arg, ast.keyword, ast.alias)
_LISTED = (ast.stmt, ast.expr, ast.keyword)  # what stands in lists in the order of the text
_GAPPED = ("keys", "kw_defaults")  # None where there is no node
_GROUPING = frozenset("=,([{:;+-*/%@&|^~<>!")
_KEYWORDS = frozenset(keyword.kwlist) - {"None", "True", "False"}
_FSTRING_START = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")} - {-1}
_FSTRING_END = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")} - {-1}


class CannotRewrite(Exception):
    """An edit was refused; the message says which and why, for the person who reads the report."""


class Layout:
    """Answers about the lines of a `Source`; lines are counted from 0."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text

    # --- lines -------------------------------------------------------------------------------

    @cached_property
    def line_count(self) -> int:
        starts = self.source.line_starts
        return len(starts) - (1 if starts[-1] == len(self.text) else 0)

    def line_at(self, offset: int) -> int:
        return bisect_right(self.source.line_starts, offset) - 1

    def start(self, line: int) -> int:
        """Offset of the line's first character; the text's end for the line after the last one."""
        starts = self.source.line_starts
        return starts[line] if line < len(starts) else len(self.text)

    def end(self, line: int) -> int:
        """Offset behind the line's last character, its newline excluded."""
        start = self.start(line)
        return start + len(self.text[start : self.start(line + 1)].rstrip("\r\n"))

    def content(self, line: int) -> str:
        return self.text[self.start(line) : self.end(line)]

    def newline(self, line: int) -> str:
        """How the line ends; the last line of a text without final newline takes its neighbour's way."""
        for near in (line, line - 1, line + 1):
            if 0 <= near < self.line_count and (found := self.text[self.end(near) : self.start(near + 1)]):
                return found
        return "\n"

    def with_newlines(self, text: str, at: int) -> str:
        """A text with the newlines of the line at an offset; as it stands where the file mixes them."""
        newline = self.newline(self.line_at(at))
        whole = self.source.text
        return text if whole.count("\n") > whole.count("\r\n") else NEWLINE.sub(newline, text)

    def indent(self, line: int) -> str:
        """Leading blanks that count: a form feed makes Python forget those before it."""
        content = self.content(line)
        blanks = content[: len(content) - len(content.lstrip(" \t\f"))]
        return blanks[blanks.rfind("\f") + 1 :]

    def is_blank(self, line: int) -> bool:
        return 0 <= line < self.line_count and not self.content(line).strip(" \t")

    def is_comment(self, line: int) -> bool:
        return 0 <= line < self.line_count and self.content(line).lstrip(" \t\f").startswith("#")

    def is_marker(self, line: int) -> bool:
        """A comment that speaks to a tool about what follows, such as `# %%`; it never moves."""
        return bool(_CELL.match(self.content(line).lstrip(" \t\f")))

    @cached_property
    def unit(self) -> str:
        """One step of indentation, as the file's first indented block has it."""
        for node in self.source.walk():
            if isinstance(node, ast.stmt) and not isinstance(self.source.parents[node], ast.Module):
                outer, inner = self.indent(self.header_line(node)), self.indent(self.first_line(node))
                if self.fresh(node) and inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    # --- statements --------------------------------------------------------------------------

    def first_line(self, statement: ast.stmt) -> int:
        return self.line_at(self.source.span(statement).start)

    def last_line(self, statement: ast.stmt) -> int:
        return int(statement.end_lineno or statement.lineno) - 1

    def header_line(self, statement: ast.stmt) -> int:
        """The line that begins the `if`, `else`, `case` ... of the block that the statement stands in."""
        parent = self.source.parents[statement]
        if isinstance(parent, ast.match_case):
            parent = parent.pattern
        assert isinstance(parent, (ast.stmt, ast.ExceptHandler, ast.pattern))
        return self.line_at(self.source.offset(parent.lineno, parent.col_offset))

    def fresh(self, statement: ast.stmt) -> bool:
        """Whether the statement begins its own line, rather than follow a `;` or a header's `:`."""
        start = self.source.span(statement).start
        line = self.line_at(start)
        if self.text[self.start(line) : start].strip(" \t\f"):
            return False
        return not (
            line and self.content(line - 1).endswith("\\") and not self._commented(statement, line - 1)
        )

    def _commented(self, statement: ast.stmt, line: int) -> bool:
        """Whether the backslash that ends the line above a statement is in a comment, and so continues nothing."""
        if self.is_comment(line):
            return True
        start, behind = self.source.span(statement).start, self.start(line)
        for node in children(self.source.parents[statement]):  # what ends last before the statement
            if isinstance(node, _PLACED) and node.end_lineno is not None and node.end_col_offset is not None:
                end = self.source.offset(node.end_lineno, node.end_col_offset)
                if end <= start:
                    behind = max(behind, end)
        return "#" in self.text[behind:start]

    def tail(self, statement: ast.stmt) -> tuple[int, int]:
        """Where the comment behind a statement begins and where its line ends; equal without one.

        Raises CannotRewrite if more than a comment follows.
        """
        end = self.source.span(statement).end
        stop = self.end(self.line_at(end))
        match = _TAIL.fullmatch(self.text, end, stop)
        if match is None:
            raise CannotRewrite(f"line {self.line_at(end) + 1}: the statement does not end its line")
        return (match.start(1) if match.group(1) else stop), stop

    def comments_above(self, statement: ast.stmt) -> int:
        """First line of the comments that stand directly on a statement, at its indentation.

        Those above the file's first statement (a shebang, a licence) and markers belong to none.
        """
        first = line = self.first_line(statement)
        if statement is self.source.tree.body[0]:
            return first
        indent = self.indent(first)
        while self.is_comment(line - 1) and self.indent(line - 1) == indent and not self.is_marker(line - 1):
            line -= 1
        return line

    def describe(self, span: Span) -> str:
        """Where something stands and what it is, for messages."""
        line, column = self.source.position(min(span.start, len(self.text)))
        code = NEWLINE.split(self.text[span.start : span.end])[0]
        return f"line {line}, column {column}: `{code if len(code) <= 60 else code[:57] + '...'}`"

    # --- nodes -------------------------------------------------------------------------------

    def _point(self, offset: int) -> tuple[int, int]:
        line = self.line_at(offset)
        return line + 1, len(self.text[self.start(line) : offset].encode("utf-8", "surrogatepass"))

    def nodes(self, span: Span) -> Iterator[ast.AST]:
        """Every node that covers exactly `span`, outermost first.

        f-strings are not looked into: positions in them differ between versions of Python, and what
        may be written there does too.
        """
        if not 0 <= span.start < span.end <= len(self.text):
            return
        low, high = self._point(span.start), self._point(span.end)
        todo: list[ast.AST] = [self.source.tree]
        while todo:
            node = todo.pop()
            if isinstance(node, (ast.stmt, ast.expr)) and self.source.span(node) == span:
                yield node
            if isinstance(node, ast.JoinedStr) or type(node).__name__ == "TemplateStr":
                continue
            for child in _reaching(node, high):
                if isinstance(child, _PLACED):
                    begin = (child.lineno, child.col_offset)
                    if decorators := getattr(child, "decorator_list", None):
                        begin = (decorators[0].lineno - 1, 0)
                    if begin > low or (child.end_lineno or 0, child.end_col_offset or 0) < high:
                        continue
                todo.append(child)

    def statement(self, span: Span) -> ast.stmt:
        for node in self.nodes(span):
            if isinstance(node, ast.stmt):
                return node
        raise CannotRewrite(f"{self.describe(span)} is not a whole statement")

    def expression(self, span: Span) -> ast.expr:
        for node in self.nodes(span):
            if isinstance(node, ast.expr):
                return node
        raise CannotRewrite(f"{self.describe(span)} is not a whole expression, or it is inside an f-string")

    def grouped(self, span: Span) -> Span | None:
        """`span` with the parentheses around it, if they do nothing but group; None where unsure."""
        before = self.text[: span.start].rstrip(" \t\r\n")
        after = len(self.text) - len(self.text[span.end :].lstrip(" \t\r\n"))
        if not before.endswith("(") or not self.text.startswith(")", after):
            return None
        line = self.line_at(span.start)
        while self.start(line) > len(before) - 1:
            line -= 1
            if "#" in self.content(line):
                return None
        opening = len(before) - 1
        head = self.text[self.start(self.line_at(opening)) : opening].rstrip(" \t\f")
        if head and head[-1] not in _GROUPING:
            word = re.search(r"(?<!\w)\w+$", head)
            if word is None or word.group() not in _KEYWORDS:
                return None
        return Span(opening, after + 1)


# --- texts ---------------------------------------------------------------------------------------


def tokens(code: str) -> list[tokenize.TokenInfo]:
    """Tokens of a text; raises CannotRewrite where `tokenize` gives up."""
    unified = NEWLINE.sub("\n", code)
    try:
        return list(tokenize.generate_tokens(io.StringIO(unified).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise CannotRewrite(f"the text cannot be split into tokens: {error}") from None


def comments(code: str) -> list[str]:
    """Every comment of a text, in order."""
    if "#" not in code:
        return []
    return [token.string for token in tokens(code) if token.type == tokenize.COMMENT]


def reindent(code: str, old: str, new: str, newline: str) -> str:
    """Lines moved from indentation `old` to `new`; the inside of strings stays as it is.

    The first line may stand at `old` or have no indentation at all.
    """
    lines = NEWLINE.split(code)
    inside: set[int] = set()
    if len(lines) > 1:
        depth, opened = 0, 0
        for token in tokens(code):
            if token.type == tokenize.STRING:
                inside.update(range(token.start[0], token.end[0]))
            elif token.type in _FSTRING_START:
                opened = opened if depth else token.start[0]
                depth += 1
            elif token.type in _FSTRING_END:
                depth -= 1
                if not depth:
                    inside.update(range(opened, token.end[0]))
    done = []
    for number, line in enumerate(lines):
        if number in inside or not line.strip(" \t\f"):
            done.append(line)
        elif number == 0:
            done.append(new + line.lstrip(" \t\f"))
        else:
            done.append(new + line[len(old) :] if line.startswith(old) else line)
    return newline.join(done)


def skip_back(text: str, at: int) -> int:
    """The end of what stands before `at`, without blanks and continued lines."""
    while at and text[at - 1] in " \t\f\\\r\n":
        at -= 1
    return at


def trim(old: str, new: str) -> tuple[int, int]:
    """How many characters two texts have in common at the beginning, and at the end of the rest."""
    limit = min(len(old), len(new))
    head = next((at for at in range(limit) if old[at] != new[at]), limit)
    limit -= head
    foot = next((at for at in range(limit) if old[-1 - at] != new[-1 - at]), limit)
    return head, foot


def rank(edit: TextEdit) -> tuple[int, int, int, int]:
    """Sort key: at one point whole lines that end there come first, then what is inside the line,
    then whole lines that follow it; of those that follow, the deeper ones first."""
    start, end, text = edit.span.start, edit.span.end, edit.text
    if start != end:
        return start, end, 0, 0
    if is_line(edit):
        line = text.lstrip("\r\n")
        depth = len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs())
        return start, end, 2 if text[0] in "\r\n" else 0, -depth
    return start, end, 1, 0


def is_line(edit: TextEdit) -> bool:
    """Whether an edit inserts whole lines, which can stand beside any other such insertion."""
    text = edit.text
    return edit.span.start == edit.span.end and text != "" and (text[0] in "\r\n" or text[-1] in "\r\n")


def in_order(edits: Iterable[TextEdit]) -> tuple[TextEdit, ...]:
    """Edits sorted for `apply`; equal points keep their given order. Raises CannotRewrite on overlap."""
    found = tuple(sorted(edits, key=rank))
    reached = 0
    for edit in found:
        if edit.span.start < reached:
            raise CannotRewrite("two edits of the same fix overlap")
        reached = max(reached, edit.span.end)
    return found


def _reaching(node: ast.AST, place: tuple[int, int]) -> Iterator[ast.AST]:
    """The nodes right below one; of a list of them, only the first that ends at a place or behind it."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], _LISTED) and name not in _GAPPED:
            at = bisect_left(value, place, key=lambda one: (one.end_lineno, one.end_col_offset))
            yield from value[at : at + 1]
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, ast.AST))
