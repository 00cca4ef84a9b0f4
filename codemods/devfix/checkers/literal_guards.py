"""Conditions around what is put on CUDA by name: what they say of the device, and what they leave open."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum, auto

from devfix.engine.analysis import Analysis
from devfix.engine.named import Named
from devfix.engine.places import LITERAL
from devfix.engine.values import ANYTHING, MODULE, TENSOR, UNKNOWN, Value
from devfix.models.loader import tensor_attributes
from devfix.text.bindings import function_around
from devfix.text.names import path_of
from devfix.text.placing import about_devices, around, dotted
from devfix.text.source import FUNCTIONS, Source, remembered

_AVAILABLE = frozenset({"torch.cuda.is_available", "torch.cuda.device_count"})
_ENDS = (ast.Return, ast.Raise, ast.Continue)
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})
# `use_cuda`, `self.cuda`, `args.gpu`: said once, of everything.
_FLAG = re.compile(r"(?:^|[._])(?:use_?|on_|with_)?(?:cuda|gpu)$", re.IGNORECASE)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Told(Enum):
    NOTHING = auto()  # no condition is about devices
    SAME = auto()  # only where another value is on CUDA: `if x.is_cuda:`
    AVAILABLE = auto()  # only where there is CUDA: `if torch.cuda.is_available():`
    CHOSEN = auto()  # by a flag of the program, or by another test of devices


@dataclass(frozen=True, eq=False)
class Guard:
    """The condition under which something is put on CUDA; `node` is the `if` or the conditional expression.

    `device`, of SAME, is the device of the value that the condition is about, `path` that value, `asked` where it is
    asked. `alone` says that the condition is about nothing else.
    """

    told: Told
    node: ast.If | ast.IfExp | None = None
    device: str = ""
    path: str = ""
    alone: bool = False
    asked: ast.expr | None = None

    def value(self, analysis: Analysis) -> Value:
        """What the engine knows of the value that a SAME condition is about."""
        return analysis.named.asked.get(self.asked, ANYTHING) if self.asked is not None else ANYTHING


_NONE = Guard(Told.NOTHING)
_CHOSEN = Guard(Told.CHOSEN)


def guard_of(source: Source, node: ast.expr) -> Guard:
    """The innermost condition around a node that is about devices, up to its function."""
    child: ast.AST = node
    up = source.parents.get(child)
    while up is not None and not isinstance(up, (*FUNCTIONS, ast.ClassDef)):
        if isinstance(up, (ast.If, ast.IfExp, ast.While)) and child is not up.test:
            positive = child is up.body if isinstance(up, ast.IfExp) else child in up.body
            guard = _read(source, up, positive)
            if guard is not _NONE:
                return guard
        elif (isinstance(up, ast.BoolOp) and about_devices(up)) or isinstance(up, ast.ExceptHandler):
            return _CHOSEN
        if isinstance(child, ast.stmt) and _left_before(source, child):
            return _CHOSEN
        child, up = up, source.parents.get(up)
    return (
        _CHOSEN if isinstance(child, ast.stmt) and up is not None and _left_before(source, child) else _NONE
    )


def _read(source: Source, node: ast.If | ast.IfExp | ast.While, positive: bool) -> Guard:
    test = node.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    if positive and isinstance(node, (ast.If, ast.IfExp)):
        alone = len(parts) == 1
        for part in parts:
            asked = _asked(part)
            if asked is not None:
                path = _path(asked)
                return Guard(
                    Told.SAME, node, _device(source, asked), path or source.code(asked), alone, asked
                )
        if any(_is_available(source, part) for part in parts):
            return Guard(Told.AVAILABLE, node, alone=alone)
    if positive and isinstance(node, ast.If) and not node.orelse and _FLAG.search(path_of(test)):
        return Guard(Told.CHOSEN, node, alone=True)
    return _CHOSEN if about_devices(test) else _NONE


def _asked(test: ast.expr) -> ast.expr | None:
    """`x.is_cuda` itself, and `x.device` of `x.device.type == "cuda"`."""
    if isinstance(test, ast.Attribute) and test.attr == "is_cuda":
        return test if _path(test) or _first_parameter(test.value) else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        sides = [test.left, test.comparators[0]]
        for left, right in (sides, sides[::-1]):
            if isinstance(right, ast.Constant) and right.value == "cuda" and isinstance(left, ast.Attribute):
                return left.value if left.attr == "type" and path_of(left.value) else None
    return None


def _path(asked: ast.expr) -> str:
    is_flag = isinstance(asked, ast.Attribute) and asked.attr == "is_cuda"
    return path_of(asked.value if is_flag and isinstance(asked, ast.Attribute) else asked)


def _device(source: Source, asked: ast.expr) -> str:
    if isinstance(asked, ast.Attribute) and asked.attr == "is_cuda":
        return f"{source.code(asked.value)}.device"
    return source.code(asked)


def _first_parameter(node: ast.expr) -> bool:
    """`next(model.parameters())`"""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "next" and len(node.args) == 1):
        return False
    inner = node.args[0]
    return isinstance(inner, ast.Call) and dotted(inner.func).endswith((".parameters", ".buffers"))


def is_of_tensor(guard: Guard, analysis: Analysis) -> bool:
    """Is a SAME condition about a tensor or a module, and not about an option that somebody calls `is_cuda`?"""
    asked, source = guard.asked, analysis.file.source
    if not isinstance(asked, ast.Attribute) or asked.attr != "is_cuda" or not path_of(asked):
        return True
    value = guard.value(analysis)
    if value.kind != UNKNOWN:
        return value.kind in (TENSOR, MODULE, "batch") and path_of(asked.value) != "self"
    if any("is_cuda" in one.stores or one.method("is_cuda") for one in analysis.file.all_classes):
        return False
    path = path_of(asked.value).removesuffix(".data")
    used = (one.attr for one in source.of_kind(ast.Attribute) if path_of(one.value) == path)
    return all(one in tensor_attributes() for one in used)


def is_for_cuda(source: Source, node: ast.expr) -> bool:
    """Does a value go to functions of `torch.cuda` only, by itself or by a name? They ask, and place nothing."""
    up = source.parents[node]
    if isinstance(up, ast.Assign) and len(up.targets) == 1 and isinstance(up.targets[0], ast.Name):
        name, scope = up.targets[0].id, function_around(source, node) or source.tree
        read = [one for one in source.of_kind(ast.Name, scope) if one.id == name]
        read = [one for one in read if isinstance(one.ctx, ast.Load)]
        return bool(read) and all(is_for_cuda(source, one) for one in read)
    call = source.parents[up] if isinstance(up, ast.keyword) else up
    return isinstance(call, ast.Call) and source.qualified(call.func).startswith("torch.cuda.")


def _is_available(source: Source, test: ast.expr) -> bool:
    """`torch.cuda.is_available()`, or a name of this scope that stands for it."""
    if isinstance(test, ast.Call):
        return source.qualified(test.func) in _AVAILABLE
    if isinstance(test, ast.Name):
        scope: ast.AST = function_around(source, test) or source.tree
        found = [
            node.value
            for node in source.of_kind(ast.Assign, scope)
            if any(isinstance(one, ast.Name) and one.id == test.id for one in node.targets)
        ]
        return len(found) == 1 and _is_available(source, found[0])
    return False


def _left_before(source: Source, statement: ast.stmt) -> bool:
    """Does the code above leave where there is no CUDA, or insist on it?"""
    first = _first_leaving(source, source.block(statement)[0])
    return first is not None and first < source.index(statement)


def _leaves(node: ast.stmt) -> bool:
    """Does a statement leave the block that it ends, or the program?"""
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, _ENDS) or (isinstance(call, ast.Call) and dotted(call.func) in _EXITS)


@remembered
def _first_leaving(source: Source, top: ast.stmt) -> int | None:
    """The number of the first such statement of the block that begins with `top`."""
    for at, above in enumerate(source.block(top)):
        if isinstance(above, (ast.If, ast.Assert)) and about_devices(above.test):
            if isinstance(above, ast.Assert) or _leaves(above.body[-1]):
                return at
        if isinstance(above, ast.Expr) and isinstance(above.value, ast.Call):
            if source.qualified(above.value.func) == "torch.cuda.set_device":
                return at
    return None


def is_kept(source: Source, guard: Guard, node: ast.expr) -> bool:
    """Is the value that a SAME condition is about still the same where a node in it is evaluated?"""
    assert guard.node is not None
    start, at = source.span(guard.node).start, source.span(node).start
    loops = [up for up in source.ancestors(node) if isinstance(up, _LOOPS) and source.span(up).start >= start]
    end = source.span(loops[-1]).end if loops else at  # a later round sees what an earlier one has bound
    own = source.span(source.statement(node))
    every: list[ast.Name | ast.Attribute] = [*source.of_kind(ast.Name, guard.node)]
    for one in (*every, *source.of_kind(ast.Attribute, guard.node)):
        path, where = path_of(one), source.span(one).start
        if isinstance(one.ctx, ast.Load) or not path or (own.start <= where < own.end and end == at):
            continue
        bound = guard.path == path or guard.path.startswith((f"{path}.", f"{path}[", f"next({path}."))
        if bound and start <= where < end:
            return False
    return True


def needs_cuda(source: Source, node: ast.AST) -> bool:
    """Does `with torch.cuda.device(0):` stand around a node, which raises where there is no CUDA?"""
    blocks = (one for one in source.ancestors(node) if isinstance(one, (ast.With, ast.AsyncWith)))
    entered = (item.context_expr for one in blocks for item in one.items)
    return any(
        isinstance(one, ast.Call) and source.qualified(one.func) == "torch.cuda.device" for one in entered
    )


def moved_above(analysis: Analysis, guard: Guard) -> bool | None:
    """Has the function itself put the value of a SAME condition on the current GPU? None where a flag says.

    Above `if x.is_cuda: y = y.cuda()`, `x = x.cuda()` leaves nothing that could be elsewhere, also under
    `if x.is_cuda:` itself.
    """
    source, value = analysis.file.source, guard.value(analysis)
    moves = [one.node for one in value.links if one.node in analysis.named.calls and one.kind == "move"]
    if not moves or guard.node is None:
        return value.place.kind == LITERAL
    inside, child = set(around(source, guard.node)), source.statement(moves[-1])
    for one in around(source, moves[-1])[1:]:
        if one in inside:
            break
        if isinstance(one, ast.If):
            test = one.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
            asked = [_asked(part) for part in parts]
            same = any(
                part is not None and (_path(part) or source.code(part)) == guard.path for part in asked
            )
            if child not in one.body or not (same or any(_is_available(source, part) for part in parts)):
                return None
        elif not isinstance(one, (ast.With, ast.AsyncWith)):
            return None
        child = one
    return True


def moves_alone(source: Source, guard: Guard, sites: list[Named]) -> list[tuple[str, Named]] | None:
    """The targets of `if x.is_cuda: y = y.cuda()`, each with its site, if the `if` does nothing else."""
    node = guard.node
    if not isinstance(node, ast.If) or node.orelse or not guard.alone or "#" in source.code(node):
        return None
    parent = source.parents[node]
    if isinstance(parent, ast.If) and parent.orelse == [node] and source.code(node).startswith("elif"):
        return None
    found: list[tuple[str, Named]] = []
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        values, targets = [statement.value], [statement.targets[0]]
        if isinstance(statement.value, ast.Tuple) and isinstance(targets[0], ast.Tuple):
            values, targets = statement.value.elts, targets[0].elts
        if len(values) != len(targets):
            return None
        for target, value in zip(targets, values, strict=True):
            site = next((one for one in sites if one.node is value), None)
            path = path_of(target)
            if site is None or site.receiver is None or not path or path_of(site.receiver) != path:
                return None
            found.append((path, site))
    return found
