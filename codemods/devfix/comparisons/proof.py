"""Code near a comparison that tells whether a device is a torch.device or a string."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from devfix.bindings import function_around
from devfix.device_forms import DeviceForms
from devfix.flow.frame import path_of
from devfix.placing import around

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ASKS = re.compile(r"\b(?:isinstance|hasattr|getattr|type)\(")
_MODULE = re.compile(r"(?:\bModule|Model|ModelMixin|PreTrainedModel|Tensor|Parameter)\b")


class Proof:
    """What one file says of its devices by how it uses them."""

    def __init__(self, forms: DeviceForms) -> None:
        self._forms = forms
        self._source = forms.source

    @cached_property
    def _types(self) -> dict[str, list[ast.Attribute]]:
        """Reads of `x.type` and `x.index` by the path of x, where nothing asks first what x is."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self._source.walk():
            if not isinstance(node, ast.Attribute) or node.attr not in ("type", "index"):
                continue
            path = path_of(node.value)
            if not path.endswith(("device", "dev")) or not isinstance(node.ctx, ast.Load):
                continue
            parent = self._source.parents[node]
            if isinstance(parent, ast.Call) and parent.func is node:
                continue  # `names.index(x)`
            if not self._asked(node, path):
                found.setdefault(path, []).append(node)
        return found

    def _asked(self, node: ast.AST, path: str) -> bool:
        up: ast.AST | None = node
        while up is not None and not isinstance(up, (*_FUNCTIONS, ast.Module, ast.ClassDef)):
            parent = self._source.parents.get(up)
            condition = parent if isinstance(parent, ast.BoolOp) else getattr(parent, "test", None)
            if isinstance(condition, ast.expr) and up is not condition:
                text = ast.unparse(condition)
                if path in text and _ASKS.search(text):
                    return True
            if isinstance(parent, ast.Try):
                return True
            up = parent
        return False

    def has_type(self, path: str, at: ast.AST) -> bool:
        """Has the code on the way to `at` read `path.type`, so that it is no string there?"""
        source = self._source
        reads = self._types.get(path, ())
        if not reads:
            return False
        function, here = function_around(source, at), source.span(at).start
        chain = around(source, at)
        bindings = self._forms.bindings.of(path, at)
        for read in reads:
            start = source.span(read).start
            if function_around(source, read) is not function or start >= here:
                continue
            statement = source.statement(read)
            above = (
                any(statement in source.block(one)[: source.block(one).index(one)] for one in chain)
                or statement in chain[1:]
            )
            if not above or self._in_lambda(read, statement):
                continue
            if not any(start < source.span(b.node).start < here for b in bindings):
                return True
        return False

    def _in_lambda(self, node: ast.AST, statement: ast.stmt) -> bool:
        """Is a read perhaps not made: in a lambda, an arm of an expression, or behind `and`?"""
        up = self._source.parents.get(node)
        while up is not None and up is not statement:
            if isinstance(up, (ast.Lambda, ast.IfExp)):
                return True
            up = self._source.parents.get(up)
        return False

    def has_type_anywhere(self, path: str) -> bool:
        """Does the file read `path.type` at all? For what is one thing throughout, such as a global."""
        return bool(self._types.get(path))

    def converted(self, path: str, at: ast.AST) -> bool:
        """`if isinstance(device, str): device = torch.device(device)` on the way to `at`."""
        source = self._source
        for one in around(source, at):
            block = source.block(one)
            for above in block[: block.index(one)]:
                if not isinstance(above, ast.If) or above.orelse:
                    continue
                test = ast.unparse(above.test)
                if test in (
                    f"isinstance({path}, str)",
                    f"type({path}) is str",
                    f"type({path}) == str",
                ) and any(
                    isinstance(inner, ast.Assign)
                    and path_of(inner.targets[0]) == path
                    and isinstance(inner.value, ast.Call)
                    and source.qualified(inner.value.func) == "torch.device"
                    for inner in above.body
                ):
                    return True
        return False

    def is_module(self, path: str, at: ast.AST) -> bool:
        """`isinstance(v, nn.Module)` or the like decides whether `at` is reached."""
        up: ast.AST | None = at
        needle = f"isinstance({path}, "
        while up is not None and not isinstance(up, (*_FUNCTIONS, ast.Module, ast.ClassDef)):
            parent = self._source.parents.get(up)
            tests: list[ast.expr] = []
            if isinstance(parent, (ast.If, ast.IfExp)) and up is not parent.test and up not in _else(parent):
                tests = [parent.test]
            elif isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
                tests = [value for value in parent.values if value is not up]
            elif isinstance(parent, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                tests = [test for one in parent.generators for test in one.ifs]
            for test in tests:
                text = ast.unparse(test)
                if not text.startswith("not ") and needle in text:
                    if _MODULE.search(text.partition(needle)[2].partition(")")[0]):
                        return True
            up = parent
        return False

    def told_apart(self, node: ast.AST, path: str) -> bool:
        """Does code around a comparison look at whether the device is a string or a torch.device?"""
        up: ast.AST | None = node
        words = [
            f"{what}({path}" for what in ("isinstance", "type", "hasattr", "getattr", "str", "torch.device")
        ]
        while up is not None and not isinstance(up, (*_FUNCTIONS, ast.Module, ast.ClassDef)):
            parent = self._source.parents.get(up)
            if isinstance(parent, ast.BoolOp):
                text = ast.unparse(parent)
                if any(word in text for word in (*words, f"{path}.type")):
                    return True
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and up is not parent.test:
                test = ast.unparse(parent.test)
                if any(word in test for word in words):
                    return True
            up = parent
        if self.has_type(path, node) or self.converted(path, node):
            return False
        function = function_around(self._source, node)
        return function is not None and f"isinstance({path}," in self._source.code(function)


def _else(node: ast.If | ast.IfExp) -> list[ast.AST]:
    return list(node.orelse) if isinstance(node, ast.If) else [node.orelse]
