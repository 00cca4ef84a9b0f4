"""Where a move may go: it must still run on every way on which the old one ran, and in time.

A move that is put above what it came too late for stands in a block around the old one (`above`); one
that is put below stands where every way from the old one leads (`below`). Nothing is ever taken into
an arm, a loop, a `try`, a `with` or a function in which it did not stand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from devfix.engine.events import MOVES
from devfix.models import torch_api
from devfix.text.names import path_of
from devfix.text.placing import around, bound_before, dotted, siblings
from devfix.text.source import FUNCTIONS, Source, walk

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITH = (ast.With, ast.AsyncWith)
_INNER = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
# What says which GPU is the current one: `.cuda()` means another one before and after.
_CHOOSES = re.compile(r"set_device\(|CUDA_VISIBLE_DEVICES|set_default_device\(|set_default_tensor_type\(")
# Functions that may fill in what their argument holds: `init_distributed_mode(args)` sets `args.gpu`.
_FILLS = re.compile(r"init|setup|set_up|dist|device|parse|prepare|config|gpu|cuda|update", re.IGNORECASE)
# Methods and functions that do the same wherever the parameters of a module are.
_ANYWHERE = frozenset(
    {
        "train", "eval", "load_state_dict", "requires_grad_", "zero_grad", "half", "float", "double", "to",
        "cuda",
    }
)  # fmt: skip
_ASKING = frozenset({"print", "isinstance", "hasattr", "len", "id", "type", "str", "repr", "callable"})
GIVES = frozenset(
    {
        "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
        "named_children",
    }
)  # fmt: skip
# What one asks a parameter wherever it is.
_OF_PARTS = frozenset({"requires_grad", "requires_grad_", "numel", "size", "shape", "dtype", "dim", "ndim"})


# --- blocks ----------------------------------------------------------------------------------


def above(source: Source, target: ast.stmt, old: ast.stmt) -> ast.stmt | None:
    """The statement around `target` that stands in the block of `old`, above it; None if there is none.

    Whoever comes to `old` has come by it.
    """
    pair = siblings(source, target, old)
    if pair is None or pair[0] is pair[1] or pair[1] is not old:
        return None
    block = source.block(old)
    return pair[0] if block.index(pair[0]) < block.index(old) else None


def below(source: Source, old: ast.stmt, anchor: ast.stmt, path: str) -> bool:
    """Does every way from `old` come by the end of `anchor`, in the block of `anchor`?"""
    pair = siblings(source, old, anchor)
    if pair is None or pair[0] is pair[1] or pair[1] is not anchor:
        return False
    first, block = pair[0], source.block(anchor)
    index, last = block.index(first), block.index(anchor)
    if index > last:
        return False
    if any(isinstance(one, (*_LOOPS, *_WITH, ast.Try)) for one in around_until(source, old, first)):
        return False  # it may run more than once, in another context, or not to its end
    start = source.span(old).start
    for one in block[index : last + 1]:
        if any(source.span(jump).start >= start for jump in jumps(one)):
            return False
    return not any(_catches(source, one, anchor, path) for one in around(source, anchor)[1:])


def around_until(source: Source, node: ast.AST, outer: ast.stmt | None) -> list[ast.stmt]:
    """The statements around a node up to `outer` and with it, the innermost first."""
    found: list[ast.stmt] = []
    for one in around(source, node):
        found.append(one)
        if one is outer:
            break
    return found


def jumps(statement: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """What leaves a statement, or lets others look in between; not what leaves a loop inside of it."""
    todo: list[tuple[ast.AST, bool]] = [(statement, False)]
    while todo:
        node, looping = todo.pop()
        if isinstance(node, _JUMPS) and not (looping and isinstance(node, (ast.Break, ast.Continue))):
            assert isinstance(node, (ast.expr, ast.stmt))
            yield node
        if not isinstance(node, _INNER):
            inside = looping or isinstance(node, _LOOPS)
            todo.extend((child, inside) for child in ast.iter_child_nodes(node))


def _catches(source: Source, outer: ast.stmt, anchor: ast.stmt, path: str) -> bool:
    """May an error between two statements inside of `outer` be caught, and the module be used then?"""
    if isinstance(outer, _WITH):
        calls = [item.context_expr for item in outer.items if isinstance(item.context_expr, ast.Call)]
        names = [path_of(call.func).rpartition(".")[2] for call in calls]
        if not any(re.search(r"suppress|raises|catch|ignore", name, re.IGNORECASE) for name in names):
            return False
    elif not isinstance(outer, ast.Try) or not any(anchor in walk(one) for one in outer.body):
        return False
    root = path.partition(".")[0]
    end = source.span(anchor).end
    scope = source.scope(outer)
    if root in ("self", "cls"):
        return True
    inside = set(walk(ast.Module(outer.body, []))) if isinstance(outer, ast.Try) else set(walk(outer))
    return any(
        isinstance(node, ast.Name)
        and node.id == root
        and node not in inside
        and source.span(node).start > end
        for node in walk(scope)
    )


# --- what lies between -------------------------------------------------------------------------


def changed(source: Source, parts: Collection[ast.AST], start: int, stop: int, kept: Collection[str]) -> bool:
    """May what is named in `parts` be something else at `stop` than at `start`?

    `kept` are paths that a wrap such as DataParallel may bind anew: what it holds is the same module.
    """
    inside = [node for part in parts for node in walk(part)]
    called = {node.func for node in inside if isinstance(node, ast.Call)}
    paths = {path for node in inside if node not in called and (path := dotted(node))}
    moved = {dotted(node.value) for node in inside if isinstance(node, ast.Attribute) and node.attr in MOVES}
    if _CHOOSES.search(source.text[start:stop]):
        return True
    for node in source.between(start, stop):
        if isinstance(node, ast.Call) and _fills(source, node, paths):
            return True
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            path = dotted(node.value if isinstance(node, ast.Subscript) else node)
            if isinstance(node, ast.Subscript) and path in {*moved, *kept}:
                continue  # a new layer
            bound = (
                [path] if path and not (path in kept and wraps(source, source.statement(node), path)) else []
            )
        else:
            bound = _named(node)
        if any(one == path or one.startswith(f"{path}.") for one in paths for path in bound):
            return True
    return False


def _named(node: ast.AST) -> list[str]:
    """What a node binds that is not written as an expression."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(one.asname or one.name).partition(".")[0] for one in node.names]
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    return []


def _fills(source: Source, call: ast.Call, paths: Collection[str]) -> bool:
    """Is it a call that may set one of the paths, such as `args.gpu` or `self.device`?"""
    name = path_of(call.func)
    given = [dotted(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))]
    owners = [one for one in given if one and any(path.startswith(f"{one}.") for path in paths)]
    if owners and (_FILLS.search(name.rpartition(".")[2]) or name in ("vars", "setattr", "delattr")):
        return True
    if ".__dict__." in name and any(path.startswith(name.partition("__dict__")[0]) for path in paths):
        return True
    method = name.removeprefix("self.") if name.startswith("self.") else ""
    if not owners and not method:
        return False
    last = {path.rpartition(".")[2] for path in paths if "." in path}
    for function in source.definitions:
        if not isinstance(function, ast.ClassDef) and function.name in (name, method):
            for node in walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in last:
                    return True
    return False


def alone(source: Source, node: ast.AST, path: str) -> bool:
    """Is it the object that holds the module, handed on as a whole: `run(self)`, `trainer = self`?"""
    root, dot, _ = path.partition(".")
    if not dot or not isinstance(node, ast.Name) or node.id != root or not isinstance(node.ctx, ast.Load):
        return False
    return not isinstance(source.parents[node], ast.Attribute)


def wraps(source: Source, statement: ast.stmt, path: str) -> bool:
    """`model = DataParallel(model)`, `model = nn.SyncBatchNorm.convert_sync_batchnorm(model)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    if not call.args or [path_of(target) for target in statement.targets] != [path]:
        return False
    last = (source.qualified(call.func) or path_of(call.func)).rpartition(".")[2]
    known = last in torch_api.WRAP_NAMES or last == "convert_sync_batchnorm"
    return known and path_of(call.args[0]) == path


def looked_at(source: Source, path: str, start: int, stop: int, skipped: Collection[ast.stmt] = ()) -> bool:
    """Between two places: does anything happen to the module that depends on where it is?"""
    skip = {node for statement in skipped for node in walk(statement)}
    if seen_by_call(source, path, start, stop):
        return True
    for node in source.between(start, stop):
        if node not in skip and (reads_groups(source, node) or alone(source, node, path)):
            return True
        if not isinstance(node, (ast.Name, ast.Attribute)) or node in skip or path_of(node) != path:
            continue
        parent = source.parents[node]
        if isinstance(parent, ast.Attribute):
            up = source.parents[parent]
            if not isinstance(up, ast.Call) or up.func is not parent:
                return True
            if parent.attr in GIVES and not handed_on(source, up):
                continue
            if parent.attr not in _ANYWHERE or any(keyword.arg == "assign" for keyword in up.keywords):
                return True
            continue
        if wraps(source, source.statement(node), path):
            continue
        if isinstance(parent, ast.Call) and node is not parent.func and path_of(parent.func) in _ASKING:
            continue
        if isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops):
            continue
        return True
    return False


def seen_by_call(source: Source, path: str, start: int, stop: int) -> bool:
    """Is a function or method of the file called that knows the module without being given it?"""
    called = {
        path_of(node.func).removeprefix("self.")
        for node in source.between(start, stop)
        if isinstance(node, ast.Call)
    }
    for function in source.definitions:
        if isinstance(function, ast.ClassDef) or function.name not in called or function.name == "__init__":
            continue
        given = {one.arg for one in walk(function.args) if isinstance(one, ast.arg)} - {"self"}
        if path.partition(".")[0] in given:
            continue
        if any(
            path_of(node) == path for node in walk(function) if isinstance(node, (ast.Name, ast.Attribute))
        ):
            return True
    return False


def reads_groups(source: Source, node: ast.AST) -> bool:
    """`optimizer.param_groups[0]["params"]`: the parameters by way of an optimizer."""
    if not isinstance(node, ast.Attribute) or node.attr != "param_groups":
        return False
    return any(
        isinstance(one, ast.Constant) and one.value == "params" for one in walk(source.statement(node))
    )


def handed_on(source: Source, given: ast.Call) -> bool:
    """May `model.parameters()` be read, or kept by something that makes tensors beside them?

    Not where an optimizer takes them, or where they are asked for their shape or told to want no gradient.
    """
    up: ast.AST = source.parents[given]
    if isinstance(up, ast.Call) and path_of(up.func).rpartition(".")[2] == "filter":
        up = source.parents[up]
    if isinstance(up, (ast.For, ast.AsyncFor, ast.comprehension)) and up.iter is given:
        whole = up if not isinstance(up, ast.comprehension) else source.parents[up]
        target = up.target.elts[-1] if isinstance(up.target, ast.Tuple) else up.target
        uses = [one for one in walk(whole) if isinstance(one, ast.Name) and path_of(one) == path_of(target)]
        parents = [source.parents[one] for one in uses if isinstance(one.ctx, ast.Load)]
        return not all(
            one.attr in _OF_PARTS
            if isinstance(one, ast.Attribute)
            else isinstance(one, ast.Call) and path_of(one.func) in _ASKING
            for one in parents
        )
    while isinstance(up, (ast.Dict, ast.List, ast.Tuple, ast.keyword)):
        up = source.parents[up]
    if not isinstance(up, ast.Call):
        return True
    name = source.qualified(up.func) or path_of(up.func)
    return not re.search(r"(?:^torch\.optim\.|^optim\.|\.optim\.)[A-Z]", name) or name.endswith("Adagrad")


def may_stand(source: Source, parts: Collection[ast.AST], at: ast.stmt) -> bool:
    """Is all that the parts name bound above a statement?"""
    return all(bound_before(source, part, at) for part in parts)
