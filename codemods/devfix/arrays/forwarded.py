"""Tensors that may be anywhere and are read by numpy: what a layer in `forward` has made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from devfix.arrays.bound import bound
from devfix.arrays.carried import KEEP, OF_TORCH
from devfix.flow.frame import path_of
from devfix.names import Names
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 16
_LENGTHS = re.compile(r"len|size|shape|count|num", re.IGNORECASE)
_WORDS = re.compile(r"\.cpu\(|\.device\b")
# Layers whose result may be something else, or on the CPU.
_ANYTHING = re.compile(
    r"post|decode|token|numpy|cpu|transform|convert|sampl|predict|generat|collat|pars|process", re.IGNORECASE
)


@dataclass(frozen=True)
class Forwarded:
    """The `x` of `x.numpy()`, and the layer, or the parameter, that it is made by."""

    node: ast.expr
    why: str


def forwarded(source: Source, calls: Iterable[ast.Call]) -> Iterator[Forwarded]:
    """Reads by `.numpy()` in `forward` of what a layer has made, with no copy on the CPU between."""
    for call in calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr != "numpy" or call.args or call.keywords:
            continue
        scope = source.enclosing(call, *_FUNCTIONS)
        owner = source.parents.get(scope) if scope is not None else None
        if isinstance(scope, _FUNCTIONS) and isinstance(owner, ast.ClassDef) and _is_module(source, owner):
            origin = _Trace(source, scope, owner).origin(func.value, 0)
            if origin:
                yield Forwarded(
                    func.value, f"is on the device of the module, since it is computed from `{origin}`"
                )


def _is_module(source: Source, owner: ast.ClassDef) -> bool:
    """Is it a module, by its bases? Functions of autograd have a `forward` as well."""
    if not any(isinstance(item, _FUNCTIONS) and item.name == "forward" for item in owner.body):
        return False
    return any(path_of(base).endswith(("nn.Module", "Module")) for base in owner.bases) or (
        bool(owner.bases) and "super()" in source.code(owner) and "Function" not in path_of(owner.bases[0])
    )


class _Trace:
    def __init__(
        self, source: Source, scope: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef
    ) -> None:
        self._source, self._scope = source, scope
        self._bindings = Names(source, scope).bindings
        self._methods = {item.name for item in owner.body if isinstance(item, _FUNCTIONS)}

    def origin(self, node: ast.expr, depth: int) -> str:
        if depth > _DEPTH:
            return ""
        depth += 1
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return self.origin(node.value, depth) if node.attr in ("data", "T", "values", "logits") else ""
        if isinstance(node, ast.Subscript):
            return self.origin(node.value, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.BinOp):
            return self.origin(node.left, depth) or self.origin(node.right, depth)
        return ""

    def _name(self, node: ast.Name, depth: int) -> str:
        binding = bound(self._source, self._bindings, node)
        every = list(self._bindings.get(node.id, ()))
        if binding is None and len(every) == 1:
            binding = every[0]  # in an arm, but there is no other
        if binding is None or node.id in ("self", "cls"):
            return ""
        if binding.statement is None:
            # Whoever calls may keep lengths on the CPU; without a word of devices, all of it may stay there.
            if self._scope.name != "forward":
                return ""
            wanted = not _LENGTHS.search(node.id) and _WORDS.search(self._source.code(self._scope))
            return node.id if wanted else ""
        if binding.value is None or binding.form not in ("single", "unpack"):
            return ""
        return self.origin(binding.value, depth)

    def _call(self, node: ast.Call, depth: int) -> str:
        func, name = node.func, self._source.qualified(node.func)
        first = node.args[0] if node.args else None
        if name.startswith("torch."):
            if isinstance(first, (ast.List, ast.Tuple)):
                first = first.elts[0] if len(first.elts) else None
            last = name.rpartition(".")[2]
            return self.origin(first, depth) if first is not None and last in OF_TORCH else ""
        path = path_of(func)
        base, _, layer = path.partition(".")
        if base == "self" and "." not in layer:
            return self._layer(layer)
        if isinstance(func, ast.Attribute) and func.attr in KEEP and not name:
            return self.origin(func.value, depth)
        return ""

    def _layer(self, layer: str) -> str:
        """`self.head(x)` of a layer that the class makes; `self(x)` is the module itself, beside `forward`."""
        if self._scope.name != "forward":
            return "self" if layer in ("", "forward") else ""
        made = rf"\bself\.{re.escape(layer)}\s*(?::[^=\n]+)?=\s*(?:\w+\.)*[A-Z]\w*\("
        found = layer and layer not in self._methods and not _ANYTHING.search(layer)
        return f"self.{layer}" if found and re.search(made, self._source.text) else ""
