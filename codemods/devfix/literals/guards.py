"""Conditions around a hard-coded accelerator: what they say of the device, and what they leave open."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum, auto

from devfix.bindings import function_around
from devfix.flow.frame import path_of
from devfix.literals.sites import Site
from devfix.models.loader import tensor_attributes
from devfix.placing import dotted
from devfix.source import Source, remembered

_WORDS = ("cuda", "gpu", "device", "cpu", "mps", "xpu", "nccl", "triton")
_AVAILABLE = frozenset({"torch.cuda.is_available", "torch.cuda.device_count"})
_ENDS = (ast.Return, ast.Raise, ast.Continue)


class Told(Enum):
    NOTHING = auto()  # no condition is about devices
    SAME = auto()  # only where another value is on CUDA: `if x.is_cuda:`
    AVAILABLE = auto()  # only where there is CUDA: `if torch.cuda.is_available():`
    CHOSEN = auto()  # by a flag of the program, or by another test of devices


@dataclass(frozen=True, eq=False)
class Guard:
    """The condition under which a site runs; `node` is the `if` or the conditional expression.

    `device`, of SAME, is the device of the value that the condition is about, and `path` that value.
    `alone` says that the condition is about nothing else.
    """

    told: Told
    node: ast.If | ast.IfExp | ast.BoolOp | None = None
    device: str = ""
    path: str = ""
    alone: bool = False


_NONE = Guard(Told.NOTHING)
_CHOSEN = Guard(Told.CHOSEN)


def guard_of(source: Source, site: Site) -> Guard:
    """The innermost condition around a site that is about devices, up to its function."""
    child: ast.AST = site.node
    up = source.parents.get(child)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if isinstance(up, (ast.If, ast.IfExp, ast.While)) and child is not up.test:
            positive = child is up.body if isinstance(up, ast.IfExp) else child in up.body
            guard = _read(source, up, positive)
            if guard is not _NONE:
                return guard
        elif (isinstance(up, ast.BoolOp) and _about(up)) or isinstance(up, ast.ExceptHandler):
            return _CHOSEN
        if isinstance(child, ast.stmt) and _left_before(source, child):
            return _CHOSEN
        child, up = up, source.parents.get(up)
    if isinstance(child, ast.stmt) and up is not None and _left_before(source, child):
        return _CHOSEN
    return _NONE


def _read(source: Source, node: ast.If | ast.IfExp | ast.While, positive: bool) -> Guard:
    test = node.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    if positive and isinstance(node, (ast.If, ast.IfExp)):
        alone = len(parts) == 1
        for part in parts:
            device, path = is_on_cuda(source, part)
            if device:
                return Guard(Told.SAME, node, device, path, alone)
        if any(_is_available(source, part) for part in parts):
            return Guard(Told.AVAILABLE, node, alone=alone)
    if positive and isinstance(node, ast.If) and not node.orelse and is_flag(test):
        return Guard(Told.CHOSEN, node, alone=True)
    return _CHOSEN if _about(test) else _NONE


# `use_cuda`, `self.cuda`, `args.gpu`: said once, of everything.
_FLAG = re.compile(r"(?:^|[._])(?:use_?|on_|with_)?(?:cuda|gpu)$", re.IGNORECASE)


def is_flag(test: ast.expr) -> bool:
    """Is a condition a flag of the program and nothing else?"""
    return bool(_FLAG.search(path_of(test)))


# An attribute, property or slot called `is_cuda` that the file itself makes.
_OWN_OPTION = re.compile(r"\.is_cuda\s*(?::\s*bool\s*)?=(?!=)|def is_cuda\b")


def is_on_cuda(source: Source, test: ast.expr) -> tuple[str, str]:
    """`x.is_cuda` or `x.device.type == "cuda"` as the text of that device, and the path of `x`."""
    if isinstance(test, ast.Attribute) and test.attr == "is_cuda":
        text = source.code(test.value)
        if text == "self" or source.matches(_OWN_OPTION):
            return "", ""  # an option of that name of somebody's own, not the property of a tensor
        if _first_parameter(source, test.value) or (path_of(test.value) and _is_tensor(source, test.value)):
            return f"{text}.device", path_of(test.value) or text
        return "", ""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        left, right = test.left, test.comparators[0]
        if isinstance(left, ast.Constant):
            left, right = right, left
        kind = isinstance(right, ast.Constant) and right.value == "cuda"
        if kind and isinstance(left, ast.Attribute) and left.attr == "type" and path_of(left.value):
            return source.code(left.value), path_of(left.value)
    return "", ""


def _is_tensor(source: Source, node: ast.expr) -> bool:
    """Is it a tensor by its annotation, or at least nothing with attributes that tensors lack, such as settings?"""
    path, known = path_of(node).removesuffix(".data"), tensor_attributes()
    function = function_around(source, node)
    arguments = function.args if function is not None else None
    for one in (
        (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if arguments is not None else ()
    ):
        if one.arg == path and one.annotation is not None and "Tensor" in source.code(one.annotation):
            return True
    return all(
        one.attr in known
        for one in source.walk()
        if isinstance(one, ast.Attribute) and path_of(one.value) == path
    )


def implied(source: Source, test: ast.expr, path: str) -> bool:
    """Does a condition hold wherever the value at `path` is on CUDA?"""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    return any(_is_available(source, part) or is_on_cuda(source, part)[1] == path for part in parts)


def _first_parameter(source: Source, node: ast.expr) -> bool:
    """`next(model.parameters())`"""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "next" and len(node.args) == 1):
        return False
    inner = node.args[0]
    return isinstance(inner, ast.Call) and dotted(inner.func).endswith((".parameters", ".buffers"))


def _is_available(source: Source, test: ast.expr) -> bool:
    """`torch.cuda.is_available()`, or a name of this scope that stands for it."""
    if isinstance(test, ast.Call):
        return source.qualified(test.func) in _AVAILABLE
    if isinstance(test, ast.Name):
        scope: ast.AST = function_around(source, test) or source.tree
        found = [
            node.value
            for node in source.walk(scope)
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == test.id for t in node.targets)
        ]
        return len(found) == 1 and _is_available(source, found[0])
    return False


def _about(test: ast.expr) -> bool:
    text = ast.unparse(test).lower()
    return any(word in text for word in _WORDS)


def _left_before(source: Source, statement: ast.stmt) -> bool:
    """Does the code above leave where there is no CUDA, or insist on it?"""
    first = _first_leaving(source, source.block(statement)[0])
    return first is not None and first < source.index(statement)


@remembered
def _first_leaving(source: Source, top: ast.stmt) -> int | None:
    """The number of the first such statement of the block that begins with `top`."""
    for at, above in enumerate(source.block(top)):
        if isinstance(above, ast.If) and isinstance(above.body[-1], _ENDS) and _about(above.test):
            return at
        if isinstance(above, ast.Assert) and _about(above.test):
            return at
        if isinstance(above, ast.Expr) and isinstance(above.value, ast.Call):
            if source.qualified(above.value.func) == "torch.cuda.set_device":
                return at
    return None


def kept(source: Source, guard: Guard, site: Site) -> bool:
    """Is the value that a SAME condition is about still the same where the site is evaluated?"""
    assert guard.node is not None
    start, at = source.span(guard.node).start, source.span(site.node).start
    end = at
    up: ast.AST | None = site.node
    while up is not None and up is not guard.node:
        if isinstance(up, (ast.For, ast.AsyncFor, ast.While)):
            end = source.span(up).end  # a later round sees what an earlier one has bound
        up = source.parents.get(up)
    own = source.span(source.statement(site.node))
    for node in source.walk(guard.node):
        if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(node.ctx, ast.Load):
            continue
        path, where = dotted(node), source.span(node).start
        inside = own.start <= where < own.end and end == at
        if path and start <= where < end and not inside and _touches(path, guard.path):
            return False
    return True


def _touches(bound: str, path: str) -> bool:
    return path == bound or path.startswith((bound + ".", bound + "[", f"next({bound}."))


def moves_alone(source: Source, guard: Guard, sites: list[Site]) -> list[tuple[str, Site]] | None:
    """The targets of `if x.is_cuda: y = y.cuda()`, each with its site, if the `if` does nothing else."""
    node = guard.node
    if not isinstance(node, ast.If) or node.orelse or not guard.alone or "#" in source.code(node):
        return None
    parent = source.parents[node]
    if isinstance(parent, ast.If) and parent.orelse == [node] and source.code(node).startswith("elif"):
        return None
    found: list[tuple[str, Site]] = []
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
