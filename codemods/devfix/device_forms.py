"""What a device expression may be at run time: a type such as "cuda", "cuda:0", or a torch.device.

Bindings are looked up by name, wherever they stand in the function, class or module: all that a
name may ever be counts, so "certainly a type" is said only where every binding is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from devfix.flow import Flow
from devfix.flow.calls import path_of
from devfix.flow.evidence import annotation_text
from devfix.flow.lattice import Kind
from devfix.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
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


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its value; `value` is None where that is out of sight."""

    node: ast.AST
    value: ast.expr | None
    parameter: bool = False


class Bindings:
    """Every binding of every name and `self.x` of a file, by the scope that it stands in."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: dict[tuple[ast.AST, str], list[Binding]] = {}
        for node in source.walk():
            for target, value in _targets(node):
                path = path_of(target)
                if path:
                    self._found.setdefault((self._scope(node, path), path), []).append(Binding(node, value))
            if isinstance(node, _FUNCTIONS):
                self._parameters(node)

    def _scope(self, node: ast.AST, path: str) -> ast.AST:
        if path.startswith("self."):
            owner = self.source.enclosing(node, ast.ClassDef)
            if owner is not None:
                return owner
        return self.source.enclosing(node, *_FUNCTIONS, ast.ClassDef) or self.source.tree

    def _parameters(self, node: FunctionNode) -> None:
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
        pairs = [*zip(plain, defaults + list(arguments.defaults), strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in pairs:
            self._found.setdefault((node, argument.arg), []).insert(0, Binding(argument, default, True))
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self._found.setdefault((node, extra.arg), []).insert(0, Binding(extra, None, True))

    def of(self, path: str, at: ast.AST) -> list[Binding]:
        """The bindings of a path as it is read at a node; nearest scope that has any."""
        if path.startswith("self."):
            owner = self.source.enclosing(at, ast.ClassDef)
            return self.of_class(owner, path) if isinstance(owner, ast.ClassDef) else []
        scope = self.source.enclosing(at, *_FUNCTIONS)
        while scope is not None:
            found = self._found.get((scope, path))
            if found:
                return found
            scope = self.source.enclosing(scope, *_FUNCTIONS)
        return self._found.get((self.source.tree, path), [])

    def of_class(self, owner: ast.ClassDef, path: str) -> list[Binding]:
        name = path.partition(".")[2]
        return [*self._found.get((owner, path), ()), *self._found.get((owner, name), ())]

    def within(self, scope: ast.AST, path: str) -> list[Binding]:
        """The bindings of a path in exactly this function, class or module."""
        return self._found.get((scope, path), [])


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets that a node binds, each with its value where that can be told."""
    todo: list[tuple[ast.expr, ast.expr | None]] = []
    if isinstance(node, ast.Assign):
        todo = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            todo = [(node.target, node.value)]
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        todo = [(node.target, None)]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        todo = [(node.optional_vars, None)]
    while todo:
        target, value = todo.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = list(value.elts)
            todo.extend(zip(target.elts, values, strict=True))
        elif isinstance(target, ast.Starred):
            todo.append((target.value, None))
        else:
            yield target, value


class DeviceForms:
    """The forms that device expressions of one file may take."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.bindings = Bindings(flow.source)

    def of(self, node: ast.expr, depth: int = 0) -> Forms:
        """What an expression may be; {OPEN} where nothing is known, empty for None."""
        if depth > _DEPTH:
            return OPEN
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, depth)
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
            elif not self._inside(node, binding.value):
                found |= self.of(binding.value, depth + 1)
        if path.startswith("self."):
            found |= self._property(node, path, depth)
        elif not bindings and "." in path:
            found |= self._chosen(path, node)
        if Form.OPEN in found or not found:
            if flowing != OPEN:
                return flowing if not found or found == OPEN else found | flowing
        return found or OPEN

    def _inside(self, node: ast.AST, outer: ast.AST) -> bool:
        up: ast.AST | None = node
        while up is not None and up is not outer:
            up = self.source.parents.get(up)
        return up is outer

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
                return frozenset({Form.OBJECT})
            if value.form == "string" and not value.text:
                return frozenset({Form.TEXT})
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
            scope = self.source.enclosing(call, *_FUNCTIONS)
            found = None
            while scope is not None and found is None:
                found = self._functions.get((scope, path))
                scope = self.source.enclosing(scope, *_FUNCTIONS)
            found = found or self._functions.get((self.source.tree, path))
        else:
            return None
        if isinstance(found, ast.ClassDef):
            found = self._functions.get((found, "__init__"))
        return found if isinstance(found, _FUNCTIONS) else None


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
