"""What is made again where it is not on the device that is asked for, and is made on the CPU all the same.

`if self.mask.device != x.device: self.mask = fill(torch.zeros(n, n))`: the guard tells that it has to be on
`x.device`, whatever the new value goes through.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.factories.operations import MADE, torch_name
from devfix.factories.said import Said
from devfix.findings import AppendCall
from devfix.flow.frame import path_of
from devfix.source import Source, walk

_ASKED = re.compile(r"\.device\)?\s*(?:!=|==)")
# What takes the device of another tensor, or moves.
_FOLLOWS = re.compile(r"device|cuda|\.to\(|_like\(|\.new_|type_as\(|\.npu\(|\.xpu\(|out=")


def rebuilt(source: Source) -> Iterator[Said]:
    """The values of a file that a guard about devices has made again, on the CPU."""
    if not _ASKED.search(source.text):
        return
    for node in source.walk(source.tree):
        if not isinstance(node, ast.If):
            continue
        wanted = dict(_wanted(source, node.test))
        for statement in node.body if wanted else ():
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            path = path_of(statement.targets[0])
            device = wanted.get(path)
            if device is None or any(_FOLLOWS.search(source.code(one)) for one in node.body):
                continue
            root = path_of(ast.parse(device, mode="eval").body).partition(".")[0]
            if root != "self" and any(_is(part, root) for part in walk(statement.value)):
                if not _sizes_only(source, statement.value, root):
                    continue  # it may go where that is
            factory = _factory(source, statement.value)
            if factory is not None:
                name = torch_name(source.qualified(factory.func))
                yield Said(
                    factory,
                    f"`{name}` makes a tensor on the CPU; `{path}` must be on `{device}`",
                    f"move it to `{device}`",
                    (AppendCall(source.span(statement.value), f".to({device})"),),
                    within=statement.value,
                )


def _wanted(source: Source, test: ast.expr) -> Iterator[tuple[str, str]]:
    """Paths, and the devices that a condition finds them not to be on."""
    for node in (test, *walk(test)):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        up = source.parents.get(node)
        turned = isinstance(up, ast.UnaryOp) and isinstance(up.op, ast.Not)
        if not isinstance(node.ops[0], ast.Eq if turned else ast.NotEq):
            continue
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Attribute) and left.attr == "device" and path_of(right).endswith("device"):
            yield path_of(left.value), source.code(right)
            if isinstance(right, ast.Attribute):
                yield path_of(right.value), source.code(left)


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _sizes_only(source: Source, value: ast.expr, root: str) -> bool:
    """Is nothing read of a tensor but its size?"""
    return all(
        isinstance(up := source.parents.get(node), ast.Attribute)
        and up.attr in ("shape", "size", "ndim", "dtype")
        for node in walk(value)
        if _is(node, root)
    )


def _factory(source: Source, value: ast.expr) -> ast.Call | None:
    for node in (value, *walk(value)):
        if isinstance(node, ast.Call) and torch_name(source.qualified(node.func)) in MADE:
            return node
    return None
