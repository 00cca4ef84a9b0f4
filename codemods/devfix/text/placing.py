"""Where statements stand to one another, and which expressions can be written elsewhere.

Everything here is about the text of one function or module body: no values, no devices.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Collection, Iterator

from devfix.text.loaded import called_before
from devfix.text.names import given, is_local, own_nodes, stores
from devfix.text.source import FUNCTIONS, Source, remembered, walk

_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.Module)
_LEAVES = (ast.Return, ast.Raise)
_JUMPS = (*_LEAVES, ast.Break, ast.Continue)
_DEVICE_WORDS = ("cuda", "gpu", "device", "cpu", "mps", "xpu")
# Calls that give the same answer wherever they stand.
_STEADY_CALLS = frozenset(
    {
        "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.current_device",
        "torch.backends.mps.is_available", "torch.distributed.is_initialized", "isinstance", "len", "int",
        "str", "next", "hasattr", "getattr",
    }
)  # fmt: skip


# --- statements ------------------------------------------------------------------------------


def around(source: Source, node: ast.AST) -> list[ast.stmt]:
    """The statement of a node and those around it, innermost first, up to its function or class."""
    statement: ast.AST = source.statement(node)
    found: list[ast.stmt] = []
    while isinstance(statement, ast.stmt):
        found.append(statement)
        up: ast.AST = source.parents[statement]
        while not isinstance(up, (ast.stmt, *_SCOPES)):
            up = source.parents[up]
        if isinstance(up, _SCOPES):
            break
        statement = up
    return found


def siblings(source: Source, a: ast.AST, b: ast.AST) -> tuple[ast.stmt, ast.stmt] | None:
    """The statements around `a` and `b` that stand in one block; None if they share no function.

    Both are the same statement if one of them encloses the other.
    """
    chain_a, chain_b = around(source, a), around(source, b)
    inner = set(chain_b)
    for one in chain_a:
        if one in inner:
            return one, one
        block = source.block(one)
        for other in chain_b:
            if source.block(other) is block:
                return one, other
    return None


def follows(source: Source, first: ast.AST, second: ast.AST) -> bool:
    """Can `second` run after `first`, in the order of the text? Not from one arm of an `if` to the other."""
    start, end = source.statement(first), source.statement(second)
    if start is end:
        return True
    if (start.lineno, start.col_offset) > (end.lineno, end.col_offset):
        return False
    pair = siblings(source, start, end)
    if pair is None:
        return False
    outer = pair[0]
    if pair[0] is pair[1]:
        # One encloses the other, or both stand in different blocks of one statement.
        if outer is start or outer is end:
            return True
        if isinstance(outer, (ast.If, ast.Match)):
            return False
    for statement in around(source, start):
        if statement is outer:
            break
        if _last_leaving(source, source.block(statement)[0]) > source.index(statement):
            return False
    return True


@remembered
def _last_leaving(source: Source, top: ast.stmt) -> int:
    """The number of the last statement of a block that leaves the function; -1 if there is none."""
    return max((at for at, one in enumerate(source.block(top)) if isinstance(one, _LEAVES)), default=-1)


def _after(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    block = source.block(statement)
    return block[source.index(statement) + 1 :]


def settled(
    source: Source,
    start: ast.stmt,
    end: ast.stmt | None,
    moves: Collection[ast.stmt],
    guards: Collection[str] = (),
) -> bool:
    """Does every way from `start` to `end` (or to the end of the function) pass one of `moves`?

    A condition that is about devices (`if use_cuda:`), or is one of `guards`, counts as met.
    """
    if not moves:
        return False
    ends = set(around(source, end)) if end is not None else set()
    for statement in around(source, start):
        for later in _after(source, statement):
            if later in ends:
                return _reaches(later, ends, moves, guards)
            if covers(later, moves, guards):
                return True
        if source.parents[statement] in ends:
            return False
    return False


def _reaches(
    statement: ast.stmt, ends: set[ast.stmt], moves: Collection[ast.stmt], guards: Collection[str]
) -> bool:
    """Inside `statement`: does a move stand before the end that is in there?"""
    if statement in moves:
        return True
    for block in _blocks(statement):
        inner = next((one for one in block if one in ends), None)
        if inner is not None:
            if any(covers(one, moves, guards) for one in block[: block.index(inner)]):
                return True
            return _reaches(inner, ends, moves, guards)
    return False


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block and isinstance(block[0], ast.stmt):
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, ()):
            yield part.body


def covers(statement: ast.stmt, moves: Collection[ast.stmt], guards: Collection[str] = ()) -> bool:
    """Does running a statement always run one of `moves`, or leave the function?"""
    if statement in moves or isinstance(statement, _JUMPS):
        return True
    if isinstance(statement, ast.If):
        arms = [any(covers(one, moves, guards) for one in arm) for arm in (statement.body, statement.orelse)]
        if all(arms):
            return True
        inside = any(node in moves for node in walk(statement) if isinstance(node, ast.stmt))
        return inside and (about_devices(statement.test) or ast.unparse(statement.test) in guards)
    if isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
        return any(covers(one, moves, guards) for one in statement.body)
    return False


def always(statement: ast.stmt, wanted: Collection[ast.stmt]) -> bool:
    """Does running a statement always run one of `wanted`, or leave the function? Any condition may fail."""
    if statement in wanted:
        return True
    if isinstance(statement, ast.If):
        arms = (statement.body, statement.orelse)
        return all(any(always(one, wanted) or isinstance(one, _LEAVES) for one in arm) for arm in arms)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return any(always(one, wanted) for one in statement.body)
    return False


def about_devices(test: ast.expr) -> bool:
    """Is a condition about which devices there are, or which is used?"""
    text = ast.unparse(test).lower()
    return any(word in text for word in _DEVICE_WORDS)


def only(statement: ast.stmt, moves: Collection[ast.stmt]) -> bool:
    """Does a statement consist of moves alone, in any arms?"""
    if statement in moves:
        return True
    if not isinstance(statement, ast.If):
        return isinstance(statement, ast.Pass)
    return all(only(one, moves) for one in (*statement.body, *statement.orelse))


def guards_of(source: Source, node: ast.AST, until: ast.stmt | None = None) -> list[ast.If]:
    """The `if` statements around a node, innermost first, that do not enclose `until` as well."""
    outside = set(around(source, until)) if until is not None else set()
    return [one for one in around(source, node)[1:] if isinstance(one, ast.If) and one not in outside]


def expects_error(source: Source, node: ast.AST) -> bool:
    """Is a node inside `with pytest.raises(...)` or its like: does it fail on purpose?"""
    for statement in around(source, node):
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                call = item.context_expr
                name = dotted(call.func) if isinstance(call, ast.Call) else ""
                if name.rpartition(".")[2] in ("raises", "assertRaises", "assertRaisesRegex"):
                    return True
    return False


# --- expressions -----------------------------------------------------------------------------


def dotted(node: ast.AST) -> str:
    """`args.device` of an attribute chain, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def steady(source: Source, node: ast.AST) -> bool:
    """May an expression be written again elsewhere: no effects, and no calls whose answer changes?"""
    for part in walk(node):
        if isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)):
            return False
        if isinstance(part, ast.Call):
            name = source.qualified(part.func) or dotted(part.func)
            if name not in _STEADY_CALLS and not name.endswith(".parameters"):
                return False
    return True


def rebound(source: Source, expressions: list[ast.AST], start: ast.AST, end: ast.AST) -> bool:
    """Is a name that occurs in `expressions` bound anew on the way from `start` to `end`?"""
    paths = {path for one in expressions for path in _paths(one)}
    first, last = source.span(source.statement(start)), source.span(source.statement(end))
    known = _rebound(source, source.scope(start))
    for path in paths | {one[:at] for one in paths for at, letter in enumerate(one) if letter == "."}:
        starts, nodes = known.get(path, ((), ()))
        between = nodes[bisect_left(starts, first.end) : bisect_left(starts, last.start)]
        if any(follows(source, start, node) for node in between):
            return True
    return False


@remembered
def _rebound(source: Source, scope: ast.AST) -> dict[str, tuple[list[int], list[ast.AST]]]:
    """Path -> where it, or an item of it, is stored in a function or module body: the offsets, and the nodes."""
    found: dict[str, list[tuple[int, ast.AST]]] = {}
    for node in own_nodes(scope):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            path = dotted(node.value if isinstance(node, ast.Subscript) else node)
            found.setdefault(path, []).append((source.span(node).start, node))
    for stored in found.values():
        stored.sort(key=lambda one: one[0])
    return {path: ([at for at, _ in one], [node for _, node in one]) for path, one in found.items() if path}


def bound_before(source: Source, expression: ast.AST, at: ast.stmt) -> bool:
    """Is every name of an expression bound on the way to `at`, as far as the text shows?"""
    scope = source.scope(at)
    parameters = given(source, scope)
    for name in {part.id for part in walk(expression) if isinstance(part, ast.Name)} - parameters.keys():
        bound = _binding(source, scope, name)
        if not _settled_by(source, bound, at) if bound else called_before(source, name, at):
            return False
        if not bound and is_local(source, scope, name) and not _binding(source, source.tree, name):
            return False  # a comprehension has it for itself
    return True


@remembered
def _binding(source: Source, scope: ast.AST, name: str) -> frozenset[ast.stmt]:
    """The statements that bind a name in a function or module body, not in a comprehension alone."""
    inner = (ast.comprehension, ast.stmt)
    return frozenset(
        source.statement(one)
        for one in stores(source, scope, name)
        if not isinstance(source.enclosing(one, *inner), ast.comprehension)
    )


def settled_binding(source: Source, nodes: Collection[ast.AST], at: ast.stmt) -> bool:
    """Is one of these bindings made on every way to `at`: above it, or in all arms of an `if` above it?"""
    return _settled_by(source, frozenset(source.statement(node) for node in nodes), at)


def _settled_by(source: Source, statements: frozenset[ast.stmt], at: ast.stmt) -> bool:
    chain = around(source, at)
    if not statements.isdisjoint(chain[1:]):
        return True
    loops = frozenset(one for one in statements if isinstance(one, (ast.For, ast.AsyncFor)))
    first = _first_always(source, statements - loops)  # a loop may have no round
    for one in chain:
        top = source.block(one)[0]
        ends = _first_end(source, top)
        if min(first.get(top, ends), ends) < source.index(one):
            return True
    return False


@remembered
def _first_always(source: Source, wanted: frozenset[ast.stmt]) -> dict[ast.stmt, int]:
    """First statement of a block -> the number of the first in it that always runs one of those that are wanted."""
    found: dict[ast.stmt, int] = {}
    seen: set[ast.AST] = set()
    for statement in wanted:
        up: ast.AST | None = statement
        while up is not None and up not in seen and not isinstance(up, _SCOPES):
            seen.add(up)
            if isinstance(up, ast.stmt) and always(up, wanted):
                top, at = source.block(up)[0], source.index(up)
                found[top] = min(found.get(top, at), at)
            up = source.parents.get(up)
        if isinstance(up, ast.stmt) and up in wanted:  # a function, or a class
            top, at = source.block(up)[0], source.index(up)
            found[top] = min(found.get(top, at), at)
    return found


@remembered
def _first_end(source: Source, top: ast.stmt) -> int:
    """The number of the first statement of a block that leaves the function either way."""
    block = source.block(top)
    return next((at for at, one in enumerate(block) if always(one, ())), len(block))


def _paths(expression: ast.AST) -> Iterator[str]:
    for part in walk(expression):
        path = dotted(part)
        if path:
            yield path


def bound_to(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """The names that an assignment binds, each with an expression for what it is bound to: `f()[0]` of `a, b = f()`."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple) or any(isinstance(one, ast.Starred) for one in target.elts):
        return {}
    found: dict[str, ast.expr] = {}
    for i, one in enumerate(target.elts):
        if isinstance(one, ast.Name):
            part = ast.Subscript(value, ast.Constant(i), ast.Load())
            found[one.id] = ast.fix_missing_locations(ast.copy_location(part, value))
    return found
