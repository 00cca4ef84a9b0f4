"""Edits of whole statements: inserted, deleted, moved; each brings its comments and blank lines along.

Nearly every statement has its lines to itself, and is edited as lines. Those that share a line,
behind a `;` or behind the `:` of a header, form a `_Row` and are spread over lines where needed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from devfix.findings import Span, TextEdit
from devfix.rewrite.layout import CannotRewrite, Layout, comments, rank, reindent, skip_back, trim
from devfix.text.lines import NEWLINE


@dataclass(frozen=True)
class _Text:
    """Lines to insert: their code and the indentation it is written with."""

    code: str
    indent: str = ""


@dataclass
class _Plan:
    """What happens around one statement."""

    before: list[_Text] = field(default_factory=list)
    after: list[_Text | ast.stmt] = field(default_factory=list)
    deleted: bool = False
    moved: bool = False
    header: str = ""  # that it is put under

    @property
    def gone(self) -> bool:
        return self.deleted or self.moved


class Statements:
    """Collects the statement edits of one fix; `edits` gives them together with the others."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._source = layout.source
        self._plans: dict[ast.stmt, _Plan] = {}
        self._fixed: list[TextEdit] = []
        self._pieces: list[TextEdit] = []
        self._cut: list[tuple[int, int]] = []  # lines that go, first and behind the last
        self._found: list[TextEdit] = []

    # --- collecting ------------------------------------------------------------------------------

    def add(self, edit: TextEdit) -> None:
        self._fixed.append(edit)

    def insert(self, anchor: Span, text: str, before: bool) -> None:
        statement = self._anchor(anchor)
        text = text.strip("\r\n")
        if not _parsed(text):
            raise CannotRewrite(f"`{NEWLINE.split(text)[0]}` is not a statement")
        plan = self._plan(statement)
        (plan.before if before else plan.after).append(_Text(text))

    def wrap(self, span: Span, header: str) -> None:
        if "\n" in header or len(_parsed(f"{header}\n    pass")) != 1:
            raise CannotRewrite(f"`{header}` is not the header of a block")
        plan = self._plan(self._anchor(span))
        if plan.header:
            raise CannotRewrite(f"{self._layout.describe(span)} is put under two headers")
        plan.header = header

    def delete(self, span: Span) -> None:
        plan = self._plan(self._anchor(span))
        if plan.moved:
            raise CannotRewrite(f"{self._layout.describe(span)} is both moved and deleted")
        plan.deleted = True

    def move(self, span: Span, after: Span) -> None:
        statement, anchor = self._anchor(span), self._anchor(after)
        if statement is anchor or self._within(anchor, statement):
            raise CannotRewrite(f"{self._layout.describe(span)} cannot move behind itself")
        block = self._source.block(statement)
        index = block.index(statement)
        if index and block[index - 1] is anchor and not self._plan(anchor).after:
            return
        plan = self._plan(statement)
        if plan.gone:
            raise CannotRewrite(f"{self._layout.describe(span)} is moved twice, or moved and deleted")
        plan.moved = True
        self._plan(anchor).after.append(statement)

    def _plan(self, statement: ast.stmt) -> _Plan:
        return self._plans.setdefault(statement, _Plan())

    def _anchor(self, span: Span) -> ast.stmt:
        statement = self._layout.statement(span)
        if isinstance(statement, ast.If) and self._source.text.startswith("elif", span.start):
            raise CannotRewrite(f"{self._layout.describe(span)} is an arm of another `if`")
        return statement

    def _within(self, inner: ast.AST, outer: ast.AST) -> bool:
        node: ast.AST | None = inner
        while node is not None and node is not outer:
            node = self._source.parents.get(node)
        return node is outer

    # --- text edits --------------------------------------------------------------------------------

    def edits(self, pieces: Sequence[TextEdit]) -> list[TextEdit]:
        """All edits of the fix, `pieces` (those inside of statements) included; not sorted."""
        self._pieces = list(pieces)
        for statement, plan in self._plans.items():
            if plan.header:
                self._alone(statement, "is put under a header")
        gone = [statement for statement, plan in self._plans.items() if plan.gone]
        self._check(gone)
        done: set[ast.stmt] = set()
        for statement in list(self._plans):
            if statement not in done:
                row = self._row(statement)
                done.update(row)
                if len(row) == 1 and self._layout.fresh(row[0]):
                    self._own_lines(row[0])
                else:
                    self._shared_line(row)
        self._close_gaps()
        return [*self._found, *self._fixed, *self._pieces]

    def _check(self, gone: list[ast.stmt]) -> None:
        for statement in gone:
            plan = self._plans[statement]
            place = self._layout.describe(self._source.span(statement))
            if plan.header:
                raise CannotRewrite(f"{place} goes, but is put under a header, too")
            if plan.moved and (plan.before or plan.after):
                raise CannotRewrite(f"{place} moves away, but something else is put beside it")
            self._alone(statement, "goes")
            if plan.deleted:
                span = self._source.span(statement)
                if any(span.start <= p.span.start and p.span.end <= span.end for p in self._pieces):
                    raise CannotRewrite(f"{place} is deleted, but something inside it changes, too")
                start = span.start
                if self._layout.fresh(statement):  # with its indentation, which its body needs
                    start = self._layout.start(self._layout.first_line(statement))
                if comments(self._source.text[start : span.end]):
                    raise CannotRewrite(f"{place} has a comment inside that would be lost")

    def _alone(self, statement: ast.stmt, what: str) -> None:
        """Raise CannotRewrite where a statement inside it changes, too."""
        if any(other is not statement and self._within(other, statement) for other in self._plans):
            place = self._layout.describe(self._source.span(statement))
            raise CannotRewrite(f"{place} {what}, but something inside it changes, too")

    def _row(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of one block that stand on the same line as `statement`."""
        block = self._source.block(statement)
        first = last = self._source.index(statement)
        while first and not self._layout.fresh(block[first]):
            first -= 1
        while last + 1 < len(block) and not self._layout.fresh(block[last + 1]):
            last += 1
        return block[first : last + 1]

    def _emptied(self, statement: ast.stmt) -> bool:
        """Whether nothing is left of the block, which then needs a `pass`."""
        block = self._source.block(statement)
        if isinstance(self._source.parents[statement], ast.Module):
            return False
        plans = map(self._plans.get, block)
        return all(plan and plan.gone and not plan.before and not plan.after for plan in plans)

    def _inside(self, start: int, end: int) -> str:
        """The text of a range with the edits inside it made; they are used up by that."""
        inner = [p for p in self._pieces if start <= p.span.start and p.span.end <= end]
        self._pieces = [p for p in self._pieces if p not in inner]
        parts, at = [], start
        for piece in sorted(inner, key=rank):
            parts += [self._source.text[at : piece.span.start], piece.text]
            at = piece.span.end
        return "".join(parts) + self._source.text[at:end]

    def _replace(self, start: int, end: int, text: str) -> None:
        if start != end or text:
            self._found.append(TextEdit(Span(start, end), text))

    def _render(self, item: _Text | ast.stmt, indent: str, newline: str) -> str:
        """Lines to insert, at their new indentation; a moved statement is taken with its comments."""
        if isinstance(item, _Text):
            return reindent(item.code, item.indent, indent, newline)
        span = self._source.span(item)
        line = self._layout.first_line(item)
        old = self._layout.indent(line)
        if self._row(item) == [item] and self._layout.fresh(item):
            comment, end = self._layout.tail(item)
            code = self._inside(self._layout.start(self._first_moving_line(item)), end)
            code = code if comment < end else code.rstrip(" \t\f")  # blanks behind a comment are part of it
        else:
            code = self._inside(span.start, span.end)
        return reindent(code, old, indent, newline)

    def _first_moving_line(self, statement: ast.stmt) -> int:
        """Comments directly above travel if they cannot be the heading of what comes next as well."""
        layout = self._layout
        block = self._source.block(statement)
        below = layout.last_line(statement) + 1
        heads_more = (
            statement is not block[-1] and not layout.is_blank(below) and not layout.is_comment(below)
        )
        return layout.first_line(statement) if heads_more else layout.comments_above(statement)

    # --- statements with lines of their own ----------------------------------------------------------

    def _own_lines(self, statement: ast.stmt) -> None:
        layout, plan, span = self._layout, self._plans[statement], self._source.span(statement)
        first = layout.first_line(statement)
        comment, stop = layout.tail(statement)
        last = layout.line_at(stop)
        indent = layout.indent(first)
        self._put_above(statement, plan.before, indent)
        if plan.header:
            at = span.start - len(indent)
            newline = layout.newline(last)
            inner = reindent(self._inside(at, stop), indent, indent + layout.unit, newline)
            self._replace(at, stop, f"{indent}{plan.header}{newline}{inner}")
        if not plan.gone:
            self._put_below(statement, plan.after, indent)
        elif self._emptied(statement) and statement is self._source.block(statement)[0]:
            if plan.moved:
                top = self._first_moving_line(statement)
                self._replace(layout.start(top), layout.start(first), "")
                self._replace(span.start, stop, "pass")
            else:
                self._replace(span.start, span.end, "pass")
        elif plan.deleted and comment != stop:
            # the comment stays, on a line of its own
            self._replace(span.start, comment, "")
            self._put_below(statement, plan.after, indent)
        else:
            top = self._first_moving_line(statement) if plan.moved else first
            newline = layout.newline(last)
            for item in plan.after:
                text = self._render(item, indent, newline) + newline
                self._replace(layout.start(top), layout.start(top), text)
            self._cut.append((top, last + 1))

    def _put_above(self, statement: ast.stmt, items: Sequence[_Text | ast.stmt], indent: str) -> None:
        line = self._layout.comments_above(statement)
        newline = self._layout.newline(line)
        at = self._layout.start(line)
        if line == self._layout.first_line(statement):
            # behind a form feed, which stays at the beginning of its line
            at = self._source.span(statement).start - len(indent)
        for item in items:
            self._replace(at, at, self._render(item, indent, newline) + newline)

    def _put_below(self, statement: ast.stmt, items: Sequence[_Text | ast.stmt], indent: str) -> None:
        layout = self._layout
        stop = layout.tail(statement)[1]
        line = layout.line_at(stop)
        if hasattr(statement, "body"):
            # comments that end the body, recognised by their indentation, still belong to it
            look = line + 1
            while layout.is_blank(look) or layout.is_comment(look):
                if layout.is_comment(look):
                    if len(layout.indent(look).expandtabs()) <= len(indent.expandtabs()):
                        break
                    line = look
                look += 1
        newline = layout.newline(line)
        at = layout.end(line)
        for item in items:
            self._replace(at, at, newline + self._render(item, indent, newline))

    def _close_gaps(self) -> None:
        """Cut lines, and with a whole paragraph one of the two gaps around it."""
        layout = self._layout
        runs: list[tuple[int, int]] = []
        for first, behind in sorted(self._cut):
            if runs and runs[-1][1] == first:
                runs[-1] = (runs[-1][0], behind)
            else:
                runs.append((first, behind))
        for first, behind in runs:
            self._step_aside(layout.start(first), layout.start(behind))
            above = below = 0
            while layout.is_blank(first - above - 1):
                above += 1
            while layout.is_blank(behind + below):
                below += 1
            near = layout.start(first - above), layout.start(behind + below)
            others = [*self._found, *self._fixed, *self._pieces]
            if not any(near[0] <= e.span.end and e.span.start <= near[1] for e in others):
                if behind >= layout.line_count:
                    first -= above
                elif above and below:
                    behind += min(above, below)
                elif below and first and layout.content(first - 1).rstrip().endswith(":"):
                    behind += below
            start, end = layout.start(first), layout.start(behind)
            text = self._source.text
            if text[max(0, start - 1) : start] == "\r" and text[end : end + 1] == "\n":
                raise CannotRewrite("the ends of two lines, a CR and a LF, would become one")
            self._replace(start, end, "")

    def _step_aside(self, start: int, end: int) -> None:
        """What goes below a statement whose last lines are cut, such as the last one of its body."""
        for number, edit in enumerate(self._found):
            if start <= edit.span.start == edit.span.end < end and edit.text[0] in "\r\n":
                lines = edit.text[2 if edit.text.startswith("\r\n") else 1 :]
                newline = edit.text[: len(edit.text) - len(lines)]
                self._found[number] = TextEdit(Span(end, end), lines + newline)

    # --- statements that share a line -----------------------------------------------------------------

    def _shared_line(self, row: list[ast.stmt]) -> None:
        """`a; b` and `if x: a; b`; only what must be is put on lines of its own."""
        plans = [self._plans.get(each, _Plan()) for each in row]
        if any(plan.header for plan in plans):
            place = self._layout.describe(self._source.span(row[0]))
            raise CannotRewrite(f"{place} shares its line with another statement")
        if any(plan.before or plan.after for plan in plans):
            self._spread(row, plans)
            return
        spans = [self._source.span(each) for each in row]
        kept = [number for number, plan in enumerate(plans) if not plan.gone]
        if kept:
            if kept[0]:
                self._replace(spans[0].start, spans[kept[0]].start, "")
            for number, following in pairwise(kept):
                if following > number + 1:
                    self._replace(spans[number + 1].start, spans[following].start, "")
            self._replace(spans[kept[-1]].end, spans[-1].end, "")
        elif self._emptied(row[0]) or not self._layout.fresh(row[0]):
            self._replace(spans[0].start, spans[-1].end, "pass")
        else:
            comment, stop = self._layout.tail(row[-1])
            if comment != stop:
                self._replace(spans[0].start, comment, "")
            else:
                self._cut.append((self._layout.first_line(row[0]), self._layout.line_at(stop) + 1))

    def _spread(self, row: list[ast.stmt], plans: list[_Plan]) -> None:
        layout, text = self._layout, self._source.text
        start, end = self._source.span(row[0]).start, self._source.span(row[-1]).end
        newline = layout.newline(layout.line_at(end))
        layout.tail(row[-1])
        suite = not layout.fresh(row[0])
        if suite:
            colon = skip_back(text, start)
            if text[colon - 1] != ":":
                raise CannotRewrite(f"{layout.describe(Span(start, end))} does not follow its header's colon")
            indent = layout.indent(layout.header_line(row[0])) + layout.unit
        else:
            indent = layout.indent(layout.line_at(start))

        lines: list[str] = []
        following: list[str] = []  # behind the last one that stays, and so behind its comment
        previous = -2  # the one that the last of `lines` ends with
        staying = [number for number, plan in enumerate(plans) if not plan.gone]
        for number, (each, plan) in enumerate(zip(row, plans, strict=True)):
            span = self._source.span(each)
            late = bool(staying) and number >= staying[-1]
            if number == 0 and not suite and staying:
                self._put_above(each, plan.before, indent)
            elif plan.before:
                fresh = [self._render(item, indent, newline) for item in plan.before]
                (following if late and number > staying[-1] else lines).extend(fresh)
                previous = -2
            if not plan.gone:
                code = self._inside(span.start, span.end)
                if previous == number - 1:
                    lines[-1] += text[self._source.span(row[previous]).end : span.start] + code
                elif previous >= 0:
                    lines[-1] += "; " + code
                else:
                    lines.append(indent + code)
                previous = number
            if plan.after:
                fresh = [self._render(item, indent, newline) for item in plan.after]
                (following if late else lines).extend(fresh)
                previous = -2
        begin = colon if suite else start - len(indent)
        old, new = text[begin:end], (newline if suite else "") + newline.join(lines)
        head, foot = trim(old, new)
        self._replace(begin + head, end - foot, new[head : len(new) - foot])
        stop = layout.tail(row[-1])[1]
        for new in following:
            self._replace(stop, stop, newline + new)


def _parsed(text: str) -> list[ast.stmt]:
    """The statements of a text; none where it is not Python."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
