"""Classes of the file that are given a model and a device, and move everything but the model."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from devfix.bindings import Bindings, function_around
from devfix.findings import AppendCall, Edit
from devfix.flow import Flow
from devfix.flow.evidence import looks_like_device
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Where
from devfix.flow.methods import MOVES
from devfix.placing import bound_before, dotted, rebound
from devfix.source import Source, walk
from devfix.unmoved.foreign import makers
from devfix.unmoved.others import Left
from devfix.unmoved.uses import Use, reads, use_of

# Those who place a model for their owner.
_PLACING = re.compile(r"accelerat|fabric|deepspeed|\.prepare\(|fsdp|FullySharded|lightning|distribute_")
# Wraps that leave a module where it is.
_WRAPS = frozenset({"DDP", "DataParallel", "DistributedDataParallel", "initialize", "apply"})
_HELD = re.compile(r"\.(?:to|cuda)\(\s*(?:device\s*=\s*)?self\.(\w+)")


def given_with_device(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """`Runner(model, device)`: the class runs `self.model` on what it moves to `self.device`."""
    source = flow.source
    held = set(_HELD.findall(source.text))
    if not held:
        return
    classes = {one.name: one for one in source.definitions if isinstance(one, ast.ClassDef)}
    seen: set[ast.expr] = set()
    for call in sorted(source.calls, key=lambda one: (one.lineno, one.col_offset)):
        owner = classes.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if owner is None:
            continue
        given = _arguments(classes, owner, call)
        line = _line(classes, owner)
        pair = _kept(source, line, given, held)
        if pair is None:
            continue
        attribute, model, device = pair
        text = dotted(device)
        if not isinstance(model, ast.Name) or not text or not _is_device(flow, device):
            continue
        if not _only_run(flow, bindings(), attribute):
            continue
        values = makers(flow, bindings(), model.id, call, told=True, here=True)
        if not values or not seen.isdisjoint(values):
            continue
        seen.update(values)
        edits = _moves(source, text, values, call)
        why = (
            f"nothing moves `{model.id}`, which is made here, but `{owner.name}` runs it on what it moves to "
            f"`{text}`"
        )
        yield Left(values[-1], model.id, why, call, f".to({text})", edits)


def _is_device(flow: Flow, node: ast.expr) -> bool:
    value = flow.value(node)
    if value.kind is Kind.DEVICE:
        return value.place.where is not Where.CPU
    return looks_like_device(dotted(node))


def _line(classes: dict[str, ast.ClassDef], owner: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and its bases in this file."""
    found = [owner]
    for one in found:  # grows on the way
        found += [
            classes[name]
            for name in (dotted(base) for base in one.bases)
            if name in classes and classes[name] not in found
        ]
    return found


def _init(owner: ast.ClassDef) -> ast.FunctionDef | None:
    return next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)


def _arguments(
    classes: dict[str, ast.ClassDef], owner: ast.ClassDef, call: ast.Call
) -> dict[str, dict[str, ast.expr]]:
    """What the `__init__` of a class, and of its bases that it hands on to, are given: by class and parameter."""
    found: dict[str, dict[str, ast.expr]] = {}
    for one in _line(classes, owner):
        init = _init(one)
        if init is None:
            continue
        if not found:
            found[one.name] = _bound(init, call)
            child = one
            continue
        inner = next((c for c in walk(_init(child) or child) if _to_super(c)), None)
        if not isinstance(inner, ast.Call):
            break
        above = found[child.name]
        found[one.name] = {
            name: above[value.id]
            for name, value in _bound(init, inner).items()
            if isinstance(value, ast.Name) and value.id in above
        }
        child = one
    return found


def _to_super(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    inner = node.func.value
    return node.func.attr == "__init__" and isinstance(inner, ast.Call) and path_of(inner.func) == "super"


def _bound(init: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call by the names of the parameters, `self` left out."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return {}
    names = [one.arg for one in (*init.args.posonlyargs, *init.args.args)][1:]
    found = dict(zip(names, call.args, strict=False))
    found.update({one.arg: one.value for one in call.keywords if one.arg})
    return found


def _kept(
    source: Source,
    line: list[ast.ClassDef],
    given: dict[str, dict[str, ast.expr]],
    held: set[str],
) -> tuple[str, ast.expr, ast.expr] | None:
    """The attribute that holds the model, and the arguments that are the model and the device."""
    code = "\n".join(source.code(one) for one in line)
    if _PLACING.search(code) or _unknown_base(line):
        return None
    kept: dict[str, ast.expr] = {}
    for one in line:
        for statement in (_init(one) or one).body:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            path = dotted(statement.targets[0])
            if path.startswith("self.") and isinstance(statement.value, ast.Name):
                argument = given.get(one.name, {}).get(statement.value.id)
                if argument is not None and not _touched(one, statement.value.id):
                    kept[path[5:]] = argument
    used = {name for name in _HELD.findall(code) if name in held}
    device = next((kept[name] for name in sorted(used) if name in kept), None)
    if device is None or len(used) != 1:
        return None
    for name, argument in kept.items():
        if name in used or not re.search(rf"\bself\.{name}\(", code):
            continue
        if not re.search(rf"\bself\.{name}\.(?:to|cuda)\(|\bself\.{name}\s*=.*\.(?:to|cuda)\(", code):
            return name, argument, device
    return None


def _touched(owner: ast.ClassDef, parameter: str) -> bool:
    """Does `__init__` move its parameter, or give it another value?"""
    init = _init(owner)
    for node in walk(init) if init is not None else ():
        if isinstance(node, ast.Name) and node.id == parameter and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Attribute) and node.attr in MOVES and dotted(node.value) == parameter:
            return True
    return False


def _unknown_base(line: list[ast.ClassDef]) -> bool:
    """Has one of the classes a base out of sight, which may move what it is given?"""
    names = {one.name for one in line} | {"object", "ABC", "abc.ABC", "Generic"}
    return any(dotted(base) not in names for one in line for base in one.bases)


def _only_run(flow: Flow, bindings: Bindings, attribute: str) -> bool:
    """Is nothing done with the attribute, under this name anywhere in the file, that may move it?"""
    source = flow.source
    for read in reads(flow, bindings, f"self.{attribute}", source.tree):
        if use_of(flow, bindings, read, len(source.text)) is Use.PLAIN:
            continue
        up = source.parents[read]
        if not isinstance(up, ast.Call) or path_of(up.func).rpartition(".")[2] not in _WRAPS:
            return False
    return True


def _moves(source: Source, text: str, values: list[ast.expr], call: ast.Call) -> tuple[Edit, ...]:
    expression = ast.parse(text, mode="eval").body
    for value in values:
        same = function_around(source, value) is function_around(source, call)
        if not same or not bound_before(source, expression, source.statement(value)):
            return ()
        if rebound(source, [expression], value, call):
            return ()
    return tuple(AppendCall(source.span(value), f".to({text})") for value in values)
