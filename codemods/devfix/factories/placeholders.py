"""Lists that are made with placeholders, each of which is replaced by its index before it is read.

`xs = [torch.empty(0)] * n`, then `xs[0] = first` and `xs[t + 1] = f(xs[t])` in a loop: what the places
held at first meets nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.inputs.arms import holding
from devfix.source import Source, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor)


@dataclass(eq=False)
class _List:
    """One list: how many places it has, where it is read, and where its places are set."""

    count: str
    made: ast.AST
    reads: list[ast.Name] = field(default_factory=list)
    stores: list[ast.Subscript] = field(default_factory=list)
    other: bool = False  # bound again, or changed in another way


def replaced(source: Source, scope: ast.AST) -> frozenset[str]:
    """The names of lists in a function whose first elements are never read."""
    lists = {name: _List(count, made) for name, count, made in _made(scope)}
    if not lists:
        return frozenset()
    for node in source.walk(scope):
        if isinstance(node, ast.Name) and node.id in lists:
            one, up = lists[node.id], source.parents.get(node)
            if not isinstance(node.ctx, ast.Load):
                one.other = one.other or source.statement(node) is not one.made
            elif isinstance(up, ast.Subscript) and up.value is node and isinstance(up.ctx, ast.Store):
                changed = isinstance(source.parents.get(up), ast.AugAssign)
                (one.reads.append(node) if changed else one.stores.append(up))
            else:
                one.reads.append(node)
    return frozenset(name for name, one in lists.items() if not one.other and _all(source, one))


def _made(scope: ast.AST) -> Iterator[tuple[str, str, ast.AST]]:
    """Names with how many equal elements their lists have, and the statements that make these."""
    for node in walk(scope):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for one, made in pairs:
            if isinstance(one, ast.Name) and (count := _count(made)):
                yield one.id, count, node


def _count(made: ast.expr) -> str:
    """`n` of `[...] * n` and of `[... for _ in range(n)]`."""
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):
        for one, other in ((made.left, made.right), (made.right, made.left)):
            if isinstance(one, ast.List):
                return ast.unparse(other)
    if isinstance(made, ast.ListComp) and len(made.generators) == 1:
        over = made.generators[0].iter
        if isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) == 1:
            return ast.unparse(over.args[0])
    return ""


def _all(source: Source, one: _List) -> bool:
    """Is every read of a place one of what was put there?"""
    first = [
        store for store in one.stores if isinstance(store.slice, ast.Constant) and not _loop(source, store)
    ]
    loops = [(store, loop) for store in one.stores if (loop := _loop(source, store)) is not None]
    return bool(loops) and all(_after(source, read, one, first, loops) for read in one.reads)


def _after(
    source: Source,
    read: ast.Name,
    one: _List,
    first: list[ast.Subscript],
    loops: list[tuple[ast.Subscript, ast.AST]],
) -> bool:
    at = source.span(read).start
    begun = any(source.span(store).end < at and _as_certain(source, store, read) for store in first)
    up = source.parents.get(read)
    index = ast.unparse(up.slice) if isinstance(up, ast.Subscript) and up.value is read else ""
    for store, loop in loops:
        if not _as_certain(source, store, read):
            continue
        span = source.span(loop)
        if span.end <= at:  # below the loop, which has gone over all places
            if begun or one.count in ast.unparse(getattr(loop, "iter", loop)):
                return True
        elif span.start <= at and index:
            asked = {
                n.id for _, _, test in holding(source, read) for n in walk(test) if isinstance(n, ast.Name)
            }
            begun = begun or bool(asked & _counted(loop))  # `xs[t - 1] if t else first`
            below = source.span(source.statement(store)).end <= at
            if (begun and index != ast.unparse(store.slice)) or (below and index == ast.unparse(store.slice)):
                return True
    return False


def _as_certain(source: Source, store: ast.AST, read: ast.AST) -> bool:
    """Does what leads to the read lead to the store as well, as far as conditions go?"""
    there = {(text, holds) for text, holds, _ in holding(source, read)}
    return all((text, holds) in there for text, holds, _ in holding(source, store))


def _counted(loop: ast.AST) -> set[str]:
    target = loop.target if isinstance(loop, _LOOPS) else loop
    return {part.id for part in walk(target) if isinstance(part, ast.Name)}


def _loop(source: Source, node: ast.Subscript) -> ast.AST | None:
    """The loop that counts the index of a store."""
    named = {part.id for part in walk(node.slice) if isinstance(part, ast.Name)}
    up = source.parents.get(node)
    while up is not None and not isinstance(up, _FUNCTIONS):
        if isinstance(up, _LOOPS):
            if named & _counted(up):
                return up
        up = source.parents.get(up)
    return None


def spare(source: Source, made: ast.AST) -> bool:
    """`y = torch.tensor([0])`, `if kind == "a": y = f(x)`, `elif kind == "b": y = g(x)`: is it never read?

    Each value that the condition asks for sets the name again, and nothing reads it in between.
    """
    statement = source.statement(made)
    if not isinstance(statement, ast.Assign):
        return False
    value, target = statement.value, statement.targets[0]
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    name = next((t.id for t, v in pairs if isinstance(t, ast.Name) and made in walk(v)), "")
    block = source.block(statement)
    for later in block[block.index(statement) + 1 :] if name else ():
        if not any(isinstance(node, ast.Name) and node.id == name for node in walk(later)):
            continue
        arms = list(_choice(later))
        return len(arms) > 1 and all(_sets(arm, name) for arm in arms)
    return False


def _choice(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The arms of a choice between constants: `if a == 1: ... elif a == 2: ...`."""
    asked: set[str] = set()
    while isinstance(node, ast.If):
        test = node.test
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In)):
            return
        asked.add(ast.unparse(test.left))
        if len(asked) > 1:
            return
        yield node.body
        if len(node.orelse) != 1:
            if node.orelse:
                yield node.orelse
            return
        node = node.orelse[0]


def _sets(arm: list[ast.stmt], name: str) -> bool:
    """Does an arm bind a name, whichever way it takes, before it reads it?"""
    for statement in arm:
        found = [node for node in walk(statement) if isinstance(node, ast.Name) and node.id == name]
        if not found:
            continue
        if isinstance(statement, ast.If) and statement.orelse:
            if any(isinstance(node, ast.Name) and node.id == name for node in walk(statement.test)):
                return False
            return _sets(statement.body, name) and _sets(statement.orelse, name)
        stored = all(isinstance(node.ctx, ast.Store) for node in found)
        return isinstance(statement, (ast.Assign, ast.AnnAssign)) and stored
    return bool(arm) and isinstance(arm[-1], (ast.Return, ast.Raise))
