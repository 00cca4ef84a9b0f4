"""Copies of a model that are kept on a device of their own: what flows into them has to go there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.flow import Flow
from devfix.text.placing import dotted
from devfix.text.source import Source

_TENSORS = frozenset(
    {"state_dict", "parameters", "buffers", "named_parameters", "named_buffers", "values", "items", "tuple",
     "list"}
)  # fmt: skip
# In-place operations that want their arguments where the tensor is; `copy_` does not.
_WRITES = frozenset({"lerp_", "add_", "mul_", "sub_", "addcmul_", "div_"})


@dataclass(frozen=True)
class Mixed:
    """A tensor of another model that meets one of the copy."""

    node: ast.Name
    method: str
    device: str
    moved: ast.Call  # where the copy goes to its device


def mixed(flow: Flow) -> Iterator[Mixed]:
    """`ema.lerp_(value)` over the tensors of `self.module`, which has a device of its own, and of `model`."""
    source = flow.source
    if "deepcopy(" not in source.text or "zip(" not in source.text or "device" not in source.text:
        return
    for owner in source.definitions:
        if isinstance(owner, ast.ClassDef) and "deepcopy(" in source.code(owner):
            kept = _kept(source, owner)
            for loop in source.walk(owner):
                if kept and isinstance(loop, ast.For):
                    yield from _mixes(source, loop, kept)


def _kept(source: Source, owner: ast.ClassDef) -> dict[str, tuple[str, ast.Call]]:
    """Deep copies of the object that are moved to a parameter which is kept as `self.device`."""
    code = source.code(owner)
    found: dict[str, tuple[str, ast.Call]] = {}
    for call in source.walk(owner):
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != "to"
        ):
            continue
        path = dotted(call.func.value)
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "device")]
        if not path.startswith("self.") or f"{path} = " not in code or len(given) != 1:
            continue
        device = dotted(given[0]).removeprefix("self.")
        if f"{path} = copy.deepcopy(" not in code and f"{path} = deepcopy(" not in code:
            continue
        if device and f"self.{device} = {device}" in code:
            found[path] = (f"self.{device}", call)
    return found


def _mixes(source: Source, loop: ast.For, kept: dict[str, tuple[str, ast.Call]]) -> Iterator[Mixed]:
    over = loop.iter
    if not isinstance(over, ast.Call) or dotted(over.func) != "zip" or len(over.args) != 2:
        return
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    if len(targets) != 2 or not all(isinstance(target, ast.Name) for target in targets):
        return
    roots = [_model(source, loop, argument) for argument in over.args]
    mine, other = (0, 1) if roots[0] in kept else (1, 0)
    if roots[mine] not in kept or not roots[other] or roots[other] in kept:
        return
    copy, value = dotted(targets[mine]), dotted(targets[other])
    device, moved = kept[roots[mine]]
    code = source.code(loop)
    if f"{value} = " in code:
        return
    for node in source.walk(loop):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _WRITES
            and _root(node.func.value) == copy
            and node.args
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id == value
        ):
            yield Mixed(node.args[0], node.func.attr, device, moved)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return dotted(node)


def _model(source: Source, loop: ast.For, node: ast.expr) -> str:
    """`self.module` of `self.module.state_dict().values()`, through a name if need be."""
    if isinstance(node, ast.Name):
        method = source.enclosing(loop, ast.FunctionDef)
        made = [
            one.value
            for one in source.walk(method)
            if isinstance(one, ast.Assign) and len(one.targets) == 1 and dotted(one.targets[0]) == node.id
        ]
        if len(made) != 1:
            return ""
        node = made[0]
    if isinstance(node, ast.Call) and dotted(node.func) in ("tuple", "list") and len(node.args) == 1:
        node = node.args[0]
    seen = False
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TENSORS:
        node, seen = node.func.value, True
    return dotted(node) if seen else ""
