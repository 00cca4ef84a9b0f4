"""Names and dotted paths, and where the names of one scope are bound and read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.text.source import COMPREHENSIONS, FUNCTIONS, Source, children, remembered, walk

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_NESTED = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


def path_of(node: ast.AST) -> str:
    """`model`, `self.model.head`, `batch["x"]`, `layers[0]`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        value = node.value
        if isinstance(value, ast.Name):  # by far the most common
            return f"{value.id}.{node.attr}"
    elif not isinstance(node, ast.Subscript):
        return ""
    tail: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            tail.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            index = node.slice
            if not isinstance(index, ast.Constant) or not isinstance(index.value, (str, int)):
                return ""
            tail.append(f"[{index.value!r}]")
            node = node.value
        elif isinstance(node, ast.Name):
            tail.append(node.id)
            return "".join(reversed(tail))
        else:
            return ""


def of_self(node: ast.AST) -> str:
    """`name` of `self.name`; an empty string of anything else."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else ""


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    `form` is "loop" (target of a for statement), "single" (`x = value`), "unpack"
    (`x, y = value`) or "other" (with, comprehension, import, walrus, augmented, parameter).
    """

    name: str
    target: ast.AST
    statement: ast.stmt | None
    form: str
    value: ast.expr | None = None


class Names:
    """Bindings and reads of the names of one scope, nested functions left out."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.bindings: dict[str, list[Binding]] = {}
        self.reads: dict[str, list[ast.Name]] = {}
        self._first: dict[str, int | None] = {}
        if not isinstance(scope, ast.Module):
            arguments = scope.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                self._bind(Binding(argument.arg, argument, None, "other"))
        for statement in _statements(scope.body):
            self._statement(statement)

    def _bind(self, binding: Binding) -> None:
        self.bindings.setdefault(binding.name, []).append(binding)

    def _statement(self, statement: ast.stmt) -> None:
        forms: dict[ast.AST, tuple[str, ast.expr | None]] = {}
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            for name in _stored(statement.target):
                forms[name] = ("loop", None)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                simple = isinstance(target, ast.Name) and len(statement.targets) == 1
                for name in _stored(target):
                    forms[name] = ("single", statement.value) if simple else ("unpack", statement.value)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.value is not None:
                forms[statement.target] = ("single", statement.value)
        for node in _own_nodes(statement):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self.reads.setdefault(node.id, []).append(node)
                else:
                    form, value = forms.get(node, ("other", None))
                    self._bind(Binding(node.id, node, statement, form, value))

    def binding(self, use: ast.Name) -> Binding | None:
        """The binding that a read surely sees; None where branches or loops leave a doubt."""
        source = self.source
        at = source.span(use).start
        around = set(source.ancestors(use))
        seen: Binding | None = None
        for binding in self.bindings.get(use.id, ()):
            statement = binding.statement
            if statement is None:
                seen = seen or binding
                continue
            if source.span(binding.target).start >= at:
                continue
            if statement in around and binding.form in ("single", "unpack"):
                continue  # bound by the statement that reads it: only afterwards
            if binding.form == "other" and any(
                isinstance(a, COMPREHENSIONS) for a in source.ancestors(binding.target)
            ):
                if not any(
                    a in around for a in source.ancestors(binding.target) if isinstance(a, COMPREHENSIONS)
                ):
                    continue
                seen = binding
            elif binding.form == "loop":
                if statement in around:
                    seen = binding
                else:
                    seen = None
            elif source.parents[statement] in around:
                seen = binding
            elif seen is not None and source.span(binding.target).start > source.span(seen.target).start:
                # Bound again in a branch on the way: which one is read cannot be told.
                seen = None
        return seen

    def first_binding(self, path: str) -> int | None:
        """Offset at which the root name of a path is first bound here; None if it comes from outside."""
        root = path.partition(".")[0].partition("[")[0]
        if root not in self._first:
            found = self.bindings.get(root)
            given = not found or any(binding.statement is None for binding in found)
            self._first[root] = (
                None if given else min(self.source.span(one.target).end for one in self.bindings[root])
            )
        return self._first[root]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    todo = list(reversed(body))
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, _NESTED):
            continue
        for field in ("finalbody", "orelse", "body"):
            todo.extend(reversed(getattr(statement, field, ())))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            todo.extend(reversed(part.body))


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement itself: not those of its blocks, and not of functions in it."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    todo: list[ast.AST] = [
        child
        for child in children(statement)
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))
    ]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _NESTED):
            todo.extend(children(node))


def _stored(target: ast.AST) -> Iterator[ast.Name]:
    for node in walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node


@remembered
def names_of(source: Source, scope: Scope) -> Names:
    """The names of a scope, which are read once."""
    return Names(source, scope)
