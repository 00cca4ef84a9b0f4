"""Fixes made from what a run knows of a stray: where it was made, stored and met, and what is in scope there.

Each is right if the run has seen what matters, so all of them are UNSAFE.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import (
    DeleteStatement,
    Fix,
    InsertStatement,
    ReplaceExpression,
    Safety,
    SetArgument,
    TextEdit,
)
from devfix.models.loader import models
from devfix.repair.by_kind import by_kind
from devfix.repair.reading import FUNCTIONS, Fixes, Read, Reading, source_of
from devfix.repair.written import (
    added,
    appended,
    dotted,
    draws_numbers,
    is_move,
    is_simple,
    is_written,
    put_behind,
    short,
    stores_in_class,
    written_place,
)
from devfix.reports.observed import Operand, Seen
from devfix.rewrite import CannotRewrite, text_edits
from devfix.text.names import stores


@dataclass(frozen=True)
class Candidate:
    """A fix, as edits of a text and of `others`. `codemod` is empty for one that only the run has suggested."""

    path: str
    line: int
    title: str
    edits: tuple[TextEdit, ...]
    codemod: str = ""
    others: tuple[tuple[str, tuple[TextEdit, ...]], ...] = ()  # of other files, by their paths

    @property
    def parts(self) -> tuple[tuple[str, tuple[TextEdit, ...]], ...]:
        """The edits of each file."""
        return ((self.path, self.edits), *self.others)


def fixes(seen: Seen, read: Read, drawn: bool = False) -> Iterator[Candidate]:
    """The fixes for one error, the one that repairs most first; `read` gives a file, or None.

    With `drawn`, only those of random tensors where they are made, which keep their numbers.
    """
    fixing = _Fixing(seen, read)
    for path, node, title, edits in fixing.drawn() if drawn else fixing.all():
        source = source_of(read(path))
        if source is None:
            continue
        try:
            found = text_edits(source, Fix(title, tuple(edits), Safety.UNSAFE))
        except CannotRewrite:
            continue
        if found:
            yield Candidate(path, node.lineno, title, found)


class _Fixing(Reading):
    """Fixes of what one error has found where it should not be."""

    def all(self) -> Fixes:
        others = by_kind(self)
        if others is not None:
            yield from others
            return
        for number, operand in enumerate(self.seen.operands):
            if operand.stray:
                yield from self.as_buffer(operand)
                yield from self.at_the_making(operand)
                yield from self.as_a_whole(number)
                yield from self.at_the_meeting(number)
                yield from self.to_what_is_written(number)
                yield from self.at_the_making(operand, elsewhere=True)

    def drawn(self) -> Fixes:
        for operand in self.seen.strays:
            node = self.node(operand.made, ast.Call)
            if isinstance(node, ast.Call) and draws_numbers(ast.unparse(node.func)):
                yield from self.at_the_making(operand)

    def as_buffer(self, stray: Operand) -> Fixes:
        """`register_buffer` where the constructor of a module stores a plain attribute."""
        at = stray.stored
        source = self.source(at.path) if at is not None else None
        if at is None or source is None or not stray.owner or stray.kind != "tensor":
            return
        for node in source.walk():
            if not isinstance(node, ast.Assign) or node.lineno != at.line or len(node.targets) != 1:
                continue
            target, name = node.targets[0], stray.name
            inside = source.enclosing(node, *FUNCTIONS)
            if not isinstance(target, ast.Attribute) or target.attr != name:
                continue
            if not isinstance(inside, ast.FunctionDef) or inside.name != "__init__":
                continue
            if (
                name.startswith("_")
                or stores_in_class(source, node, name) > 1
                or not is_simple(source, node.value)
            ):
                continue
            owner, value, span = source.code(target.value), source.code(node.value), source.span(node)
            line = f'{owner}.register_buffer("{name}", {value}, persistent=False)'
            yield (
                at.path,
                node,
                f"register `{owner}.{name}` as a buffer",
                (InsertStatement(span, line), DeleteStatement(span)),
            )

    def at_the_making(self, stray: Operand, *, elsewhere: bool = False) -> Fixes:
        """`device=` where the stray was made: in a function that the error has passed, or else in its object."""
        node = self.node(stray.made, ast.Call)
        source = self.source(stray.made.path) if stray.made is not None else None
        if stray.made is None or source is None or not isinstance(node, ast.Call):
            return
        name = ast.unparse(node.func)
        row = models().function(dotted(source, node.func))
        factory = row is not None and row.form in ("make", "data", "like")
        if not factory and stray.kind != "parameter":
            return
        for passed in self.seen.passed:
            device = self.device_at(source, passed, node, made=True, elsewhere=elsewhere)
            if device and factory and not draws_numbers(name):
                title = f"make the result of `{name}` on `{device}`"
                yield stray.made.path, node, title, (SetArgument(source.span(node), "device", device),)
                return
            if device:
                title = f"move what `{name}` makes to `{device}`"
                yield stray.made.path, node, title, (appended(source, node, f".to({device})"),)
                return

    def as_a_whole(self, number: int) -> Fixes:
        """`.to(...)` where a module with the stray is bound to the only name that it has in its function."""
        for passed in reversed(self.seen.passed):
            for found in passed.found:
                node, source = self.node(found.at), self.source(found.at.path)
                if found.operand != number or found.within != "module" or source is None:
                    continue
                if not isinstance(node, ast.Name):
                    continue
                bound = stores(source, source.scope(node), node.id)
                statement = source.statement(bound[0]) if len(bound) == 1 else None
                if not isinstance(statement, ast.Assign) or statement.targets != bound:
                    continue
                value = statement.value
                device = (
                    self.device_at(source, passed, value, made=True) if isinstance(value, ast.Call) else ""
                )
                if device:
                    title = f"move `{short(source.code(bound[0]))}` to `{device}` where it is made"
                    yield found.at.path, value, title, (appended(source, value, f".to({device})"),)

    def at_the_meeting(self, number: int) -> Fixes:
        """`.to(...)` where the stray is handed on, as far out as it and the device have names."""
        met = [(passed, found) for passed in reversed(self.seen.passed) for found in passed.found]
        met.sort(key=lambda one: one[1].within in ("items", "values"))  # a copy of a list is another list
        for passed, found in met:
            node = self.node(found.at)
            source = self.source(found.at.path)
            if found.operand != number or node is None or source is None or is_written(source, node):
                continue
            device = self.device_at(source, passed, node)
            moved = self.node(self.seen.operands[number].moved) is node
            if device and moved and isinstance(node, ast.Call) and is_move(node) and node.args:
                title = f"move it to `{device}` instead of `{short(source.code(node.args[0]))}`"
                yield found.at.path, node, title, (ReplaceExpression(source.span(node.args[0]), device),)
            if device:
                title = f"move `{short(source.code(node))}` to `{device}`"
                yield found.at.path, node, title, (put_behind(source, node, found, f".to({device})"),)
        operand = self.seen.operands[number]
        innermost = self.seen.passed[0] if self.seen.passed else None
        node = self.node(operand.made)
        if innermost is None or operand.made is None or node is None or operand.kind != "tensor":
            return
        source = self.source(operand.made.path)
        for passed in self.seen.passed:
            device = self.device_at(source, passed, node) if source is not None else ""
            thrown_away = source is not None and (
                isinstance(source.parents.get(node), ast.Expr) or is_written(source, node)
            )  # `opt.step()`
            valued = isinstance(node, (ast.Call, ast.BinOp, ast.Subscript)) and not thrown_away
            if source is not None and device and valued:
                title = f"move `{short(source.code(node))}` to `{device}`"
                yield operand.made.path, node, title, (appended(source, node, f".to({device})"),)
                return

    def to_what_is_written(self, number: int) -> Fixes:
        """What is added to a stray in place goes to where that is: nothing else may know a device there."""
        for found in self.seen.passed[0].found if self.seen.passed else ():
            node, source = self.node(found.at), self.source(found.at.path)
            if found.operand != number or node is None or source is None:
                continue
            value = added(source, node, self.seen.operation)
            if value is None:
                continue
            device = f"{source.code(written_place(node))}.device"
            title = f"move `{short(source.code(value))}` to `{device}`"
            yield found.at.path, value, title, (appended(source, value, f".to({device})"),)
