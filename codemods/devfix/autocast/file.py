"""What the judges of autocast calls share: the file, its calls, and how torch is called in it."""

from __future__ import annotations

import ast
from functools import cached_property

from devfix.autocast.calls import AutocastCall, AutocastCalls
from devfix.autocast.nearby import NearbyDevices
from devfix.device_forms import DeviceForms
from devfix.findings import Edit, EnsureImport, Finding, Fix, Related, Safety, Span
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.source import Source

_DISPLAYS = (ast.List, ast.Tuple, ast.Set)


class File:
    """One file; `torch` is its name for torch, `imports` the edit that gives it one."""

    def __init__(self, codemod: str, flow: Flow) -> None:
        self.codemod = codemod
        self.flow = flow
        self.source: Source = flow.source
        self.forms = DeviceForms(flow)
        self.nearby = NearbyDevices(self.forms)
        names = [local for local, what in self.source.imports.items() if what == "torch"]
        self.torch = "torch" if "torch" in names or not names else names[0]
        self.imports: tuple[Edit, ...] = () if names else (EnsureImport("torch"),)

    @cached_property
    def calls(self) -> list[AutocastCall]:
        return AutocastCalls(self.forms).find()

    def finding(
        self,
        span: Span,
        message: str,
        title: str = "",
        edits: tuple[Edit, ...] = (),
        safety: Safety = Safety.SAFE,
        related: tuple[Related, ...] = (),
    ) -> Finding:
        fix = Fix(title, edits, safety) if edits else None
        return Finding(self.codemod, span, message, fix, related)

    def told_apart(self, node: ast.AST, path: str) -> bool:
        """Does `isinstance(device, ...)` or `":" in device` decide whether `node` is reached, or what it is?"""
        for binding in self.forms.bindings.of(path, node):
            if isinstance(binding.value, ast.Name) and self._asked(binding.value, binding.value.id):
                return True
            if isinstance(binding.value, ast.IfExp) and _a_string(binding.value, path):
                return True
        if self._asked(node, path, only_types=True):
            return True
        up: ast.AST | None = node
        while up is not None:
            if isinstance(up, (ast.If, ast.IfExp)) and up.test is not node:
                test = ast.unparse(up.test)
                if f"isinstance({path}" in test or f"':' in {path}" in test:
                    return True
            up = self.source.parents.get(up)
        return False

    def _asked(self, node: ast.AST, path: str, only_types: bool = False) -> bool:
        """Does the function around ask whether the device is one of some types, or whether it is a string?"""
        around = self.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        for one in self.source.walk(around) if around is not None else ():
            if isinstance(one, ast.Compare) and path_of(one.left) == path and len(one.ops) == 1:
                among = one.comparators[0]
                if (
                    isinstance(one.ops[0], (ast.In, ast.NotIn))
                    and isinstance(among, _DISPLAYS)
                    and among.elts
                ):
                    if all(_is_type(element) for element in among.elts):
                        return True
            elif (
                isinstance(one, ast.If) and not only_types and f"isinstance({path}," in ast.unparse(one.test)
            ):
                return True
        return False


def _a_string(choice: ast.IfExp, path: str) -> bool:
    """`d if isinstance(d, str) else "cpu"`: a torch.device does not get any further."""
    parts = choice.test.values if isinstance(choice.test, ast.BoolOp) else [choice.test]
    asked = not isinstance(choice.test, ast.BoolOp) or isinstance(choice.test.op, ast.And)
    return (
        asked
        and path_of(choice.body) == path
        and any(ast.unparse(part) == f"isinstance({path}, str)" for part in parts)
        and isinstance(choice.orelse, ast.Constant)
        and _is_type(choice.orelse)
    )


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" not in node.value
