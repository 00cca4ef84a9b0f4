"""What a device expression may be at run time: a type such as "cuda", "cuda:0", or a torch.device.

All that a name may ever be counts, so "certainly a type" is said only where every binding is one.
"""

from __future__ import annotations

import ast
import re
from enum import Enum, auto
from functools import cached_property

from devfix.bindings import Binding, Bindings, FunctionNode, function_around
from devfix.flow import Flow
from devfix.flow.evidence import annotation_text
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OPTIONS = ("args", "opt", "opts", "options", "hparams", "flags")
_DEPTH = 6  # of names that stand for names


class Form(Enum):
    TYPE = auto()  # "cuda", "cpu", `device.type`
    INDEXED = auto()  # "cuda:0", or text made of a torch.device
    TEXT = auto()  # a string of unknown content
    DECLARED = auto()  # the same by annotation only: callers pass a torch.device as well
    OBJECT = auto()  # a torch.device
    OPEN = auto()  # not known


Forms = frozenset[Form]
OPEN: Forms = frozenset({Form.OPEN})
STRINGS: Forms = frozenset({Form.TYPE, Form.INDEXED, Form.TEXT, Form.DECLARED})


class DeviceForms:
    """The forms that device expressions of one file may take."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.bindings = flow.once(Bindings)

    def of(self, node: ast.expr, depth: int = 0) -> Forms:
        """What an expression may be; {OPEN} where nothing is known, empty for None."""
        if depth > _DEPTH:
            return OPEN
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, depth)
        if ":" in leading_text(node):
            return frozenset({Form.INDEXED})
        if isinstance(node, ast.IfExp):
            return self.of(node.body, depth + 1) | self.of(node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.of(value, depth + 1) for value in node.values))
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return self._flowing(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            return self._cut(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._named(node, depth)
        return OPEN

    def _constant(self, node: ast.Constant) -> Forms:
        if isinstance(node.value, str):
            return frozenset({Form.INDEXED if ":" in node.value else Form.TYPE})
        return frozenset() if node.value is None else OPEN

    def _joined(self, node: ast.JoinedStr, depth: int) -> Forms:
        if any(isinstance(part, ast.Constant) and ":" in str(part.value) for part in node.values):
            return frozenset({Form.INDEXED})
        if len(node.values) == 1 and isinstance(node.values[0], ast.FormattedValue):
            return as_text(self.of(node.values[0].value, depth + 1))
        return frozenset({Form.TEXT})

    def _call(self, node: ast.Call, depth: int) -> Forms:
        name = self.source.qualified(node.func) or path_of(node.func)
        if name in ("torch.device", "torch.accelerator.current_accelerator"):
            return frozenset({Form.OBJECT})
        if name == "str" and len(node.args) == 1:
            return as_text(self.of(node.args[0], depth + 1))
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "replace":
                return frozenset({Form.INDEXED})
            if node.func.attr in ("lower", "strip"):
                return self.of(node.func.value, depth + 1)
        function = self.function_of(node)
        if function is None:
            return self._flowing(node)
        return self._returned(function, depth)

    def _returned(self, function: FunctionNode, depth: int) -> Forms:
        found: Forms = frozenset()
        for inner in self.source.walk(function):
            if isinstance(inner, ast.Return) and inner.value is not None:
                if self.source.enclosing(inner, *_FUNCTIONS) is function:
                    found |= self.of(inner.value, depth + 1)
        return found or OPEN

    def _cut(self, node: ast.Subscript, depth: int) -> Forms:
        """`x.split(":")[0]`: a type, if x is a string."""
        call = node.value
        assert isinstance(call, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("split", "partition", "rsplit"):
            base = self.of(call.func.value, depth + 1)
            return frozenset({Form.TYPE}) if base and base <= STRINGS else OPEN
        return OPEN

    def _named(self, node: ast.expr, depth: int) -> Forms:
        if isinstance(node, ast.Attribute) and node.attr == "type":
            return frozenset({Form.TYPE})
        path = path_of(node)
        if not path:
            if isinstance(node, ast.Attribute) and node.attr == "device" and _is_next(node.value):
                return frozenset({Form.OBJECT})
            return self._flowing(node)
        flowing = self._flowing(node)
        if flowing == frozenset({Form.OBJECT}):
            return flowing  # flow knows this very point, bindings all of them
        found: Forms = frozenset()
        bindings = self.bindings.of(path, node)
        for binding in bindings:
            if binding.parameter:
                found |= self._parameter(binding, depth)
            elif binding.value is None:
                found |= OPEN
            elif binding.value not in (node, *self.source.ancestors(node)):
                found |= self.of(binding.value, depth + 1)
        if path.startswith("self."):
            found |= self._property(node, path, depth)
        elif not bindings and "." in path:
            found |= self._chosen(path, node)
        if Form.OPEN in found or not found:
            if flowing != OPEN:
                return flowing if not found or found == OPEN else found | flowing
        return found or OPEN

    def _property(self, node: ast.AST, path: str, depth: int) -> Forms:
        owner = self.source.enclosing(node, ast.ClassDef)
        name = path.partition(".")[2]
        if isinstance(owner, ast.ClassDef):
            for item in owner.body:
                if isinstance(item, _FUNCTIONS) and item.name == name and item.decorator_list:
                    declared = _annotated(item.returns)
                    return declared if declared else self._returned(item, depth)
        return frozenset()

    def _parameter(self, binding: Binding, depth: int) -> Forms:
        argument = binding.node
        assert isinstance(argument, ast.arg)
        declared = _annotated(argument.annotation)
        if declared and Form.DECLARED not in declared:
            return declared
        function = self.source.enclosing(argument, *_FUNCTIONS)
        passed = self._passed(function, argument.arg, depth) if isinstance(function, _FUNCTIONS) else OPEN
        default = frozenset() if binding.value is None else self.of(binding.value, depth + 1)
        if passed == frozenset({Form.TYPE}) and default <= passed:
            return passed
        if declared:
            return declared
        return passed | (default & frozenset({Form.TYPE, Form.INDEXED})) | OPEN

    def _passed(self, function: FunctionNode, name: str, depth: int) -> Forms:
        """What the calls of a function in this file pass for a parameter."""
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if depth >= 2 or function.name.startswith("__"):
            return frozenset()
        found: Forms = frozenset()
        for call in self.calls.get(function.name, ()):
            if self.function_of(call) is not function:
                continue
            skip = 1 if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]) else 0
            argument = argument_of(call, name, parameters.index(name) - skip if name in parameters else -1)
            if argument is not None:
                found |= self.of(argument, depth + 1)
        return found

    def _chosen(self, path: str, node: ast.expr) -> Forms:
        """`args.device` of an argparse option: a string, and a type if only types may be chosen."""
        root, _, name = path.rpartition(".")
        values = [binding.value for binding in self.bindings.of(root, node)]
        parsed = any(v is not None and "parse" in ast.unparse(v).partition("(")[0] for v in values)
        if not parsed and root not in _OPTIONS:
            return frozenset()
        for call in self.calls.get("add_argument", ()):
            flags = [str(flag.value) for flag in call.args if isinstance(flag, ast.Constant)]
            if any(flag.lstrip("-").replace("-", "_") == name for flag in flags):
                for keyword in call.keywords:
                    if keyword.arg == "choices" and isinstance(keyword.value, (ast.List, ast.Tuple, ast.Set)):
                        return frozenset().union(*(self.of(choice) for choice in keyword.value.elts))
                    if keyword.arg == "type" and path_of(keyword.value) != "str":
                        return OPEN
                return frozenset({Form.TEXT})
        return frozenset()

    def _flowing(self, node: ast.expr) -> Forms:
        value = self.flow.value(node)
        if value.kind is Kind.DEVICE:
            if value.form == "object":
                # What one caller passes for a parameter, another need not.
                return frozenset({Form.OBJECT} if value.parameter < 0 else {Form.OBJECT, Form.OPEN})
            if value.form == "string" and not value.text:
                return frozenset({Form.TYPE if value.device_type else Form.TEXT})
            if value.form == "string":
                return frozenset({Form.INDEXED if ":" in value.text else Form.TYPE})
        if value.kind is Kind.STRING and (value.name == "device.type" or value.text):
            return frozenset({Form.INDEXED if ":" in value.text else Form.TYPE})
        return OPEN

    # --- functions of the file -----------------------------------------------------------

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """Every call by the last part of its callee's name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.source.walk():
            if isinstance(node, ast.Call):
                name = path_of(node.func).rpartition(".")[2]
                if name:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def _functions(self) -> dict[tuple[ast.AST, str], FunctionNode | ast.ClassDef]:
        found: dict[tuple[ast.AST, str], FunctionNode | ast.ClassDef] = {}
        for node in self.source.walk():
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                scope = self.source.enclosing(node, *_FUNCTIONS, ast.ClassDef) or self.source.tree
                found[scope, node.name] = node
        return found

    def function_of(self, call: ast.Call) -> FunctionNode | None:
        """The function or method of this file that a call runs; `__init__` where it makes an object."""
        path = path_of(call.func)
        if path.startswith("self.") and path.count(".") == 1:
            scope = self.source.enclosing(call, ast.ClassDef)
            found = self._functions.get((scope, path[5:])) if scope is not None else None
        elif path.isidentifier() and path not in self.source.imports:
            inside = function_around(self.source, call)
            found = None
            while inside is not None and found is None:
                found = self._functions.get((inside, path))
                inside = function_around(self.source, inside)
            found = found or self._functions.get((self.source.tree, path))
        else:
            return None
        if isinstance(found, ast.ClassDef):
            found = self._functions.get((found, "__init__"))
        return found if isinstance(found, _FUNCTIONS) else None


def leading_text(node: ast.expr) -> str:
    """What a string certainly begins with: "cuda:" of `f"cuda:{i}"`, `"cuda:%d" % i`, `"cuda:" + str(i)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        node = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    elif isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def argument_of(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The argument of a call by keyword or position; None where it has none or has a `*` before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if 0 <= position < len(call.args):
        if not any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
            return call.args[position]
    return None


def as_text(forms: Forms) -> Forms:
    """`str(x)`: of a torch.device "cuda" or "cuda:0", of a string the same string."""
    return frozenset(
        Form.INDEXED if form is Form.OBJECT else Form.TEXT if form is Form.OPEN else form for form in forms
    )


def _annotated(node: ast.expr | None) -> Forms:
    if node is None:
        return frozenset()
    if isinstance(node, ast.Subscript) and annotation_text(node).rpartition(".")[2] == "Literal":
        return frozenset({Form.INDEXED if ":" in ast.unparse(node.slice) else Form.TYPE})
    words = set(re.findall(r"\w+", ast.unparse(node)))
    if {"str", "device"} <= words:
        return frozenset({Form.TEXT, Form.OBJECT})
    last = annotation_text(node).rpartition(".")[2]
    if last == "device":
        return frozenset({Form.OBJECT})
    return frozenset({Form.DECLARED}) if last == "str" else frozenset()


def _is_next(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and path_of(node.func) == "next"
