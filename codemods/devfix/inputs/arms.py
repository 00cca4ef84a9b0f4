"""Places of a program that one run does not both reach: the opposite arms of one condition."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator

from devfix.placing import about_devices, dotted, stores
from devfix.source import Source, remembered, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda, ast.Module)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Conditions on how many devices there are: both arms may run on one.
_HOW_MANY = re.compile(r"count|parallel|distrib|multi|rank|world|num_|n_gpu|ngpu|[<>]")
# What is written the other way round, as an operator that means the same in a condition that fails.
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.IsNot: ast.Is,
    ast.NotEq: ast.Eq,
    ast.NotIn: ast.In,
}
Facts = list[tuple[str, bool, ast.expr]]


def holding(source: Source, node: ast.AST) -> Facts:
    """The conditions that hold, or fail, where a node stands in its function, innermost first."""
    found: Facts = []
    child, up = node, source.parents.get(node)
    while up is not None and not isinstance(child, _SCOPES):
        if isinstance(child, ast.stmt):
            numbers, left = _leaving(source, source.block(child)[0])
            for known in left[: bisect_left(numbers, source.index(child))]:
                found += known
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test:
            found += _facts(source, up.test, _first_arm(source, up, child))
        elif isinstance(up, ast.While) and child is not up.test and child not in up.orelse:
            found += _facts(source, up.test, True)
        child, up = up, source.parents.get(up)
    return found


def facts(test: ast.expr, holds: bool) -> Facts:
    """The parts of a condition that are known to hold, or to fail, where all of it does."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return facts(test.operand, not holds)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is not holds:
            return []
        return [one for part in test.values for one in facts(part, holds)]
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _TURNED:
        turned = ast.Compare(test.left, [_TURNED[type(test.ops[0])]()], test.comparators)
        return [(ast.unparse(turned), not holds, test)]
    return [(ast.unparse(test), holds, test)]


@remembered
def _facts(source: Source, test: ast.expr, holds: bool) -> Facts:
    return facts(test, holds)


def opposed(source: Source, one: ast.AST, other: ast.AST) -> bool:
    """Does one stand where a condition holds, and the other where the same condition fails?

    The condition must be the same at both: its names are bound before them, once and for all.
    """
    there = {(text, holds) for text, holds, _ in holding(source, other)}
    return bool(there) and any(
        (text, not holds) in there and _fixed(source, test, one, other)
        for text, holds, test in holding(source, one)
    )


def on_host(source: Source, node: ast.AST, name: str = "") -> bool:
    """Does a node stand in the arm without a device, of a condition about devices whose other arm moves `name`?

    Without a name: whose other arm moves anything.
    """
    parts = list(_elsewhere(source, node))
    if not parts:
        return False
    what = rf"(?<![\w.]){re.escape(name)}(?:\.\w+(?:\(\))?|\[[^\]]*\])*" if name else ""
    moving = re.compile(rf"{what}\.(?:cuda\(|to\()" if name else r"\.cuda\(")
    return any(moving.search(source.code(part)) for part in parts)


def _elsewhere(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """What is run instead on a device, where a node stands in the arm without one."""
    child, up = node, source.parents.get(node)
    while up is not None and not isinstance(child, _SCOPES):
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test and _chooses(up.test):
            first = _first_arm(source, up, child)
            if first is _turned(up.test):
                yield from _arm(up, not first)
        if isinstance(child, ast.stmt):
            for above in source.above(child, ast.If):
                if not above.orelse and isinstance(above.body[-1], _LEAVES):
                    if _chooses(above.test) and not _turned(above.test):
                        yield from above.body
        child, up = up, source.parents.get(up)


def _chooses(test: ast.expr) -> bool:
    return about_devices(test) and not _HOW_MANY.search(ast.unparse(test).lower())


def _turned(test: ast.expr) -> bool:
    """Does a condition hold where there is no device: `not use_cuda`, `device == "cpu"`?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not _turned(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        constants = [part.value for part in walk(test) if isinstance(part, ast.Constant)]
        host = any(value == "cpu" or value is None or value is False for value in constants)
        return host is not isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
    return False


def _first_arm(source: Source, choice: ast.If | ast.IfExp, child: ast.AST) -> bool:
    if isinstance(choice, ast.If):
        return isinstance(child, ast.stmt) and source.block(child) is choice.body
    return child is choice.body


def _arm(choice: ast.If | ast.IfExp, first: bool) -> list[ast.AST]:
    part = choice.body if first else choice.orelse
    return list(part) if isinstance(part, list) else [part]


@remembered
def _leaving(source: Source, top: ast.stmt) -> tuple[list[int], list[Facts]]:
    """Of a block that begins with `top`: the numbers of what tells something below it, and what that is."""
    told = [(at, facts) for at, one in enumerate(source.block(top)) if (facts := _left(one))]
    return [at for at, _ in told], [facts for _, facts in told]


def _left(statement: ast.stmt) -> Facts:
    """What is known below an `if` with an arm that leaves."""
    if not isinstance(statement, ast.If):
        return []
    first = isinstance(statement.body[-1], _LEAVES)
    second = bool(statement.orelse) and isinstance(statement.orelse[-1], _LEAVES)
    return facts(statement.test, second) if first is not second else []


def _fixed(source: Source, test: ast.expr, one: ast.AST, other: ast.AST) -> bool:
    """Is a condition the same at two places?"""
    here, there = _scope(source, one), _scope(source, other)
    paths = {path for part in walk(test) if (path := dotted(part))}
    if here is there:
        at = min(source.span(node).start for node in (one, other))
        loops = {up for node in (one, other) for up in _loops(source, node)}
        return all(
            source.span(store).start < at and loops.isdisjoint(_loops(source, store))
            for store in _stores(source, here, paths)
        )
    if any(isinstance(part, ast.Attribute) and part.attr == "training" for part in walk(test)):
        return False  # it changes from call to call
    names = {path for path in paths if "." not in path}
    for scope in (here, there):
        if isinstance(scope, _FUNCTIONS) and next(_stores(source, scope, names), None) is not None:
            return False
    # Bound where neither of the two is: once, and by no function that changes it for all.
    for path in paths:
        if "." in path and not _kept(source, path):
            return False
        if "." not in path and any(
            path in node.names for node in source.walk() if isinstance(node, ast.Global)
        ):
            return False
    return not any(_loops(source, store) for store in _stores(source, source.tree, paths))


def _kept(source: Source, path: str) -> bool:
    """Is an attribute set nowhere, or only where its object is made?"""
    for node in source.walk():
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted(node) == path:
            scope = _scope(source, node)
            if isinstance(scope, _FUNCTIONS) and scope.name not in ("__init__", "main"):
                return False
    return True


def _stores(source: Source, scope: ast.AST, paths: set[str]) -> Iterator[ast.AST]:
    """Where one of these names, or the object of an attribute among them, is bound in a scope."""
    for path in paths:
        if "." not in path:
            yield from stores(source, scope, path)
    for node in source.walk(scope):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted(node) in paths:
            if _scope(source, node) is scope:
                yield node


def _scope(source: Source, node: ast.AST) -> ast.AST:
    return source.enclosing(node, *_FUNCTIONS) or source.tree


def _loops(source: Source, node: ast.AST) -> set[ast.AST]:
    found: set[ast.AST] = set()
    up = source.parents.get(node)
    while up is not None and not isinstance(up, _SCOPES):
        if isinstance(up, _LOOPS):
            found.add(up)
        up = source.parents.get(up)
    return found
