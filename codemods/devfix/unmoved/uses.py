"""What a file does with a module under one name: enough to say that nothing moves it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum, auto

from devfix.bindings import Bindings, function_around
from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.flow.methods import MOVES
from devfix.source import Source, remembered

_MOVING = MOVES | {"_apply", "to_empty", "to_device", "prepare", "set_device", "parallelize", "load"}
# Calls that take a module and leave it where it is.
_LEAVING = re.compile(
    r"(?:load|count|print|init|log|save|plot|freeze|unfreeze|summar|info|debug|warn|set_seed|weights?_|calc_|"
    r"get_(?:num|n_|param|optim)|num_|watch|compile|optim|isinstance|len|type|id|hasattr|getattr|callable|"
    r"str|repr|deepcopy|copy|is_|Adam|SGD|RMSprop|inspect|describe|requires_grad|set_requires_grad|toggle|"
    r"add_graph|(?:setup|set_up|build|make|create|configure)_optim|update_ema|update_average|accumulate|clip_|register_|setattr|delattr|_?export)"
)
_PLACING = re.compile(r"offload|parallel|dispatch|shard|_device$|quanti|unpack")


_MAX_DEPTH = 3  # of functions of the file that hand the module on


class Use(Enum):
    PLAIN = auto()  # run, read, stepped: it stays where it is
    MOVED = auto()
    ESCAPES = auto()  # handed to something that may move it


def reads(flow: Flow, bindings: Bindings, path: str, scope: ast.AST) -> Iterator[ast.expr]:
    """Where a name of a function or module body is read; of `self.x`, every `.x` of the file."""
    attribute = path.rpartition(".")[2] if "." in path else ""
    if attribute:
        yield from _attributes(flow.source).get(attribute, ())
        return
    for node in flow.source.names(scope).get(path, ()):
        if isinstance(node.ctx, ast.Load):
            inner = function_around(flow.source, node)
            while inner is not None and inner is not scope and not bindings.within(inner, path):
                inner = function_around(flow.source, inner)
            if inner is None or inner is scope:  # else it is a name of a function in there
                yield node


@remembered
def _attributes(source: Source) -> dict[str, list[ast.Attribute]]:
    """The attributes of each name that are read, anywhere in the file."""
    found: dict[str, list[ast.Attribute]] = {}
    for node in source.of_kind(ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            found.setdefault(node.attr, []).append(node)
    return found


def use_of(flow: Flow, bindings: Bindings | None, read: ast.expr, before: int, depth: int = 0) -> Use:
    """What one read does to the module; `before`: handing it on later than this offset counts for nothing.

    With `bindings`, a function of the file is looked into for what it does to its parameter.
    """
    source = flow.source
    node: ast.AST = read
    parent = source.parents[node]
    while True:
        if isinstance(parent, ast.Attribute):
            of_part = parent.attr == "cpu" and node is not read  # `model.weights.cpu()`
            if (parent.attr in _MOVING and not of_part) or _PLACING.search(parent.attr):
                return Use.MOVED
        elif isinstance(parent, ast.Call) and parent.func is node:
            if node is read:
                return Use.PLAIN
        elif not (isinstance(parent, ast.Subscript) and parent.value is node):
            break
        node, parent = parent, source.parents[parent]
    if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
        loop: ast.AST = parent if isinstance(parent, ast.For) else source.statement(parent.iter)
        return Use.MOVED if _moves(source.code(loop)) else Use.PLAIN
    if node is not read:
        return Use.PLAIN if not _passed_on(flow, parent, node) else Use.ESCAPES
    if isinstance(parent, ast.keyword):
        parent = source.parents[parent]
    if isinstance(parent, ast.Call):
        if source.span(parent).start >= before or _leaves(flow, parent):
            return Use.PLAIN
        return handed(flow, bindings, parent, read, depth) if bindings is not None else Use.ESCAPES
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        return _alias(flow, bindings, parent, depth)
    if isinstance(parent, ast.Tuple):
        parent = source.parents[parent]
        return Use.PLAIN if isinstance(parent, ast.Return) else Use.ESCAPES
    plain = (
        ast.Return,
        ast.Compare,
        ast.UnaryOp,
        ast.FormattedValue,
        ast.Expr,
        ast.If,
        ast.Assert,
        ast.Yield,
    )
    return Use.PLAIN if isinstance(parent, plain) else Use.ESCAPES


def _alias(flow: Flow, bindings: Bindings | None, choice: ast.IfExp, depth: int) -> Use:
    """`to_save = model.module if hasattr(model, "module") else model`: what is done under the other name."""
    source = flow.source
    statement = source.parents[choice]
    if isinstance(statement, ast.Attribute):  # `(model.module if ... else model).state_dict()`
        return Use.MOVED if statement.attr in _MOVING or _PLACING.search(statement.attr) else Use.PLAIN
    if bindings is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return Use.ESCAPES
    target = statement.targets[0]
    scope = function_around(source, statement) or source.tree
    if not isinstance(target, ast.Name) or depth >= _MAX_DEPTH or len(bindings.within(scope, target.id)) > 3:
        return Use.ESCAPES
    for inner in reads(flow, bindings, target.id, scope):
        use = use_of(flow, bindings, inner, len(source.text), depth + 1)
        if use is not Use.PLAIN:
            return use
    return Use.PLAIN


def _moves(code: str) -> bool:
    return ".to(" in code or ".cuda(" in code


def _passed_on(flow: Flow, parent: ast.AST, node: ast.AST) -> bool:
    """`move(model.modules())`: what is below the module handed to something that sounds like a move."""
    if not isinstance(parent, ast.Call):
        return False
    name = path_of(parent.func).rpartition(".")[2].lower()
    return "device" in name or "cuda" in name or "move" in name


def handed(flow: Flow, bindings: Bindings, call: ast.Call, read: ast.expr, depth: int) -> Use:
    """What a function of the file does with the module that it is given."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    found = [one for one in flow.source.definitions if one.name == name] if name else []
    if len(found) != 1 or isinstance(found[0], ast.ClassDef) or depth >= _MAX_DEPTH:
        return Use.ESCAPES
    function = found[0]
    parameter = next((k.arg for k in call.keywords if k.value is read), None)
    if parameter is None and read in call.args:
        given = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        index = call.args.index(read)
        if index < len(given) and not any(isinstance(one, ast.Starred) for one in call.args[:index]):
            parameter = given[index]
    if parameter is None or not any(b.parameter for b in bindings.within(function, parameter)):
        return Use.ESCAPES
    end = len(flow.source.text)
    for inner in reads(flow, bindings, parameter, function):
        use = use_of(flow, bindings, inner, end, depth + 1)
        if use is not Use.PLAIN:
            return use
    return Use.PLAIN


def _leaves(flow: Flow, call: ast.Call) -> bool:
    """Does a call leave the module that it is given where it is?"""
    source = flow.source
    name = source.qualified(call.func) or path_of(call.func)
    last = name.rpartition(".")[2]
    if name.startswith("torch.optim.") or name == "torch.compile" or name in torch_api.AUTOCAST:
        return True
    known = flow.value(call.func)
    if known.kind is Kind.FUNCTION and known.node is not None:
        return True  # of this file: flow has looked into it
    if known.kind in (Kind.MODULE, Kind.TENSOR):
        return True
    if re.search(
        r"device|cuda|gpu|prepare|distribut|parallel|wrap|offload|dispatch|shard", last, re.IGNORECASE
    ):
        return False
    return bool(_LEAVING.match(last))


def unmet(source: Source, node: ast.AST) -> bool:
    """Does no run come to a place, since a call in its function always raises?"""
    return _always_raises(source, source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef))


@remembered
def _always_raises(source: Source, home: ast.AST | None) -> bool:
    return any(
        len(call.args) > 1
        and not any(isinstance(argument, ast.Starred) for argument in call.args)
        and source.qualified(call.func) == "torch.tensor"  # which takes the data alone
        and source.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef) is home
        for call in source.of_kind(ast.Call, home)
    )
