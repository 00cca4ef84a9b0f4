"""What a function does with its names: which of them only a tensor can be."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from devfix.factories.operations import (
    CALLED_ONLY,
    MADE,
    PAIRS,
    REARRANGING,
    TENSOR_METHODS,
    WEAK_METHODS,
    WEIGHTED,
    takes_tensor,
    torch_name,
)
from devfix.flow.evidence import annotation_text, looks_like_module
from devfix.flow.frame import path_of
from devfix.source import walk

if TYPE_CHECKING:
    from devfix.factories.scopes import Scopes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TENSOR_TYPE = re.compile(r"(?:^|\.)\w*Tensor$")
CONTAINERS = re.compile(r"(?i)tuple|list|sequence|dict|iterable|callable")
_OF_ROWS = TENSOR_METHODS - {"view", "device"}
# What gives a tensor of another type, and what is done with that: arrays and modules do not have both.
_CASTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "bool"})
_OF_CAST = (TENSOR_METHODS - WEAK_METHODS) | {
    "abs",
    "sum",
    "mean",
    "exp",
    "log",
    "pow",
    "sqrt",
    "norm",
    "max",
    "min",
}
_SEVERAL = re.compile(r"(?:^|_)(?:tuple|list|dict|args|kwargs)s?$")  # what holds tensors, and is none
_LISTS = re.compile(r"\b(?:list|tuple|List|Tuple|Sequence)\b")
# Nothing that matters is in these; what is checked is not yet used.
_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.Assert, ast.Import, ast.ImportFrom, ast.Pass, ast.Global, type(None)}
)
_SKIPPED = frozenset(
    {"ctx", "op", "ops", "attr", "name", "id", "annotation", "returns", "type_comment", "decorator_list", "arg",
     "is_async", "conversion", "format_spec", "simple", "args_", "type_params", "bases", "names"}
)  # fmt: skip
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
# `x: torch.Tensor`, `x (LongTensor)`, `x (B, T): Tensor of ...` in a docstring.
_DOCUMENTED = re.compile(
    r"(?m)^[^\S\n]*(?::param )?`*(\w+)`*\s*"
    r"(?:\([^)\n]{0,40}?[Tt]ensor\b[^)\n]*|(?:\([^)\n]*\)\s*)?:\s*`*(?:[\w.]*\.)?\w*[Tt]ensor\b)"
)


class Uses:
    """What a function does with its names that only a tensor can do."""

    def __init__(self, scopes: Scopes, scope: ast.AST, depth: int = 0) -> None:
        self._scopes = scopes
        self._scope = scope
        self._depth = depth
        self._busy = False  # functions that call each other ask for each other's

    @cached_property
    def _found(self) -> tuple[dict[str, set[str]], set[str], set[str]]:
        """Attributes by name; names that are tensors; names that are not, or not always."""
        self._busy = True
        self._uses: dict[str, set[str]] = {}
        self._sure: set[str] = set()
        self._doubted: set[str] = set()
        self._several: set[str] = set()
        self._shapes: dict[str, int] = {}  # reads of `shape`, those that only count axes taken off
        self._bound: dict[str, int] = {}
        numpy = False
        todo: list[ast.AST] = [self._scope]
        while todo:
            node = todo.pop()
            kind = node.__class__
            if isinstance(node, ast.Attribute):
                numpy = self._attribute(node) or numpy
            elif isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Subscript):
                if _many(node.slice) and (name := _spelled(node.value)):
                    self._uses.setdefault(name, set()).add("[]")
            elif isinstance(node, ast.Assign):
                self._assign(node)
            elif isinstance(node, (ast.If, ast.IfExp)):
                self._several.update(_listed_in(node))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                for side in (node.left, node.right):
                    self._uses.setdefault(_spelled(side), set()).add("@")
            fields = _FIELDS.get(kind)
            if fields is None:
                fields = _FIELDS[kind] = tuple(f for f in node._fields if f not in _SKIPPED)
            for field in fields:
                value = getattr(node, field)
                if value.__class__ is list:
                    todo += [item for item in value if item.__class__ not in _LEAVES]
                elif value.__class__ not in _LEAVES:
                    todo.append(value)
        for name, count in self._shapes.items():
            if count <= 0:
                self._uses.get(name, set()).discard("shape")
        if numpy:
            for uses in self._uses.values():
                uses.difference_update(("shape", "[]", "@", "rearrange"))
        if isinstance(self._scope, _FUNCTIONS):
            for match in _DOCUMENTED.finditer(ast.get_docstring(self._scope) or ""):
                if not CONTAINERS.search(match.group(0)):
                    self._sure.add(match.group(1))
        self._sure.discard("")
        self._doubted |= self._several
        self._busy = False
        return self._uses, self._sure, self._doubted

    def _attribute(self, node: ast.Attribute) -> bool:
        """`x.name`; is it numpy's?"""
        attribute, value = node.attr, node.value
        if attribute in _OF_CAST and isinstance(value, ast.Call) and not (value.args or value.keywords):
            if isinstance(value.func, ast.Attribute) and value.func.attr in _CASTS:
                self._sure.add(_spelled(value.func.value))  # a module has `float()` as well, and no `abs()`
        if name := _spelled(value):
            if attribute == "shape":
                self._shapes[name] = self._shapes.get(name, 0) + 1
                self._uses.setdefault(name, set()).add(attribute)
            elif attribute in TENSOR_METHODS and attribute not in CALLED_ONLY:
                self._uses.setdefault(name, set()).add(attribute)
            return name in ("np", "numpy")
        if attribute == "device" and isinstance(value, ast.Subscript) and not _many(value.slice):
            self._doubted.add(_spelled(value.value))  # only of a list of tensors each is asked where it is
        if attribute in _OF_ROWS and isinstance(value, ast.Subscript):
            if _many(value.slice) and (name := _spelled(value.value)):
                self._sure.add(name)
        return False

    def _assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,):
                if isinstance(one, ast.Name):
                    self._bound[one.id] = self._bound.get(one.id, 0) + 1
        value = node.value
        if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Name):
            name = value.args[0].id
            if any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                if torch_name(self._scopes.source.qualified(value.func)) in MADE:
                    self._doubted.add(name)  # `x = torch.tensor(x)`

    def _call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Name):
            self._called(node, func.id)
        elif isinstance(func, ast.Attribute) and func.attr in CALLED_ONLY:
            if name := _spelled(func.value):
                self._uses.setdefault(name, set()).add(func.attr)
        path = path_of(func)
        if not path or not (node.args or node.keywords):
            return
        if path == "torch.is_tensor" and isinstance(node.args[0], ast.Name):
            self._doubted.add(node.args[0].id)
        name = torch_name(self._scopes.source.qualified(func))
        if name.startswith("torch."):
            self._torch(node, name)
            return
        if name in REARRANGING and node.args and (told := _spelled(node.args[0])):
            self._uses.setdefault(told, set()).add("rearrange")
        if looks_like_module(path):
            for argument in node.args:
                if isinstance(argument, ast.Name):
                    self._uses.setdefault(argument.id, set()).add("run")
        if path.startswith("self."):
            owner = self._scopes.owner(self._scope)
            if owner is not None and owner.layers.get(path) in WEIGHTED:
                self._sure.update(a.id for a in node.args[:1] if isinstance(a, ast.Name))

    def _torch(self, node: ast.Call, name: str) -> None:
        last = name.rpartition(".")[2]
        for keyword in node.keywords:
            if keyword.arg == "dtype" and isinstance(keyword.value, ast.Attribute):
                like = _spelled(keyword.value.value)
                if not looks_like_module(like):
                    self._sure.add(like)
        if node.args and takes_tensor(name):
            self._sure.update(map(_spelled, node.args[: 2 if last in PAIRS else 1]))
        elif last in ("cat", "stack") and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
            self._sure.update(map(_spelled, node.args[0].elts))

    def _called(self, node: ast.Call, name: str) -> None:
        """A function called by its name."""
        self._doubted.add(name)
        if name == "isinstance" and node.args and isinstance(node.args[0], ast.Name):
            self._doubted.add(node.args[0].id)
        elif name == "len" and len(node.args) == 1:
            shape = node.args[0]
            if isinstance(shape, ast.Attribute) and shape.attr == "shape":
                whose = _spelled(shape.value)
                self._shapes[whose] = self._shapes.get(whose, 0) - 1
        elif self._depth < 2:
            function = self._scopes.functions.get(name)
            if function is None or function is self._scope:
                return
            parameters = [*function.args.posonlyargs, *function.args.args]
            for argument, parameter in zip(node.args, parameters, strict=False):
                if isinstance(argument, ast.Name) and argument.id not in self._sure:
                    text = annotation_text(parameter.annotation)
                    if TENSOR_TYPE.search(text) or (
                        not text and self._scopes.uses(function, self._depth + 1).tensor(parameter.arg)
                    ):
                        self._sure.add(argument.id)

    def tensor(self, name: str) -> bool:
        """Do its uses tell that a name is a tensor?"""
        if self._busy or _SEVERAL.search(name):
            return False
        found, sure, doubted = self._found
        uses = found.get(name, set())
        if name in doubted:
            return False
        return name in sure or bool(uses - WEAK_METHODS) or not uses.isdisjoint(("[]", "shape"))

    def fed_only(self, name: str) -> bool:
        """Does nothing tell of a name but that a model is given it, which may be a tuple of inputs?"""
        found, sure, _ = self._found
        return name not in sure and found.get(name) == {"run"}

    def once(self, name: str) -> bool:
        """Does it stand for one thing?"""
        return bool(self._found) and self._bound.get(name, 0) <= 1

    def several(self, name: str) -> bool:
        """Is it a list of tensors at times, whatever is declared?"""
        return not self._busy and bool(self._found) and name in self._several

    def surely(self, name: str) -> bool:
        """Can it be nothing else?"""
        return name in self._found[1] or bool(self._found[0].get(name, set()) - WEAK_METHODS - {"run"})


def _spelled(node: ast.expr) -> str:
    """`x`, `self.x`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return ""


def _listed_in(node: ast.If | ast.IfExp) -> set[str]:
    """Names that are iterated over where their length or type says so: `if len(x) > 1: for one in x: ...`.

    Not those that an arm for lists makes tensors of, or leaves with.
    """
    asked: set[str] = set()
    body = node.body if isinstance(node.body, list) else []
    left = bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue))
    bound = {
        target.id
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for call in walk(node.test):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args:
            name = call.args[0].id if isinstance(call.args[0], ast.Name) else ""
            if call.func.id == "len":
                asked.add(name)
            elif call.func.id == "isinstance" and _LISTS.search(ast.unparse(call.args[-1])):
                asked.update({name} - bound if not left else ())
    found: set[str] = set()
    for inner in walk(node) if asked else ():
        if isinstance(inner, (ast.For, ast.comprehension)):
            parts = inner.iter.args if isinstance(inner.iter, ast.Call) else [inner.iter]
            names = {part.id for part in parts if isinstance(part, ast.Name)}
            found |= names if names & asked else set()
    return found


def _many(index: ast.expr) -> bool:
    """An index that only tensors and arrays take: `[..., 0]`, `[:, 1]`, `[None]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    axes = sum(isinstance(p, ast.Constant) and (p.value is None or p.value is ...) for p in parts)
    return bool(axes) or (len(parts) > 1 and any(isinstance(p, ast.Slice) for p in parts))
