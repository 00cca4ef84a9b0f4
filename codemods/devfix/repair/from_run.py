"""Fixes made from what a run knows of a stray: where it was made, stored and met, and what is in scope there.

Each is right if the run has seen what matters, so all of them are UNSAFE.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Union

from devfix.documents import Document
from devfix.findings import (
    DeleteStatement,
    Edit,
    Fix,
    InsertStatement,
    ReplaceExpression,
    Safety,
    SetArgument,
    TextEdit,
    WrapExpression,
)
from devfix.models.loader import models
from devfix.observed import At, Operand, Passed, Seen
from devfix.placing import bound_before
from devfix.repair.written import (
    added,
    appended,
    bound_around,
    dotted,
    draws_numbers,
    is_simple,
    is_written,
    put_behind,
    short,
    stores_in_class,
    written_place,
)
from devfix.rewrite import CannotRewrite, text_edits
from devfix.source import Source

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Read = Callable[[str], Document | None]


@dataclass(frozen=True)
class Candidate:
    """A fix of one file, as edits of its text. `codemod` is empty for one that only the run has suggested."""

    path: str
    line: int
    title: str
    edits: tuple[TextEdit, ...]
    codemod: str = ""


def fixes(seen: Seen, read: Read, drawn: bool = False) -> Iterator[Candidate]:
    """The fixes for one error, the one that repairs most first; `read` gives a file, or None.

    With `drawn`, only those of random tensors where they are made, which keep their numbers.
    """
    fixing = _Fixing(seen, read)
    for path, node, title, edits in fixing.drawn() if drawn else fixing.all():
        source = _source(read(path))
        if source is None:
            continue
        try:
            found = text_edits(source, Fix(title, tuple(edits), Safety.UNSAFE))
        except CannotRewrite:
            continue
        if found:
            yield Candidate(path, node.lineno, title, found)


def _source(document: Document | None) -> Source | None:
    if document is None:
        return None
    try:
        return Source(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Fixes = Iterator[tuple[str, Union[ast.expr, ast.stmt], str, tuple[Edit, ...]]]  # path, node, title and edits


class _Fixing:
    """One error, and the sources of the files that it has to do with."""

    def __init__(self, seen: Seen, read: Read) -> None:
        self.seen = seen
        self.read = read
        self.sources: dict[str, Source | None] = {}

    def source(self, path: str) -> Source | None:
        if path not in self.sources:
            self.sources[path] = _source(self.read(path))
        return self.sources[path]

    def node(self, at: At | None, *kinds: type[ast.expr]) -> ast.expr | None:
        """The expression that was running; without columns, the only one of these kinds on the line."""
        source = self.source(at.path) if at is not None else None
        if at is None or source is None:
            return None
        found = [node for node in source.walk() if isinstance(node, kinds or (ast.expr,))]
        if at.column >= 0:
            span = (at.line, at.column, at.end_line, at.end_column)
            exact = [
                one
                for one in found
                if (one.lineno, one.col_offset, one.end_lineno, one.end_col_offset) == span
            ]
            return exact[0] if exact else None
        on_line = [one for one in found if one.lineno == at.line]
        return on_line[0] if len(on_line) == 1 and kinds else None

    def all(self) -> _Fixes:
        text = self.seen.error
        if "numpy" in text or "'lengths'" in text:
            yield from self.on_the_cpu()
        elif "autocast" in text or "device_type" in text:
            yield from self.device_type()
        elif "deserialize" in text:
            yield from self.map_location()
        elif "generator" in text:
            yield from self.generator()
        else:
            for number, operand in enumerate(self.seen.operands):
                if operand.stray:
                    yield from self.as_buffer(operand)
                    yield from self.at_the_making(operand)
                    yield from self.at_the_meeting(number)
                    yield from self.to_what_is_written(number)
                    yield from self.at_the_making(operand, elsewhere=True)

    def drawn(self) -> _Fixes:
        for operand in self.seen.strays:
            node = self.node(operand.made, ast.Call)
            if isinstance(node, ast.Call) and draws_numbers(ast.unparse(node.func)):
                yield from self.at_the_making(operand)

    # --- fixes of strays ---------------------------------------------------------------------

    def as_buffer(self, stray: Operand) -> _Fixes:
        """`register_buffer` where the constructor of a module stores a plain attribute."""
        at = stray.stored
        source = self.source(at.path) if at is not None else None
        if at is None or source is None or not stray.owner or stray.kind != "tensor":
            return
        for node in source.walk():
            if not isinstance(node, ast.Assign) or node.lineno != at.line or len(node.targets) != 1:
                continue
            target, name = node.targets[0], stray.name
            inside = source.enclosing(node, *_FUNCTIONS)
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

    def at_the_making(self, stray: Operand, *, elsewhere: bool = False) -> _Fixes:
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

    def at_the_meeting(self, number: int) -> _Fixes:
        """`.to(...)` where the stray is handed on, as far out as it and the device have names."""
        met = [(passed, found) for passed in reversed(self.seen.passed) for found in passed.found]
        met.sort(key=lambda one: one[1].within in ("items", "values"))  # a copy of a list is another list
        for passed, found in met:
            node = self.node(found.at)
            source = self.source(found.at.path)
            if found.operand != number or node is None or source is None or is_written(source, node):
                continue
            device = self.device_at(source, passed, node)
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

    def to_what_is_written(self, number: int) -> _Fixes:
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

    def device_at(
        self, source: Source, passed: Passed, node: ast.expr, *, made: bool = False, elsewhere: bool = False
    ) -> str:
        """How the device can be written at a node, in the words of a frame of the same function.

        With `elsewhere`, in those of another method's frame that both methods know.
        What the node names says nothing of where it should be, unless it is `made`: `torch.zeros(x.shape)`.
        """
        function: Any = source.enclosing(node, *_FUNCTIONS)
        name = getattr(function, "name", "<lambda>") if function is not None else "<module>"
        comprehension = passed.at.function in _COMPREHENSIONS
        if self.source(passed.at.path) is not source:
            return ""
        inside = passed.at.function == name or comprehension
        if function is not None and not function.lineno <= passed.at.line <= (function.end_lineno or 0):
            inside = False
        if not inside and not (elsewhere and self.of_the_same_object(source, passed, function)):
            return ""
        statement = source.statement(node)
        for text in passed.devices:
            if not inside and not text.startswith(("self.", "next(self.")):
                continue
            if "[" in text and not statement.lineno <= passed.at.line <= (statement.end_lineno or 0):
                continue
            root = re.match(r"(?:next\()?([^()]+?)(?:\.device|\.parameters\(\)\)\.device)?$", text)
            kinds = (ast.Name, ast.Attribute, ast.Subscript)
            own = {ast.unparse(one) for one in ast.walk(node) if isinstance(one, kinds)}
            if root is not None and root[1] in own and not made:
                continue
            written = ast.parse(text, mode="eval").body
            if bound_around(source, node, written) or bound_before(source, written, statement):
                return text
        return ""

    def of_the_same_object(self, source: Source, passed: Passed, function: Any) -> bool:
        """Is a function another method of the class whose method was running in a frame?"""
        if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
            return False
        owner = source.enclosing(function, ast.ClassDef)
        return (
            isinstance(owner, ast.ClassDef)
            and [one.arg for one in function.args.args[:1]] == ["self"]
            and any(
                isinstance(one, ast.FunctionDef)
                and one.name == passed.at.function
                and one.lineno <= passed.at.line <= (one.end_lineno or 0)
                for one in owner.body
            )
        )

    # --- fixes of other errors ---------------------------------------------------------------

    def running(self) -> tuple[Source, ast.Call] | None:
        """The innermost call of the program that has raised."""
        at = self.seen.at
        node = self.node(at, ast.Call)
        source = self.source(at.path) if at is not None else None
        return (source, node) if source is not None and isinstance(node, ast.Call) else None

    def on_the_cpu(self) -> _Fixes:
        called = self.running()
        at = self.seen.at
        if called is None or at is None:
            return
        source, call = called
        for one in self.seen.passed[0].found:
            if one.within in ("items", "values") and (held := self.node(one.at)) is not None:
                title = f"copy the tensors of `{short(source.code(held))}` to the CPU first"
                yield at.path, held, title, (put_behind(source, held, one, ".cpu()"),)
                return
        value: ast.expr | None = next((self.node(one.at) for one in self.seen.passed[0].found), None)
        if (
            value is None
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in ("numpy", "__array__")
        ):
            value = call.func.value
        if value is None and "'lengths'" in self.seen.error:
            given = [one.value for one in call.keywords if one.arg == "lengths"]
            value = (given or call.args[1:2] or [None])[0]  # type: ignore[list-item]
        elif value is None and call.args:
            value = call.args[0]
        if value is not None:
            title = f"copy `{short(source.code(value))}` to the CPU first"
            yield at.path, value, title, (appended(source, value, ".cpu()"),)

    def device_type(self) -> _Fixes:
        called, at = self.running(), self.seen.at
        if called is None or at is None:
            return
        source, call = called
        given = [
            *call.args[:1],
            *(one.value for one in call.keywords if one.arg in ("device_type", "device")),
        ]
        for value in given[:1]:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                kind = value.value.partition(":")[0]
                edit: Edit = ReplaceExpression(source.span(value), f'"{kind}"')
            else:
                torch = next((name for name, full in source.imports.items() if full == "torch"), "")
                if not torch:
                    return
                edit = WrapExpression(source.span(value), f"{torch}.device(", ").type")
            yield at.path, value, "give the type of the device", (edit,)

    def map_location(self) -> _Fixes:
        called, at = self.running(), self.seen.at
        if called is not None and at is not None and len(called[1].args) < 2:
            source, call = called
            yield at.path, call, "load to the CPU", (SetArgument(source.span(call), "map_location", '"cpu"'),)

    def generator(self) -> _Fixes:
        """The device of the generator that the call is given, where that is made under this name."""
        called, at = self.running(), self.seen.at
        if called is None or at is None:
            return
        source, call = called
        given = [one.value for one in call.keywords]
        for one in given:
            if isinstance(one, ast.Call) and dotted(source, one.func) == "torch.Generator":
                yield from self._generator_on(source, at.path, one)
        names = {source.code(one) for one in given if isinstance(one, (ast.Name, ast.Attribute))}
        for node in source.walk():
            if not isinstance(node, ast.Assign) or source.code(node.targets[0]) not in names:
                continue
            # A name belongs to its function, `self.name` to its class.
            around = _FUNCTIONS if isinstance(node.targets[0], ast.Name) else (ast.ClassDef,)
            if source.enclosing(node, *around) is not source.enclosing(call, *around):
                continue
            for made in ast.walk(node.value):
                if isinstance(made, ast.Call) and dotted(source, made.func) == "torch.Generator":
                    yield from self._generator_on(source, at.path, made)

    def _generator_on(self, source: Source, path: str, made: ast.Call) -> _Fixes:
        device = next((text for one in self.seen.passed if (text := self.device_at(source, one, made))), "")
        torch = next((name for name, full in source.imports.items() if full == "torch"), "")
        if not device and self.seen.device != "cpu" and torch:
            device = f'"{self.seen.device}" if {torch}.cuda.is_available() else "cpu"'
        device = device or f'"{self.seen.device}"'
        title = f"make the generator on {device}"
        if made.args:
            yield path, made, title, (ReplaceExpression(source.span(made.args[0]), device),)
        else:
            yield path, made, title, (SetArgument(source.span(made), "device", device),)
