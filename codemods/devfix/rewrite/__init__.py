"""From a fix's edits to new text: the only place that knows how Python is laid out in lines.

`text_edits` turns the structural edits of one fix into edits of characters, `select` says which
fixes can go together, `merge` and `apply` make the new text, `verify` doubts the result. Whatever
is not certain raises CannotRewrite: a finding without a fix is better than a wrong edit.
"""

from __future__ import annotations

from devfix.findings import (
    AppendCall,
    AssignResult,
    DeleteStatement,
    EnsureImport,
    Fix,
    InsertGuard,
    InsertStatement,
    MoveStatement,
    ReplaceExpression,
    ReplaceText,
    SetArgument,
    TextEdit,
    WrapExpression,
    WrapStatement,
)
from devfix.rewrite.combine import apply, faulty, merge, select, verify, whole
from devfix.rewrite.expressions import Expressions
from devfix.rewrite.imports import place_import
from devfix.rewrite.layout import CannotRewrite, Layout, in_order, reindent
from devfix.rewrite.statements import Statements
from devfix.text.source import Source

__all__ = ["CannotRewrite", "apply", "faulty", "merge", "select", "text_edits", "verify", "whole"]


def text_edits(source: Source, fix: Fix) -> tuple[TextEdit, ...]:
    """The edits of `fix` as edits of `source.text`, sorted and without overlap.

    All are relative to `source`, and they work together: an expression may be changed inside
    a statement that moves, several statements may arrive at one anchor (in the order given).
    Edits that are done already (an import or an argument that is there) yield nothing.
    Raises CannotRewrite where an edit is unclear, contradicts another one or would lose a comment.
    """
    try:
        return _text_edits(source, fix)
    except RecursionError:
        raise CannotRewrite("the expression is nested too deeply") from None


def _text_edits(source: Source, fix: Fix) -> tuple[TextEdit, ...]:
    layout = Layout(source)
    expressions = Expressions(layout)
    statements = Statements(layout)
    for needed in dict.fromkeys(e for e in fix.edits if isinstance(e, EnsureImport)):
        for text_edit in place_import(layout, needed.module, needed.name):
            statements.add(text_edit)
    for edit in fix.edits:
        if isinstance(edit, ReplaceText):
            statements.add(TextEdit(edit.span, layout.with_newlines(edit.text, edit.span.start)))
        elif isinstance(edit, AppendCall):
            expressions.wrap(edit.expression, "", edit.suffix)
        elif isinstance(edit, WrapExpression):
            expressions.wrap(edit.expression, edit.before, edit.after)
        elif isinstance(edit, AssignResult):
            expressions.assign(edit.expression, edit.target)
        elif isinstance(edit, ReplaceExpression):
            expressions.replace(edit.expression, edit.text)
        elif isinstance(edit, SetArgument):
            expressions.set_argument(edit.call, edit.name, edit.value)
        elif isinstance(edit, MoveStatement):
            statements.move(edit.statement, edit.after)
        elif isinstance(edit, InsertStatement):
            statements.insert(edit.anchor, edit.text, edit.before)
        elif isinstance(edit, InsertGuard):
            body = reindent(edit.body.strip("\r\n"), "", layout.unit, "\n")
            statements.insert(edit.anchor, f"if {edit.condition}:\n{body}", before=True)
        elif isinstance(edit, WrapStatement):
            statements.wrap(edit.statement, edit.header)
        elif isinstance(edit, DeleteStatement):
            statements.delete(edit.statement)
    return in_order(statements.edits(expressions.pieces()))
