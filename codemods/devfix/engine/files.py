"""A file as the engine sees it: its functions and classes, and what its names stand for, over files."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from devfix.models import torch_api
from devfix.models.loader import models
from devfix.text import placing
from devfix.text.source import Source, walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# (path, dotted name) -> file and the name in it; STAR and a name: what some `from x import *` of the file gives it.
Resolver = Callable[[str, str], "tuple[File, str] | None"]
STAR = "*"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MAX_BASES = 32
_REGISTERING = frozenset({"register_buffer", "register_parameter", "register_module"})
# Methods that change a container in place.
_CHANGING = frozenset({"append", "appendleft", "extend", "insert", "update", "add", "setdefault"})


class Function:
    """A function or method: its parameters, and the class and function that it stands in."""

    def __init__(self, file: File, node: FunctionNode, owner: Class | None, outer: Function | None) -> None:
        self.file, self.node, self.owner, self.outer, self.name = file, node, owner, outer, node.name
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        self.positional = [one.arg for one in positional]
        self.parameters = [*positional, *arguments.kwonlyargs]
        self.defaults: dict[str, ast.expr] = {}
        for one, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            self.defaults[one.arg] = default
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if value is not None:
                self.defaults[one.arg] = value
        self.decorators = decorators = [_last(one) for one in node.decorator_list]
        self.static = "staticmethod" in decorators
        self.of_class = "classmethod" in decorators
        self.is_property = any("property" in one for one in decorators)
        self.remembered: dict[object, Any] = {}  # what was found out of it, by what has found it

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the function, nested functions included."""
        return walk(self.node)

    @cached_property
    def called(self) -> frozenset[str]:
        """The methods that it calls of what has a name."""
        return frozenset(
            node.func.attr
            for node in self.nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        )

    def may_be_trained(self, name: str) -> bool:
        """Does the annotation of a parameter speak of `torch.nn.Parameter`?"""
        given = (one.annotation for one in self.parameters if one.arg == name)
        return any(one is not None and "Parameter" in self.file.source.code(one) for one in given)

    def has_dimensions(self, path: str) -> bool:
        """Does it use what has this name as only tensors with dimensions can be: `x[0]`, `len(x)`, `x.size(1)`?"""
        return path in self._dimensioned

    @cached_property
    def _dimensioned(self) -> frozenset[str]:
        found: list[ast.expr] = []
        for node in self.nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
                if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
                    found.append(node.value.value)
                elif isinstance(node.slice, ast.UnaryOp) or type(node.slice.value) is int:
                    found.append(node.value)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                found.append(node.value)
            elif isinstance(node, (ast.For, ast.comprehension)):
                found.append(node.iter)
            elif isinstance(node, ast.Call) and node.args:
                if isinstance(node.func, ast.Name) and node.func.id == "len":
                    found.append(node.args[0])
                elif isinstance(node.func, ast.Attribute) and node.func.attr == "size":
                    found.append(node.func.value)
        return frozenset(map(placing.dotted, found))

    @cached_property
    def handed_up(self) -> frozenset[str]:
        """The names that it hands on to the constructor of a base class, which may register them."""
        return frozenset(
            given.id
            for node in self.nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "__init__"
            for given in (*node.args, *(one.value for one in node.keywords))
            if isinstance(given, ast.Name)
        )


def _registers(node: ast.AST, file: File) -> bool:
    """Does a node store a parameter in an attribute, or register something with an object?"""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _REGISTERING
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and file.dotted(node.value.func) in torch_api.PARAMETERS
    )


class Class:
    """A class, with its bases in other files."""

    def __init__(self, file: File, node: ast.ClassDef, outer: Function | None) -> None:
        self.file, self.node, self.name = file, node, node.name
        self.methods: dict[str, Function] = {}
        self.values: dict[str, ast.expr] = {}
        for one in node.body:
            if isinstance(one, _FUNCTIONS):
                self.methods[one.name] = Function(file, one, self, outer)
            elif isinstance(one, ast.Assign) and len(one.targets) == 1:
                self.values |= placing.bound_to(one.targets[0], one.value)
            elif (
                isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None
            ):
                self.values[one.target.id] = one.value

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """The dotted names of the bases, as far as they have one."""
        return tuple(self.file.dotted(one) or "?" for one in self.node.bases)

    @cached_property
    def lineage(self) -> tuple[Class, ...]:
        """The class and those that it derives from and that are in view, nearest first."""
        found: dict[Class, None] = {}
        todo: list[Class] = [self]
        while todo and len(found) < MAX_BASES:
            one = todo.pop(0)
            if one in found:
                continue
            found[one] = None
            for base in one.node.bases:
                parent = one.file.definition(base)
                if isinstance(parent, Class):
                    todo.append(parent)
        return tuple(found)

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """The dotted names of the bases that are not in view, of the whole lineage."""
        return tuple(
            name
            for one in self.lineage
            for name, base in zip(one.bases, one.node.bases, strict=True)
            if not isinstance(one.file.definition(base), Class)
        )

    @property
    def registers(self) -> bool:
        """Does a method keep a parameter or a buffer in the object, as only modules do?"""
        return any(one._registers_itself for one in self.lineage)

    @cached_property
    def _registers_itself(self) -> bool:
        nodes = (node for method in self.methods.values() for node in method.nodes)
        told = any(map(self.file.source.has, ("register_", "Parameter")))
        return told and any(_registers(node, self.file) for node in nodes)

    def method(self, name: str) -> Function | None:
        return next((one.methods[name] for one in self.lineage if name in one.methods), None)

    def constant(self, name: str) -> tuple[File, ast.expr] | None:
        """The value that a name gets in the body of the class or of a base."""
        for one in self.lineage:
            if name in one.values:
                return one.file, one.values[name]
        return None

    @cached_property
    def annotations(self) -> dict[str, ast.expr]:
        """The names that the body annotates."""
        return {
            one.target.id: one.annotation
            for one in self.node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What the constructor of a dataclass, a NamedTuple or a model of pydantic takes, in its order."""
        plain = all(one in torch_api.PLAIN_BASES for one in self.outside) and not self.node.decorator_list
        if self.method("__init__") is not None or plain:
            return ()
        return tuple(dict.fromkeys(name for one in reversed(self.lineage) for name in one.annotations))

    @cached_property
    def declared(self) -> dict[str, ast.expr]:
        """The annotations of its attributes, in its body or as `self.x: T`."""
        source = self.file.source
        found = {source.code(one.target): one.annotation for one in source.of_kind(ast.AnnAssign, self.node)}
        mine = {name[5:]: found[name] for name in found if name.startswith("self.")}
        return mine | self.annotations

    @cached_property
    def stores(self) -> dict[str, set[str]]:
        """Attribute of self -> the methods that store it, of the whole lineage."""
        found: dict[str, set[str]] = {}
        for one in self.lineage:
            for name, method in one.stored:
                found.setdefault(name, set()).add(method)
        return found

    @cached_property
    def stored(self) -> list[tuple[str, str]]:
        """Attributes of self, each with a method of the class itself that stores it."""
        return [(name, method.name) for method in self.methods.values() for name in stored(method)]


def stored(method: Function, *, items: bool = False) -> Iterator[str]:
    """The attributes of `self`, or of the class by its name, that a method stores or changes; `items`: or an item."""
    owners = (next(iter(method.positional), ""), method.owner.name if method.owner is not None else "")
    for node in method.nodes:
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in _CHANGING:
            held = func.value
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            held = node.value if items and isinstance(node, ast.Subscript) else node
        else:
            continue
        if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id in owners:
            yield held.attr


class File:
    """One parsed file. `resolve` finds what an imported name is in another file of the project."""

    def __init__(self, path: str, source: Source, resolve: Resolver | None = None) -> None:
        self.path, self.source, self.resolve = path, source, resolve
        self.functions: dict[str, Function] = {}
        self.classes: dict[str, Class] = {}
        self.all_functions: list[Function] = []
        self.all_classes: list[Class] = []
        self.of_node: dict[ast.AST, Function | Class] = {}
        self.globals: dict[str, ast.expr] = {}
        self._collect(source.tree.body, None, True)
        self._found: dict[str, Function | Class | None] = {}
        self._values: dict[str, tuple[File, str] | None] = {}
        self.libraries: dict[str, Any] = {}  # dotted names, as values of the engine
        self.others: dict[str, Any] = {}  # names that nothing in the file binds, except a `def` or `class`

    def _collect(self, body: list[ast.stmt], outer: Function | None, top: bool) -> None:
        for one in body:
            if isinstance(one, _FUNCTIONS):
                function = Function(self, one, None, outer)
                self._add(function)
                if top:
                    self.functions[one.name] = function
                self._collect(one.body, function, False)
            elif isinstance(one, ast.ClassDef):
                made = Class(self, one, outer)
                self.all_classes.append(made)
                self.of_node[one] = made
                if top or one.name not in self.classes:
                    self.classes[one.name] = made
                for method in made.methods.values():
                    self._add(method)
                    self._collect(method.node.body, method, False)
            elif isinstance(one, (ast.Expr, ast.Return, ast.Pass, ast.Import, ast.ImportFrom)):
                continue
            elif isinstance(one, ast.Assign):
                if top and len(one.targets) == 1:
                    self.globals |= placing.bound_to(one.targets[0], one.value)
            else:
                for field in ("body", "orelse", "finalbody"):
                    inner = getattr(one, field, None)
                    if inner.__class__ is list:
                        self._collect(inner, outer, top)
                for handler in getattr(one, "handlers", None) or getattr(one, "cases", None) or ():
                    self._collect(handler.body, outer, top)

    def forget_others(self) -> None:
        """Let go of what is in other files, which would otherwise live as long as this one; it is looked up again."""
        for known in (self._found, self._values, self.libraries):
            known.clear()
        for one in self.all_classes:
            for name in ("lineage", "outside", "stores"):
                one.__dict__.pop(name, None)

    def release(self) -> None:
        """Break the circles between the file, its functions and its classes."""
        for function in self.all_functions:
            function.__dict__.clear()
        for one in self.all_classes:
            one.__dict__.clear()
        self.__dict__.clear()

    def _add(self, function: Function) -> None:
        self.all_functions.append(function)
        self.of_node[function.node] = function

    @cached_property
    def heirs(self) -> dict[Class, set[ast.AST]]:
        """Class -> the nodes of those of this file that derive from it."""
        found: dict[Class, set[ast.AST]] = {}
        for one in self.all_classes:
            for base in one.lineage:
                if base is not one and base.file is self:
                    found.setdefault(base, set()).add(one.node)
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules whose names are all imported."""
        return tuple(
            "." * one.level + (one.module or "")
            for one in self.source.tree.body
            if isinstance(one, ast.ImportFrom) and any(alias.name == "*" for alias in one.names)
        )

    def dotted(self, node: ast.AST) -> str:
        """The dotted name of a Name or Attribute chain through the imports; as it stands where not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            root = self.source.imports.get(node.id) or (self.stars and self.starred(node.id)) or node.id
            return ".".join([root, *reversed(parts)]) if parts else root
        return self.dotted(node.value) if isinstance(node, ast.Subscript) else ""  # Generic[T]

    @cached_property
    def _known_stars(self) -> list[str]:
        return [star for star in self.stars if star in _STARS]

    def starred(self, name: str) -> str:
        """What a name is that only a star import can give: torch's own names are taken to be torch."""
        if not self.stars or name in self.functions or name in self.classes or name in self.globals:
            return ""
        if name in STAR_NAMES:
            return STAR_NAMES[name]
        for star in self._known_stars:
            if f"{star}.{name}" in models().rows:
                return f"{star}.{name}"
        layer = "torch.nn" in self.stars and name[:1].isupper() and len(self.stars) == 1
        return f"torch.nn.{name}" if layer else ""

    def definition(self, node: ast.AST) -> Function | Class | None:
        """The function or class that a name stands for, here or in another file of the project."""
        if isinstance(node, ast.Name) and node.id not in self.source.imports:
            found = self.classes.get(node.id) or self.functions.get(node.id) or self.from_stars(node.id)
            if found is not None:
                return found
        return self.imported(self.dotted(node))

    def from_stars(self, name: str) -> Function | Class | None:
        """The function or class of the project that `from x import *` gives a name."""
        if not self.stars or name in self.globals or hasattr(builtins, name):
            return None
        return self.imported(f"{STAR}{name}")

    def imported(self, dotted: str) -> Function | Class | None:
        """The function or class of another file that a dotted name stands for."""
        if self.resolve is None or not dotted or dotted.startswith("torch."):
            return None
        if dotted not in self._found:
            self._found[dotted] = None  # files that import each other
            found = self.resolve(self.path, dotted)
            if found is not None:
                file, name = found
                self._found[dotted] = file.classes.get(name) or file.functions.get(name)
        return self._found[dotted]

    def imported_value(self, dotted: str) -> tuple[File, str] | None:
        """The file, and the name in its body, of a value that is bound there and that a dotted name stands for."""
        if dotted not in self._values:
            found = self.resolve(self.path, dotted) if self.resolve is not None else None
            self._values[dotted] = found if found is not None and found[1] in found[0].globals else None
        return self._values[dotted]


# Names that people re-export from a module of helpers, and that mean one thing.
_STARS = frozenset({"torch", "torch.nn", "torch.nn.functional"})
STAR_NAMES = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy"}


def _last(node: ast.expr) -> str:
    """The last name of an expression."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
