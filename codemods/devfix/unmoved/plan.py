"""Where a module that nothing moves is made, and how its move is written there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from devfix.bindings import Bindings, function_around
from devfix.findings import AppendCall, Edit, InsertStatement
from devfix.flow import Flow
from devfix.flow.events import Event, Meeting
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Place, Where
from devfix.placing import around, bound_before, rebound, stores
from devfix.source import Source, remembered, walk
from devfix.unmoved.insertion import changes, own_move
from devfix.unmoved.uses import Use, reads, use_of
from devfix.unmoved.weights import maker

# A device kept in an object of options, or by an object for all that it runs.
_OPTION = re.compile(
    r"(?:self|(?:self\.)?(?:args|opts?|options|cfg|conf|config|hparams|flags|params))\.(?:\w+_)?device$"
)


def given_device(place: Place) -> bool:
    """Is it a device that the program is given, rather than where some tensor is?"""
    return place.where is Where.OF and _OPTION.match(place.text) is not None


@dataclass(frozen=True)
class Made:
    """The expressions that make a module, all of which one name may stand for."""

    path: str
    values: tuple[ast.expr, ...]
    scope: ast.AST  # the function or module in whose text it is made


def made_at(flow: Flow, bindings: Bindings, event: Event) -> Made | None:
    """What makes the module of an event, if that is in this file, and nothing may move it."""
    source, path = flow.source, event.path
    node = event.node
    if event.via == "" and isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
        return Made("", (node.func,), event.scope.node) if flow.value(node.func) is event.value else None
    held = path.startswith("self.") and path.count(".") == 1
    if not held and not path.isidentifier():
        return None
    found = [b for b in bindings.of(path, node) if b.value is None or _root(b.value) != path]
    if any(binding.parameter for binding in found):
        return None
    values = [b.value for b in found if not (isinstance(b.value, ast.Constant) and b.value.value is None)]
    start, end = 0, len(source.text)
    if len(values) > 1 and not held:
        values, start, end = _current(source, [b.node for b in found], values, event)
    if not values or not all(isinstance(value, ast.Call) and _left(flow, value, event) for value in values):
        return None
    calls = tuple(value for value in values if value is not None)
    homes = {function_around(source, value) or source.tree for value in calls}
    if len(homes) != 1:
        return None
    scope = homes.pop()
    if held and not plain_owner(source, calls[0]):
        return None
    before = source.span(node).start if scope is event.scope.node else len(source.text)
    for read in reads(flow, bindings, path, scope):
        if start <= source.span(read).start < end and use_of(flow, bindings, read, before) is not Use.PLAIN:
            return None
    if not held and path in _shared(source):
        return None
    return Made(path, calls, scope)


@remembered
def _shared(source: Source) -> frozenset[str]:
    """The names that functions share with what is around them."""
    return frozenset(
        name for part in source.walk() if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names
    )


def _current(
    source: Source, nodes: list[ast.AST], values: list[ast.expr | None], event: Event
) -> tuple[list[ast.expr | None], int, int]:
    """Of a name that is given one module after the other in one block: the one at an event, and its reach."""
    at = source.span(event.node).start
    statements = sorted((source.statement(node) for node in nodes), key=lambda s: source.span(s).start)
    block = source.block(statements[0])
    if not all(source.block(statement) is block for statement in statements):
        return values, 0, len(source.text)
    above = [statement for statement in statements if source.span(statement).end <= at]
    if not above:
        return [], 0, 0
    later = [source.span(statement).start for statement in statements if source.span(statement).start > at]
    mine = [value for value in values if value is not None and source.statement(value) is above[-1]]
    return list(mine), source.span(above[-1]).start, min(later, default=len(source.text))


def _left(flow: Flow, made: ast.Call, event: Event) -> bool:
    """Does a call make a module with weights where torch makes everything?"""
    value = flow.value(made)
    if value.kind is Kind.UNKNOWN:
        return _same_class(maker(flow, made), event.value.node)  # known by its uses
    if value.kind is Kind.PART and maker(flow, made) is None:
        return False
    known = value.kind is Kind.MODULE or value.kind is Kind.PART
    return known and value.place.where is Where.DEFAULT and not value.bare


def _same_class(made: ast.Call | None, known: ast.AST | None) -> bool:
    """Are these the same call, or calls of one class, such as those in the arms of an `if`?"""
    if made is None or made is known:
        return made is known and made is not None
    name = path_of(made.func)
    return isinstance(known, ast.Call) and name[:1].isupper() and path_of(known.func) == name


def _root(value: ast.expr) -> str:
    node: ast.expr = value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return ast.unparse(node)


def inherits(owner: ast.ClassDef | None) -> bool:
    """Has a class bases, which may be modules or move things?"""
    return owner is not None and any(getattr(base, "id", "") != "object" for base in owner.bases)


def plain_owner(source: Source, node: ast.AST) -> bool:
    """Is the class around it one that moves nothing by inheritance or by walking over its attributes?"""
    owner = source.enclosing(node, ast.ClassDef)
    if not isinstance(owner, ast.ClassDef) or inherits(owner):
        return False
    code = source.code(owner)
    return "__dict__" not in code and "vars(self)" not in code and "getattr(self" not in code


@dataclass(frozen=True)
class Move:
    """The edits that move a module, and the device as it is written there."""

    device: str
    edits: tuple[Edit, ...]


def move_for(flow: Flow, event: Event, stray: Meeting, made: Made) -> Move | None:
    """How to move a module to where `stray` is; None where that device has no name there."""
    if _is_cuda(stray.place) and not (made.path.isidentifier() and changes(event)):
        return Move('"cuda"', tuple(AppendCall(flow.source.span(v), ".cuda()") for v in made.values))
    texts = candidates(flow, event, stray)
    own = made.scope is event.scope.node and made.path.isidentifier()
    if own and changes(event):  # what comes later has to be moved, too
        return _own_move(flow, event, made, texts)
    for text in texts:
        if all(_writable(flow.source, text, value, event, made) for value in made.values):
            return Move(text, tuple(AppendCall(flow.source.span(v), f".to({text})") for v in made.values))
    return _own_move(flow, event, made, texts) if own else None


def _own_move(flow: Flow, event: Event, made: Made, texts: list[str]) -> Move | None:
    for text in texts:
        edit = own_move(flow.source, made.path, text, made.values, event)
        if edit is not None:
            return Move(text, (edit,))
    return None


def _is_cuda(place: Place) -> bool:
    return (
        place.where is Where.ACCELERATOR and place.key == 0 and place.text == '"cuda"' and not place.guarded
    )


def candidates(flow: Flow, event: Event, stray: Meeting) -> list[str]:
    """The names of the device that a tensor is on, shortest first."""
    place = stray.place
    found: list[str] = []
    if place.key and not place.guarded:
        found = [
            named.text
            for named in event.devices
            if named.value.kind is Kind.DEVICE and named.value.place.key == place.key
        ]
        found.sort(key=lambda text: (len(text), text))
    if place.text.startswith(('"', "'")) and place.where is Where.ACCELERATOR and not place.guarded:
        found.append(place.text)
    if not found and place.where is Where.SYMBOL and not place.key and place.text:
        found.append(place.text)  # `args.gpu`, `local_rank`
    if place.where is Where.OF and _OPTION.match(place.text) and place.text not in found:
        found.append(place.text)
    if place.where is Where.OF and place.text.isidentifier():
        found.append(f"{place.text}.device")
    return found


def _writable(source: Source, text: str, value: ast.expr, event: Event, made: Made) -> bool:
    """Can a device expression be written where a module is made, and is it the same one there?"""
    expression = ast.parse(text, mode="eval").body
    at = source.statement(value)
    if not visible(source, expression, value) or not bound_before(source, expression, at):
        return False
    if "self." in text and not set_before(source, expression, at):
        return False
    return made.scope is not event.scope.node or not rebound(source, [expression], value, event.node)


def visible(source: Source, expression: ast.expr, at: ast.AST) -> bool:
    """Is every name of an expression one of the function around a node, or of the module above it?"""
    for part in walk(expression):
        if not isinstance(part, ast.Name) or part.id in source.imports or part.id in ("next", "int", "str"):
            continue
        scope = function_around(source, at)
        while scope is not None:
            if any(one.arg == part.id for one in walk(scope.args) if isinstance(one, ast.arg)):
                break
            if stores(source, scope, part.id):
                break
            scope = function_around(source, scope)
        else:
            made = stores(source, source.tree, part.id)
            inside = function_around(source, at) is not None
            if not made or not (inside or made[0].lineno < source.statement(at).lineno):
                return False
    return True


def set_before(source: Source, expression: ast.expr, at: ast.stmt) -> bool:
    """Are the attributes of self in an expression set above a statement of `__init__`?"""
    function = function_around(source, at)
    if function is None or function.name != "__init__":
        return function is not None
    for part in walk(expression):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self":
            sets = [
                node
                for node in source.walk(function)
                if isinstance(node, ast.Attribute)
                and node.attr == part.attr
                and isinstance(node.ctx, ast.Store)
                and node.lineno < at.lineno
            ]
            chain = around(source, at)
            blocks = [statement for one in chain for statement in source.block(one)]
            if not any(source.statement(node) in blocks for node in sets):
                return False
    return True


def received(flow: Flow, bindings: Bindings, event: Event, stray: Meeting) -> Move | None:
    """A function that makes a device, moves its data there, and leaves the module it is given behind.

    The move goes below the statement that makes the device.
    """
    source, path, function = flow.source, event.path, event.scope.node
    found = bindings.within(function, path) if path.isidentifier() else []
    if len(found) != 1 or not found[0].parameter or isinstance(function, ast.Module):
        return None
    before = source.span(event.node).start
    for read in reads(flow, bindings, path, function):
        if use_of(flow, bindings, read, before) is not Use.PLAIN:
            return None
    for text in candidates(flow, event, stray):
        wanted = stores(source, function, text) if text.isidentifier() else []
        if len(wanted) == 1 and not any(b.parameter for b in bindings.within(function, text)):
            anchor = source.statement(wanted[0])
            if anchor in function.body and source.span(anchor).end <= before:
                return Move(text, (InsertStatement(source.span(anchor), f"{path}.to({text})"),))
    return None
