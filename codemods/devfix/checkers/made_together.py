"""Modules that are made together, of which all but one are moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.checkers.signs import MOVES, quoted
from devfix.engine.events import moved_by
from devfix.engine.evidence_of_modules import is_class_name, last_word, may_hold_no_weights
from devfix.findings import AppendCall, Edit, Finding, InsertStatement, Related, told
from devfix.models.loader import models
from devfix.text.placing import about_devices, bound_before, dotted
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "module-never-moved"
# Done with a network that nobody else looks after.
_BY_HAND = frozenset({"eval", "requires_grad_", "load_state_dict"})


def findings(source: Source) -> Iterator[Finding]:
    yield from _made_together(source)
    yield from _arms(source)
    for node in source.of_kind(ast.FunctionDef):
        if node.name == "__init__":
            yield from _layers(source, node)


@dataclass
class _Group:
    """Modules that belong together: those that are moved, with the code of the move; and those that are only set up.

    Both by their paths, each with the call.
    """

    moved: dict[str, tuple[ast.Call, str]] = field(default_factory=dict)
    left: dict[str, ast.Call] = field(default_factory=dict)


def _made_together(source: Source) -> Iterator[Finding]:
    """Entries of a dict, or objects of one kind of class, of which all but one are moved as they are made or set up."""
    groups: dict[tuple[ast.AST, str], _Group] = {}
    for path, kind, call in _modules(source):
        function = source.scope(call)
        group = groups.setdefault((function, kind), _Group())
        moved = moved_by(call, MOVES)
        if moved is not None:
            group.moved[path] = call, source.text[source.span(moved).end : source.span(call).end].strip()
        else:
            group.left[path] = call
    for (function, kind), group in groups.items():
        left = {path: call for path, call in group.left.items() if path not in group.moved}
        moves = {move for _, move in group.moved.values()}
        if len(left) == len(moves) == 1 and len(group.moved) >= (2 if kind.endswith("[]") else 1):
            path, call = left.popitem()
            finding = _unlike(source, function, path, call, group, moves.pop())
            if finding is not None:
                yield finding


def _arms(source: Source) -> Iterator[Finding]:
    """`if resume: net = Net() else: net = Net().to(device)`, and no move of it further down."""
    for node in source.of_kind(ast.If):
        made = [_made_in(arm) for arm in (node.body, node.orelse)]
        for name in made[0].keys() & made[1].keys():
            arms = sorted((one[name] for one in made), key=lambda call: _class(call) is call)
            moved, left = arms
            root = _class(moved)
            if root is None or root is moved or _class(left) is not left or about_devices(node.test):
                continue
            function = source.enclosing(node, *FUNCTIONS)
            if dotted(root.func) != dotted(left.func):
                continue
            group = _Group(
                {name: (moved, source.text[source.span(root).end : source.span(moved).end].strip())}
            )
            finding = _unlike(source, function or source.tree, name, left, group, group.moved[name][1])
            if finding is not None:
                yield finding


def _layers(source: Source, init: ast.FunctionDef) -> Iterator[Finding]:
    """`self.a = self.a.cuda()`, the same of `self.b`, and `self.c`, a layer that is made beside these, is left out."""
    layers: dict[str, ast.Assign] = {}
    moved: dict[str, ast.Assign] = {}
    for one in sorted(source.of_kind(ast.Assign, init), key=lambda one: one.lineno):
        call, path = one.value, source.code(one.targets[0])
        if not isinstance(call, ast.Call) or not path.startswith("self."):
            continue
        if (
            _move(call) is call
            and isinstance(call.func, ast.Attribute)
            and source.code(call.func.value) == path
        ):
            moved[path] = one
        elif source.qualified(call.func) in models().sized:
            layers[path] = one
    left, owner = [one for one in layers if one not in moved], source.enclosing(init, ast.ClassDef)
    if owner is None or len(left) != 1 or len(moved) < 3 or not layers.keys() & moved.keys():
        return
    path = left[0]
    later = [one for one in moved if one in layers and layers[one].lineno > layers[path].lineno]
    near = moved[later[0]] if later else max(moved.values(), key=lambda one: one.lineno)
    block, code = source.block(near), source.code(near)
    calls = [source.code(one.func) for one in source.of_kind(ast.Call, owner)]
    runs = any(one in (path, f"{path}.forward") for one in calls)
    whole = any(one in (f"self.{move}", f"{path}.{move}") for one in calls for move in MOVES)
    if not runs or whole or "device" in source.code(layers[path]) or "\n" in code or "#" in code:
        return
    if not all(one in block for one in moved.values()):
        return  # each has a place of its own
    message = f"`{path}` is not moved, unlike {len(moved)} parts of the module beside it"
    text = code.replace(source.code(near.targets[0]), path)
    edit = InsertStatement(source.span(near), text, before=bool(later))
    related = (Related(source.span(layers[path]), "it is made here"),)
    title, unless = f"move `{path}` as well", "nothing moves the module as a whole"
    yield told(CODEMOD, source.span(near), message, title, (edit,), related, unless)


def _made_in(block: list[ast.stmt]) -> dict[str, ast.Call]:
    """The names that the statements of a block bind to the results of calls."""
    return {
        one.targets[0].id: one.value
        for one in block
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and isinstance(one.value, ast.Call)
    }


def _modules(source: Source) -> Iterator[tuple[str, str, ast.Call]]:
    """What is made, moved or set up: the path, the group that it belongs to, and the call."""
    for one in source.of_kind(ast.Assign):
        target, value = one.targets[0], one.value
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            entries = [(source.code(target), f"{source.code(target.value)}[]", value)]
        elif isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in value.keys]
            name = target.id
            entries = [
                (f"{name}[{k!r}]", f"{name}[]", v) for k, v in zip(keys, value.values, strict=True) if k
            ]
        else:
            name = target.id if isinstance(target, ast.Name) else ""
            entries = [(name, _kind(_class(value)), value)] if name else []
        for path, kind, made in entries:
            cls, move = _class(made), _move(made) if kind.endswith("[]") else None
            if move is not None:  # whatever makes it, and whatever is done with it then
                yield path, kind, move
                continue
            if not kind or cls is None or not isinstance(made, ast.Call) or _is_tensor(source, cls):
                continue
            # `a = Kernel(2).to(**options)`: a move that tells a dtype, too, is one that all like it have.
            if kind.endswith("[]") or made is cls or (made.keywords and not made.args):
                yield path, kind, made
    for statement in source.of_kind(ast.Expr):
        call = statement.value
        func = call.func if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and isinstance(func, ast.Attribute) and func.attr in MOVES | _BY_HAND:
            held = func.value
            if isinstance(held, ast.Subscript) and isinstance(held.slice, ast.Constant):
                yield source.code(held), f"{source.code(held.value)}.[]", call


def _class(value: ast.AST) -> ast.Call | None:
    """The call of a constructor at the root of a chain of methods."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr[:1].isupper():
            break
        value = value.func.value
    named = dotted(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return value if isinstance(value, ast.Call) and is_class_name(named) else None


def _move(value: ast.AST) -> ast.Call | None:
    """The move in a chain of methods: `Net().to(device).eval()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in MOVES:
            return value
        value = value.func.value
    return None


def _moved(source: Source, function: ast.AST) -> tuple[set[str], set[str]]:
    """The paths that a function moves, and the names that it binds to what it moves at once."""
    moves = (moved_by(one, MOVES) for one in source.of_kind(ast.Call, function))
    bound = (one.targets[0] for one in source.of_kind(ast.Assign, function) if _move(one.value) is not None)
    return {source.code(moved) for moved in moves if moved is not None}, {
        source.code(target) for target in bound
    }


def _is_tensor(source: Source, call: ast.Call) -> bool:
    """Is it one of torch's own classes that is no module: `Variable(x)`, `Tensor(3)`?"""
    name = source.qualified(call.func)
    return name.startswith("torch.") and not name.startswith("torch.nn.")


def _kind(call: ast.Call | None) -> str:
    """The last word of the name of a class: `Kernel` of `MaternKernel`."""
    return last_word(dotted(call.func)) if call is not None else ""


def _unlike(
    source: Source, function: ast.AST, path: str, call: ast.Call, group: _Group, move: str
) -> Finding | None:
    """The finding about what is not moved as the others of its group are."""
    other = max((one for one, _ in group.moved.values()), key=lambda one: one.lineno)
    made = _class(call) is call
    span, statement = source.span(call), source.statement(call if made else other)
    nodes = source.of_kind(ast.For, function)
    base = path.partition("[")[0]
    looped = "[" in path and any(source.code(one.iter).startswith(base) for one in nodes)
    moved, bound = _moved(source, function)
    if "device" in source.code(call) or looped or path in moved:
        return None
    parts = {source.code(one) for one in (*call.args, *(key.value for key in call.keywords))}
    if made and not parts.isdisjoint(moved | bound):
        return None
    given = ast.parse(f"super(){move}", mode="eval").body  # `super` stands for the module
    if not bound_before(source, given, statement):
        return None
    edit: Edit = AppendCall(span, move)
    if not made:  # `parts["head"].eval()`, which `self.parts.head(x)` runs
        held = call.func.value if isinstance(call.func, ast.Attribute) else call
        key = held.slice if isinstance(held, ast.Subscript) else None
        attribute = f"self.{base}.{key.value!s}" if isinstance(key, ast.Constant) else ""
        if not any(one.args and source.code(one.func) in (attribute, path) for one in source.calls):
            return None
        edit = InsertStatement(source.span(statement), f"{path}{move}")
    elif may_hold_no_weights(dotted(call.func)):
        return None
    message = f"`{path}` is not moved, unlike {quoted(source, other)} and others next to it"
    title = f"append `{move}`" if made else f"move `{path}` as well"
    related = (Related(source.span(other), "this one is moved"),)
    at = span if made else source.span(statement)
    return told(CODEMOD, at, message, title, (edit,), related, "they are used together")
