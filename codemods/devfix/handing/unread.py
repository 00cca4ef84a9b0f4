"""Functions that take a device, never read it, and return a tensor that torch makes on the CPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.bindings import FunctionNode, function_around
from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.handing.missing import Missing
from devfix.handing.reasons import falls_back, reads
from devfix.handing.takers import DEVICE
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What leads away from the tensor that was made.
_NUMBERS = frozenset({"item", "tolist", "numpy", "type_as"})


def unread(flow: Flow) -> Iterator[Missing]:
    """`def sigmas(n, device): return torch.linspace(1, 0, n)`

    Not where the body speaks of devices in another way, nor in `__init__`, whose tensors may be parameters.
    """
    source = flow.source
    hosts = {scope.node for scope in flow.scopes if scope.host}
    for function in source.definitions:
        if not isinstance(function, _FUNCTIONS) or function in hosts or function.name.startswith("__"):
            continue
        arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        given = [argument for argument in arguments if DEVICE.match(argument.arg)]
        if len(given) != 1 or reads(source, function, given[0].arg) or falls_back(source, function.body[0]):
            continue
        body = [ast.unparse(one) for one in function.body if not _is_text(one)]
        if any(word in text for text in body for word in ("device", ".cuda", "cpu", ".to(", "super()")):
            continue
        node = _made(flow.source, function)
        if node is not None:
            name, why = given[0].arg, "which the function around it takes and never uses"
            yield Missing(node, name, name, why, given[0], "the device that the function takes", "device")


def _made(source: Source, function: FunctionNode) -> ast.Call | None:
    """The one tensor that a function makes, if it is what the function returns."""
    made = [
        node
        for statement in function.body
        for node in source.walk(statement)
        if isinstance(node, ast.Call) and source.qualified(node.func) in torch_api.FACTORIES
    ]
    if len(made) != 1 or not made[0].args or function_around(source, made[0]) is not function:
        return None
    up, statement = source.parents[made[0]], source.statement(made[0])
    if isinstance(up, ast.Attribute) and up.attr in _NUMBERS:
        return None
    if isinstance(statement, ast.Return):
        return made[0]
    last = function.body[-1]
    returned = path_of(last.value) if isinstance(last, ast.Return) and last.value is not None else ""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return made[0] if returned and any(path_of(target) == returned for target in targets) else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
