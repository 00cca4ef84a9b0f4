"""What is moved, or read as an array, further down was on the CPU before."""

from __future__ import annotations

import ast
import re

from devfix.checkers.signs import root_name
from devfix.engine.events import moved_by
from devfix.engine.evidence import about_devices
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class, File
from devfix.text.names import path_of
from devfix.text.source import FUNCTIONS, Source, remembered

_READS = frozenset({"numpy"})


def is_moved_below(file: File, node: ast.AST, operand: ast.AST | None, *, by_name: bool = True) -> bool:
    """Is what an operation gives, or its operand, moved or read by numpy afterwards: so it was on the CPU?

    Functions of the file that are given it count, too.
    Unless `by_name`, what it gives is only looked at where it is given, not below by the name that it gets.
    """
    source = file.source
    statement = source.statement(node)
    up: ast.AST | None = node
    while up is not None and up is not statement:
        parent = source.parents.get(up)
        if isinstance(parent, ast.Attribute) and _puts_elsewhere(source, source.parents.get(parent)):
            return True
        up = parent
    names = {root_name(operand)} if operand is not None else set()
    given = (
        {one.id for one in getattr(statement, "targets", ()) if isinstance(one, ast.Name)}
        if by_name
        else set()
    )
    names = names.union(given) - {""}
    function = source.enclosing(node, *FUNCTIONS)
    if function is None or not names:
        return False
    parts = _parts(source, function)
    for one in list(names):
        names |= parts.get(one, set())
    line, moved = getattr(statement, "end_lineno", 0), _moved(source, function)
    if any(_moved(source, function, True).get(one, 0) > line for one in given):
        return True
    return any(moved.get(one, 0) > line for one in names) or _is_handed_on(file, function, names, line)


def _is_handed_on(file: File, function: ast.AST, names: set[str], line: int) -> bool:
    """Is one of these names given, below a line, to a function of the file that moves what it gets?"""
    source, owner = file.source, file.of_node.get(file.source.enclosing(function, ast.ClassDef) or function)
    for call in source.of_kind(ast.Call, function):
        given = [one.id if isinstance(one, ast.Name) else "" for one in call.args]
        if call.lineno <= line or names.isdisjoint(given):
            continue
        path = path_of(call.func)
        found = owner.methods.get(path.removeprefix("self.")) if isinstance(owner, Class) else None
        found = found if path.startswith("self.") else file.functions.get(path)
        if found is not None:
            moved = _moved(source, found.node)
            wanted = found.positional[path.startswith("self.") and not found.static :]
            if any(name in names and one in moved for name, one in zip(given, wanted, strict=False)):
                return True
    return False


def _puts_elsewhere(source: Source, call: ast.AST | None) -> bool:
    """`x.cuda()`, `x.to(device)`, `x.numpy()`; not `x.to(dtype)`, nor `x.to(y.device)`, which only follows."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _READS or call.func.attr == "cuda":
        return True
    given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "device")]
    return call.func.attr == "to" and any(
        about_devices(source.code(one)) and not re.fullmatch(r"(?!self\b|cls\b)\w+\.device", source.code(one))
        for one in given
    )


@remembered
def _parts(source: Source, function: ast.AST) -> dict[str, set[str]]:
    """Name -> what it is a part of, `x = batch.x`, or what is made of its elements: `rows = [one[1:] for one in x]`."""
    found: dict[str, set[str]] = {}
    for one in source.of_kind(ast.Assign, function):
        target, value = one.targets[0], one.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute):
            found.setdefault(target.id, set()).add(root_name(value))
        elif isinstance(target, ast.Name) and isinstance(value, ast.ListComp):
            found.setdefault(root_name(value.generators[0].iter), set()).add(target.id)
    return found


@remembered
def _moved(source: Source, function: ast.AST, anywhere: bool = False) -> dict[str, int]:
    """The names that are moved or read by numpy in a function, and the last line where they are.

    `anywhere`: also as they are given to something else.
    """
    found: dict[str, int] = {}
    for node in source.walk(function):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            alone = isinstance(source.parents.get(node), (ast.Expr, ast.Return)) or node.func.attr in _READS
            if (alone or anywhere) and _puts_elsewhere(source, node):
                name = root_name(node.func.value)
                found[name] = max(line, found.get(name, 0))
        elif isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) for one in node.targets):
            read = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in read and _is_move(source, node.value):
                    found[target.id] = max(line, found.get(target.id, 0))
    return found


def _is_move(source: Source, value: ast.expr) -> bool:
    """Does an expression hand on, or move to, a device that has a name?"""
    return ".device" not in source.code(value) and about_devices(source.code(value))


def is_moved_later(mismatch: Mismatch) -> bool:
    """Is a result that an attribute keeps moved there: `self.table = self.table.to(device)`?"""
    if not isinstance(mismatch.node, ast.Attribute) or mismatch.function is None:
        return False
    path = ast.unparse(mismatch.node)
    moves = map(moved_by, mismatch.function.nodes)
    return any(moved is not None and ast.unparse(moved) == path for moved in moves)
