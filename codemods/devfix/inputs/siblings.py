"""Inputs that one method of a class moves to its device, and another one forgets.

The class itself tells where its model is, even if its making is out of sight: a training step that
moves its batch, next to an evaluation step that does not; a method that overrides one which moves
its own parameter.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import Edit, InsertStatement
from devfix.flow import Flow
from devfix.models import frameworks
from devfix.text.names import path_of
from devfix.text.placing import around, dotted, guards_of, stores
from devfix.text.source import Source, walk

_SIGNS = (".to(self.", "device=self.")
Method = ast.FunctionDef | ast.AsyncFunctionDef
_MOVES = ("to", "cuda")
_LAST = re.compile(r"(?<!\w)\w+$")
# Called by others with inputs in place, or before there is a device.
_NOT_MEANT = frozenset({"__init__", "__call__", "__getitem__", "forward", "to", "loss", "training_step"})
# What an object holds besides networks.
_NO_NETWORK = (
    "tokenizer", "hparams", "log", "process", "transform", "metric", "collate", "writer", "augment", "fn",
    "device", "config", "args", "prepar",
)  # fmt: skip


@dataclass(frozen=True)
class Forgotten:
    """A parameter that is run unmoved, and the move that another method makes."""

    node: ast.expr  # the call that runs it
    name: str
    device: str
    move: ast.stmt
    mover: str  # the other method
    edits: tuple[Edit, ...]


def forgotten(flow: Flow) -> Iterator[Forgotten]:
    """Every parameter that a method moves, and a method beside it does not."""
    source = flow.source
    if not any(sign in source.text for sign in _SIGNS):
        return
    classes = {node.name: node for node in source.definitions if isinstance(node, ast.ClassDef)}
    for owner in classes.values():
        code = source.code(owner)
        if not any(sign in code for sign in _SIGNS) or _owned(source, owner):
            continue
        counts = Counter(name for method in _methods(owner) for name in _parameters(method))
        shared = {name for name, number in counts.items() if number > 1}
        moves = {
            (method.name, name): found
            for method in _methods(owner)
            for name, found in _moves(source, method, shared).items()
        }
        for method in _methods(owner):
            yield from _beside(source, owner, method, moves)
    for owner in classes.values():
        for base in owner.bases:
            parent = classes.get(base.id) if isinstance(base, ast.Name) else None
            if parent is not None and parent is not owner and any(s in source.code(parent) for s in _SIGNS):
                yield from _overriding(source, owner, parent)


def _range(source: Source, node: ast.AST) -> tuple[int, int]:
    span = source.span(node)
    return span.start, span.end


def _owned(source: Source, owner: ast.ClassDef) -> bool:
    names = [source.qualified(base) or path_of(base) for base in owner.bases]
    return any(
        frameworks.owns_subclasses(name) or name.rpartition(".")[2].endswith(frameworks.HOST_BASES)
        for name in names
    )


def _methods(owner: ast.ClassDef) -> list[Method]:
    return [item for item in owner.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _parameters(method: Method) -> list[str]:
    arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    return [one.arg for one in arguments if one.arg not in ("self", "cls")]


@dataclass(frozen=True)
class _Move:
    statement: ast.Assign
    value: ast.expr
    device: ast.expr


def _bound(code: str) -> set[str]:
    """The last names of what stands in front of ` = `: x and y of `x, y = ...`."""
    found: set[str] = set()
    at = code.find(" = ")
    while at >= 0:
        for part in reversed(code[code.rfind("\n", 0, at) + 1 : at].split(",")):
            word = _LAST.search(part)
            if word is None:
                break
            found.add(word.group())
            if part not in (word.group(), f" {word.group()}"):
                break
        at = code.find(" = ", at + 1)
    return found


def _moves(source: Source, method: Method, wanted: set[str]) -> dict[str, _Move]:
    """`x = x.to(self.device)` and its like for a dict, of parameters; the device is one of the object."""
    code = source.code(method)
    if not any(sign in code for sign in _SIGNS):
        return {}
    names = wanted.intersection(_parameters(method))
    if names:
        names &= _bound(code)
    if not names:
        return {}
    found: dict[str, _Move] = {}
    for node in source.walk(method):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        else:
            pairs = [(target, value)]
        for one, given in pairs:
            if isinstance(one, ast.Name) and one.id in names:
                device = _device(given, one.id)
                if device is not None and dotted(device).startswith("self."):
                    found.setdefault(one.id, _Move(node, given, device))
    return found


def _device(value: ast.expr, name: str) -> ast.expr | None:
    """The device that an expression moves `name`, or what is in it, to."""
    if isinstance(value, (ast.DictComp, ast.ListComp)):
        if not any(isinstance(part, ast.Name) and part.id == name for part in walk(value.generators[0].iter)):
            return None
        item = value.value if isinstance(value, ast.DictComp) else value.elt
        target = value.generators[0].target
        inner = target.elts[-1] if isinstance(target, ast.Tuple) else target
        if isinstance(item, ast.IfExp):
            item = item.body
        return _device(item, inner.id) if isinstance(inner, ast.Name) else None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "to":
            given = [*value.args[:1], *(k.value for k in value.keywords if k.arg == "device")]
            if given and "dtype" not in dotted(given[0]):
                base: ast.expr = value.func.value
                while isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
                    base = base.func.value
                return given[-1] if isinstance(base, ast.Name) and base.id == name else None
        value = value.func.value
    return None


# --- beside ----------------------------------------------------------------------------------


def _beside(
    source: Source, owner: ast.ClassDef, method: Method, moves: dict[tuple[str, str], _Move]
) -> Iterator[Forgotten]:
    if method.name in _NOT_MEANT or any(word in method.name for word in frameworks.HOST_FUNCTIONS):
        return
    for (other, name), move in moves.items():
        if other == method.name or name not in _parameters(method) or (method.name, name) in moves:
            continue
        if _touched(source, method, name) or not _callers_leave(source, owner, method):
            continue
        mover = next(one for one in _methods(owner) if one.name == other)
        run = _run(source, owner, method, name, source.code(mover))
        if run is not None:
            yield _found(source, run, method, name, move, other)
            return


def _touched(source: Source, method: Method, name: str) -> bool:
    """Is the parameter moved, or asked where it is, in any way?"""
    for node in source.walk(method):
        if isinstance(node, ast.Attribute) and node.attr in ("to", "cuda", "device", "cpu", "numpy"):
            if any(isinstance(part, ast.Name) and part.id == name for part in walk(node.value)):
                return True
        if isinstance(node, ast.Call) and "device" in path_of(node.func).rpartition(".")[2]:
            if any(isinstance(part, ast.Name) and part.id == name for part in walk(node)):
                return True
        if isinstance(node, (ast.For, ast.comprehension)):
            if any(isinstance(part, ast.Name) and part.id == name for part in walk(node.iter)):
                return True  # what is in it may be moved one by one
    return False


def _callers_leave(source: Source, owner: ast.ClassDef, method: Method) -> bool:
    """Do the other methods of the class, where they call this one, pass something that they have not moved?"""
    called = False
    for other in _methods(owner):
        code = source.code(other)
        if f"self.{method.name}(" in code:
            called = True
            if ".to(" in code or ".cuda(" in code or "device" in code or "prepare" in code:
                return False
    return called or not method.name.startswith("_")


def _run(source: Source, owner: ast.ClassDef, method: Method, name: str, mover: str) -> ast.Call | None:
    """The first call of a network of the object on the parameter, that the other method calls as well."""
    own = {one.name for one in _methods(owner)}
    runs = []
    for node in source.walk(method):
        if not isinstance(node, ast.Call):
            continue
        path = dotted(node.func)
        parts = path.split(".")
        if parts[0] != "self" or len(parts) < 2 or parts[1] in own or f"self.{parts[1]}" not in mover:
            continue
        if any(word in part.lower() for part in parts[1:] for word in _NO_NETWORK):
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(one, ast.Name) and one.id == name for one in given):
            if not _replaced(source, method, name, node):
                runs.append(node)
    return min(runs, key=lambda call: (call.lineno, call.col_offset), default=None)


def _replaced(source: Source, method: Method, name: str, run: ast.Call) -> bool:
    """Is the name given something else before the run?"""
    for store in stores(source, method, name):
        statement = source.statement(store)
        if source.span(statement).start < source.span(run).start:
            value = getattr(statement, "value", None)
            if value is None or not any(isinstance(p, ast.Name) and p.id == name for p in walk(value)):
                return True
    return False


# --- overriding ------------------------------------------------------------------------------


def _overriding(source: Source, owner: ast.ClassDef, parent: ast.ClassDef) -> Iterator[Forgotten]:
    """A method that calls the one it overrides, which moves its parameter: its own name is not moved by that."""
    above = {method.name: method for method in _methods(parent)}
    for method in _methods(owner):
        mover = above.get(method.name)
        if mover is None or method.name == "__init__" or "super(" not in source.code(method):
            continue
        moves = _moves(source, mover, set(_parameters(method)))
        for name in _parameters(method):
            move = moves.get(name)
            if move is None or _touched(source, method, name):
                continue
            run = next(
                (
                    node
                    for node in source.walk(method)
                    if isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr != method.name
                    and _root(node.func).startswith("self.")
                    and any(isinstance(one, ast.Name) and one.id == name for one in node.args)
                ),
                None,
            )
            if run is not None:
                yield _found(source, run, method, name, move, f"{parent.name}.{method.name}")
                return


def _root(node: ast.expr) -> str:
    while not dotted(node):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return ""
    return dotted(node)


# --- the fix ---------------------------------------------------------------------------------


def _found(source: Source, run: ast.Call, method: Method, name: str, move: _Move, mover: str) -> Forgotten:
    guards = guards_of(source, move.statement)
    overriding = "." in mover
    first = (
        around(source, run)[-1] if overriding else _first_read(method, name, guards, around(source, run)[-1])
    )
    code = source.code(move.value)
    moved = ast.unparse(move.value) if "\n" in code else code
    text = f"{name} = {moved}"
    parts: list[ast.AST] = [move.value]
    if guards:
        inside = any(move.statement in walk(one) for one in guards[0].body)
        text = f"if {_condition(guards[0].test, inside)}:\n    {text}"
        parts.append(guards[0].test)
    names = [part for one in parts for part in walk(one) if isinstance(part, ast.Name)]
    bound = {part.id for part in names if isinstance(part.ctx, ast.Store)}
    plain = len(guards) <= 1 and {part.id for part in names} <= {"self", "torch", name, *bound}
    edits = (InsertStatement(source.span(first), text, before=True),) if plain else ()
    node: ast.expr = run
    if not overriding and first is not around(source, run)[-1]:
        node = next(part for part in walk(first) if isinstance(part, ast.Name) and part.id == name)
    return Forgotten(node, name, source.code(move.device), move.statement, mover, edits)


def _first_read(method: Method, name: str, guards: list[ast.If], last: ast.stmt) -> ast.stmt:
    """The first statement that reads the parameter, but for one that asks what the mover asks."""
    asked = {ast.unparse(guard.test) for guard in guards}
    for statement in method.body:
        if statement is last:
            break
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in asked:
            continue
        if any(isinstance(part, ast.Name) and part.id == name for part in walk(statement)):
            return statement
    return last


def _condition(test: ast.expr, inside: bool) -> str:
    """A test, or its opposite for what stands in the `else`."""
    if inside:
        return ast.unparse(test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        turned: ast.cmpop = ast.IsNot() if isinstance(test.ops[0], ast.Is) else ast.Is()
        return ast.unparse(ast.Compare(test.left, [turned], test.comparators))
    return f"not ({ast.unparse(test)})"
