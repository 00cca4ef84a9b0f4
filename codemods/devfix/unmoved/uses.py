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

_MOVING = MOVES | {"_apply", "to_empty", "to_device", "prepare", "set_device", "parallelize", "load"}
# Calls that take a module and leave it where it is.
_LEAVING = re.compile(
    r"(?:load|count|print|init|log|save|plot|freeze|unfreeze|summar|info|debug|warn|set_seed|weights?_|calc_|"
    r"get_(?:num|n_|param|optim)|num_|watch|compile|optim|isinstance|len|type|id|hasattr|getattr|callable|"
    r"str|repr|deepcopy|copy|is_|Adam|SGD|RMSprop|inspect|describe|requires_grad|set_requires_grad|toggle|"
    r"update_ema|update_average|accumulate|clip_|register_)"
)
_PLACING = re.compile(r"offload|parallel|dispatch|shard|_device$|quanti|unpack")


class Use(Enum):
    PLAIN = auto()  # run, read, stepped: it stays where it is
    MOVED = auto()
    ESCAPES = auto()  # handed to something that may move it


def reads(flow: Flow, bindings: Bindings, path: str, scope: ast.AST) -> Iterator[ast.expr]:
    """Where a name of a function or module body is read; of `self.x`, every `.x` of the file."""
    attribute = path.rpartition(".")[2] if "." in path else ""
    for node in flow.source.walk(None if attribute else scope):
        if attribute:
            if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load):
                yield node
        elif isinstance(node, ast.Name) and node.id == path and isinstance(node.ctx, ast.Load):
            inner = function_around(flow.source, node)
            while inner is not None and inner is not scope and not bindings.within(inner, path):
                inner = function_around(flow.source, inner)
            if inner is None or inner is scope:  # else it is a name of a function in there
                yield node


def use_of(flow: Flow, read: ast.expr, before: int) -> Use:
    """What one read does to the module; `before`: handing it on later than this offset counts for nothing."""
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
        return Use.PLAIN if _leaves(flow, parent, before) else Use.ESCAPES
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


def _moves(code: str) -> bool:
    return ".to(" in code or ".cuda(" in code


def _passed_on(flow: Flow, parent: ast.AST, node: ast.AST) -> bool:
    """`move(model.modules())`: what is below the module handed to something that sounds like a move."""
    if not isinstance(parent, ast.Call):
        return False
    name = path_of(parent.func).rpartition(".")[2].lower()
    return "device" in name or "cuda" in name or "move" in name


def _leaves(flow: Flow, call: ast.Call, before: int) -> bool:
    """Does a call leave the module that it is given where it is?"""
    source = flow.source
    if source.span(call).start >= before:
        return True
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
