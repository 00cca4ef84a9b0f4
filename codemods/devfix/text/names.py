"""Names and dotted paths: where a function or module body binds and reads a name, and which binding is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devfix.text.source import COMPREHENSIONS, FUNCTIONS, Source, children, remembered, walk

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


@remembered
def given(source: Source, scope: ast.AST) -> Mapping[str, ast.arg]:
    """The parameters of a function, if it is one, and of the lambdas in their defaults, by their names."""
    if not isinstance(scope, FUNCTIONS):
        return {}
    return {one.arg: one for one in walk(scope.args) if isinstance(one, ast.arg)}


def parameter(source: Source, function: ast.AST, name: str) -> ast.arg | None:
    """The parameter of that name, if a function has it."""
    return given(source, function).get(name)


def is_local(source: Source, function: ast.AST, name: str) -> bool:
    """Is a name a parameter of a function, or bound in it?"""
    return name in given(source, function) or bool(stores(source, function, name))


def stores(source: Source, scope: ast.AST, name: str) -> list[ast.Name]:
    """Where a name is bound in a function or module body, in the order of the text."""
    return [one for one in _names(source, scope).get(name, ()) if not isinstance(one.ctx, ast.Load)]


def reads(source: Source, scope: ast.AST, name: str) -> list[ast.Name]:
    """Where a name is read in a function or module body, in the order of the text."""
    return [one for one in _names(source, scope).get(name, ()) if isinstance(one.ctx, ast.Load)]


@remembered
def _names(source: Source, scope: ast.AST) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name):
            found.setdefault(node.id, []).append(node)
    for nodes in found.values():
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return found


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module body, nested functions and classes excluded."""
    todo: list[ast.AST] = list(children(scope))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _NESTED):
            todo.extend(children(node))


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    `form` is "loop" (target of a for statement), "single" (`x = value`), "unpack"
    (`x, y = value`) or "other" (with, comprehension, walrus, augmented, parameter).
    """

    name: str
    target: ast.AST
    statement: ast.stmt | None
    form: str
    value: ast.expr | None = None


def _binding(source: Source, target: ast.Name) -> Binding:
    statement = source.statement(target)
    if isinstance(statement, (ast.For, ast.AsyncFor)) and target in walk(statement.target):
        return Binding(target.id, target, statement, "loop")
    if isinstance(statement, ast.Assign) and any(target in walk(one) for one in statement.targets):
        return Binding(
            target.id,
            target,
            statement,
            "single" if statement.targets == [target] else "unpack",
            statement.value,
        )
    if isinstance(statement, ast.AnnAssign) and statement.target is target and statement.value is not None:
        return Binding(target.id, target, statement, "single", statement.value)
    return Binding(target.id, target, statement, "other")


def binding_of(source: Source, scope: ast.AST, use: ast.Name) -> Binding | None:
    """The binding that a read surely sees; None where branches or loops leave a doubt."""
    at = source.span(use).start
    around = set(source.ancestors(use))
    given = parameter(source, scope, use.id)
    seen = Binding(use.id, given, None, "other") if given is not None else None
    for target in stores(source, scope, use.id):
        if source.span(target).start >= at:
            break
        binding, statement = _binding(source, target), source.statement(target)
        if statement in around and binding.form in ("single", "unpack"):
            continue  # bound by the statement that reads it: only afterwards
        rounds = [one for one in source.ancestors(target) if isinstance(one, COMPREHENSIONS)]
        if binding.form == "other" and rounds:
            seen = binding if not around.isdisjoint(rounds) else seen
        elif binding.form == "loop":
            seen = binding if statement in around else None
        elif source.parents[statement] in around:
            seen = binding
        else:
            seen = None  # bound again in a branch on the way: which one is read cannot be told.
    return seen


def first_binding(source: Source, scope: ast.AST, name: str) -> int | None:
    """Offset behind which a name is bound in a scope; None if it comes from outside."""
    found = stores(source, scope, name)
    if not found or parameter(source, scope, name) is not None:
        return None
    return min(source.span(one).end for one in found)
