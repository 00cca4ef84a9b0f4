"""Keyword arguments added to a call, by libcst: it knows commas, comments and the call's layout."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devfix.findings import Span, TextEdit
from devfix.rewrite.layout import CannotRewrite, Layout, trim
from devfix.text.lines import NEWLINE

if TYPE_CHECKING:
    import libcst as cst

# libcst takes minutes for a sum of 20,000 terms, and deep nesting ends the whole process.
LONGEST = 20_000  # characters of a call
DEEPEST = 150  # nodes in each other


def add_arguments(layout: Layout, call: ast.Call, values: dict[str, str]) -> list[TextEdit]:
    """Edits that add `name=value` behind the last argument of a call, in the order of `values`.

    Raises CannotRewrite where libcst reads the call differently from Python.
    """
    source = layout.source
    span = source.span(call)
    if len(call.args) == 1 and not call.keywords:
        only = call.args[0]
        if isinstance(only, ast.GeneratorExp) and source.span(only).end == span.end:
            # f(x for x in y): its parentheses are the call's and the generator's at once
            at = source.span(only)
            text = "".join(f", {name}={value}" for name, value in values.items())
            return [TextEdit(Span(at.start, at.start), "("), TextEdit(Span(at.end, at.end), text + ")")]
    old = source.code(call)
    if len(old) > LONGEST or _depth(call) > DEEPEST:
        raise CannotRewrite(f"{layout.describe(span)} is too long or too deeply nested to be rewritten")
    new = _with_arguments(NEWLINE.sub("\n", old), values, layout.describe(span))
    return [_difference(old, new, span.start, layout.newline(layout.line_at(span.end)))]


def _depth(node: ast.AST) -> int:
    depth, level = 0, [node]
    while level and depth <= DEEPEST:
        level = [child for one in level for child in ast.iter_child_nodes(one)]
        depth += 1
    return depth


def _with_arguments(code: str, values: dict[str, str], place: str) -> str:
    import libcst as cst

    try:
        # In parentheses it may have newlines outside of its own ones; only the call is parsed.
        module = cst.parse_module(f"({code}\n)\n")
        statement = module.body[0]
        assert isinstance(statement, cst.SimpleStatementLine)
        expression = statement.body[0]
        assert isinstance(expression, cst.Expr)
        call = expression.value
        if not isinstance(call, cst.Call) or module.code != f"({code}\n)\n":
            raise CannotRewrite(f"{place}: libcst does not read this call as Python does")
        for name, value in values.items():
            call = _add(call, name, cst.parse_expression(value))
        changed = expression.with_changes(value=call)
        text = module.with_changes(body=[statement.with_changes(body=[changed])]).code
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise CannotRewrite(f"{place}: libcst cannot read this call ({type(error).__name__})") from None
    return text[1 : -len("\n)\n")]


def _add(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    import libcst as cst

    none = cst.SimpleWhitespace("")
    equal = cst.AssignEqual(none, none)
    for arg in call.args:
        if isinstance(arg.equal, cst.AssignEqual):
            spaces = arg.equal.whitespace_before, arg.equal.whitespace_after
            if all(isinstance(space, cst.SimpleWhitespace) and "\\" not in space.value for space in spaces):
                equal = arg.equal
    new = cst.Arg(value, cst.Name(name), equal, whitespace_after_arg=none)
    if not call.args:
        before = call.whitespace_before_args
        if isinstance(before, cst.SimpleWhitespace) and "\\" not in before.value:
            call = call.with_changes(whitespace_before_args=none)
        return call.with_changes(args=[new])

    *rest, last = call.args
    lead = call.whitespace_before_args
    if rest and isinstance(rest[-1].comma, cst.Comma):
        lead = rest[-1].comma.whitespace_after
    # The new argument gets a line of its own where the last one begins a line.
    trailing = isinstance(last.comma, cst.Comma)
    tail = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    before_new: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(lead, cst.ParenthesizedWhitespace):
        # What follows the last argument on its line, a comment mostly, stays on that line.
        first = cst.TrailingWhitespace(none)
        if isinstance(tail, cst.ParenthesizedWhitespace):
            first = tail.first_line
            tail = tail.with_changes(first_line=cst.TrailingWhitespace(none))
        before_new = cst.ParenthesizedWhitespace(first, [], lead.indent, lead.last_line)
    if isinstance(last.comma, cst.Comma):
        comma = last.comma.with_changes(whitespace_after=before_new)
    else:
        comma = cst.Comma(whitespace_after=before_new)
        last = last.with_changes(whitespace_after_arg=none)
    last = last.with_changes(comma=comma)
    if trailing:
        new = new.with_changes(comma=cst.Comma(whitespace_after=tail))
    else:
        new = new.with_changes(whitespace_after_arg=tail)
    return call.with_changes(args=[*rest, last, new])


def _difference(old: str, new: str, at: int, newline: str) -> TextEdit:
    """The edit from `old` to `new`, which has `\\n` throughout: without what both begin or end with."""
    plain = NEWLINE.sub("\n", old)
    head, foot = trim(plain, new)
    # offsets in the text as it is, where a newline may have two characters
    widths = [len(part) for part in NEWLINE.findall(old)]
    start = head + sum(widths[: plain.count("\n", 0, head)]) - plain.count("\n", 0, head)
    stop = len(plain) - foot
    end = stop + sum(widths[: plain.count("\n", 0, stop)]) - plain.count("\n", 0, stop)
    text = new[head : len(new) - foot].replace("\n", newline)
    return TextEdit(Span(at + start, at + end), text)
