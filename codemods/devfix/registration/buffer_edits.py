"""The edits that turn plain tensor attributes into buffers."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.findings import DeleteStatement, Edit, InsertStatement, ReplaceExpression
from devfix.registration.buffers import Candidate, dominated
from devfix.registration.stores import Method, Store, self_name
from devfix.text.source import Source


@dataclass(frozen=True)
class Registration:
    """The edits that register a group of attributes; empty where they cannot be written."""

    edits: tuple[Edit, ...]
    why_not: str = ""


def register(source: Source, group: list[Candidate]) -> Registration:
    """Replace the first assignments of each attribute by `register_buffer`."""
    owner = group[0].owner
    start = owner.super_call
    if any(candidate.parts for candidate in group):
        return Registration((), "each of its tensors needs a buffer of its own")
    if start is None:
        return Registration((), "the call of `super().__init__()` is not in sight")
    edits: list[Edit] = []
    done: set[ast.stmt] = set()
    for candidate in group:
        for store in candidate.stores:
            if store.form == "augmented" or dominated(source, store, candidate.stores):
                continue
            if store.statement in done:
                continue
            done.add(store.statement)
            if store.method is owner.init and store.statement.lineno < start.lineno:
                return Registration((), "the assignment stands before `super().__init__()`")
            if isinstance(store.value, ast.Name) and _is_told_apart(source, store.method, store.value.id):
                return Registration((), f"`{store.value.id}` need not be a tensor")
            names = [c.name for c in group if any(s.statement is store.statement for s in c.stores)]
            made = _register_one(source, store, names)
            if not made:
                return Registration((), "no name is free for the new value")
            edits.extend(made)
    return Registration(tuple(edits))


def _is_told_apart(source: Source, method: Method, name: str) -> bool:
    """Is it asked of what type an argument is: `isinstance(x, float)`?"""
    asked = (
        one for one in source.of_kind(ast.Call, method) if one.args and source.code(one.func) == "isinstance"
    )
    return any(isinstance(one.args[0], ast.Name) and one.args[0].id == name for one in asked)


def _register_one(source: Source, store: Store, names: list[str]) -> tuple[Edit, ...]:
    me = self_name(store.method)
    span = source.span(store.statement)
    value = store.value
    assert value is not None
    if store.form in ("single", "typed"):
        text = source.code(value)
        line = f'{me}.register_buffer("{store.name}", {text}, persistent=False)'
        indent = store.statement.col_offset
        short = "\n" not in text and "\r" not in text and "#" not in text and indent + len(line) <= 110
        if isinstance(value, (ast.Tuple, ast.NamedExpr, ast.Yield, ast.Lambda)):
            short = False
        if short:
            return (*_declared(source, store), InsertStatement(span, line), DeleteStatement(span))
    targets = {s.attr: s for s in _targets(store.statement)}
    edits: list[Edit] = []
    for name in names:
        local = _free(source, store.method, name)
        if not local or name not in targets or isinstance(store.statement, ast.AnnAssign):
            return ()
        edits.append(ReplaceExpression(source.span(targets[name]), local))
        edits.append(InsertStatement(span, f'{me}.register_buffer("{name}", {local}, persistent=False)'))
    return tuple(edits)


def _declared(source: Source, store: Store) -> tuple[Edit, ...]:
    """What is left of `self.x: Tensor = value`: the declaration."""
    if isinstance(store.statement, ast.AnnAssign):
        text = f"{source.code(store.target)}: {source.code(store.statement.annotation)}"
        if "\n" not in text:
            return (InsertStatement(source.span(store.statement), text),)
    return ()


def _targets(statement: ast.stmt) -> list[ast.Attribute]:
    if not isinstance(statement, ast.Assign):
        return []
    target = statement.targets[0]
    items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else statement.targets
    return [item for item in items if isinstance(item, ast.Attribute)]


def _free(source: Source, method: Method, name: str) -> str:
    """A name that nothing in the method uses."""
    used = {node.id for node in source.walk(method) if isinstance(node, ast.Name)}
    used |= {node.arg for node in source.walk(method) if isinstance(node, ast.arg)}
    for option in (name, f"{name}_", f"{name}_buffer"):
        if option.isidentifier() and option not in used:
            return option
    return ""
