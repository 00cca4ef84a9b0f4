"""A script and its Brain, read for one recipe: what is used as `self.hparams.x`, listed, and moved by hand."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from devfix.recipes.library import Class, Library, Module
from devfix.source import Source, walk

if TYPE_CHECKING:
    from devfix.recipes.moving import Moves

LOADER = "load_hyperpyyaml"
_BRAINS = ("speechbrain.Brain", "speechbrain.core.Brain")
# Methods of a Brain that run on the device; what they call on `self` does, too.
COMPUTE = ("compute_forward", "compute_objectives", "fit_batch", "evaluate_batch")


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a Brain of the script, and the file that it is in."""

    owner: Class
    node: ast.FunctionDef
    computes: bool


@dataclass(eq=False)
class Script:
    """One Python file that loads a recipe."""

    module: Module
    library: Library
    loaded: frozenset[str] = frozenset()  # the names of what the loader gives
    files: tuple[str, ...] = ()  # YAML files that it names
    brains: tuple[Class, ...] = ()
    _methods: list[Method] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.module.path

    @cached_property
    def methods(self) -> tuple[Method, ...]:
        """The methods of its Brains, as far as they are the project's own."""
        found: dict[ast.FunctionDef, Method] = {}
        for brain in self.brains:
            own = [cls for cls in self.library.order(brain)[0] if not is_base(self.library, cls)]
            names: dict[str, tuple[Class, ast.FunctionDef]] = {}
            for cls in own:
                for name, node in cls.methods.items():
                    names.setdefault(name, (cls, node))
            computing = _closure(names)
            for name, (cls, node) in names.items():
                method = found.get(node)
                if method is None or (name in computing and not method.computes):
                    found[node] = Method(cls, node, name in computing)
        return tuple(found.values())

    @property
    def sources(self) -> Iterator[Source]:
        """The script, and the files beside it that have methods of its Brains."""
        yield self.module.source
        for method in self.methods:
            yield method.owner.module.source

    @cached_property
    def constructions(self) -> tuple[ast.Call, ...]:
        """Where its Brains are made."""
        nodes = {brain.node for brain in self.brains}
        found = []
        for call in self.module.source.calls:
            cls = self.library.named(self.module, call.func)
            if cls is not None and cls.node in nodes:
                found.append(call)
        return tuple(sorted(found, key=lambda call: call.lineno))

    def handed(self, call: ast.Call, name: str, position: int) -> ast.expr | None:
        """An argument of the making of a Brain."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        return call.args[position] if len(call.args) > position else None

    @property
    def lists_modules(self) -> bool:
        """Do its Brains get what is under `modules:`, as it is?"""
        given = [self.handed(call, "modules", 0) for call in self.constructions]
        return (
            bool(given)
            and all(node is not None and self.key_of(node) == "modules" for node in given)
            and not self._changes_modules
        )

    @cached_property
    def options(self) -> frozenset[str]:
        """What it calls the options that speechbrain reads from the command line, if it completes none."""
        found: set[str] = set()
        for node in self.module.source.walk():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                function = node.value.func
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                target = node.targets[0]
                if called == "parse_arguments" and isinstance(target, ast.Tuple) and len(target.elts) == 3:
                    if isinstance(target.elts[1], ast.Name):
                        found.add(target.elts[1].id)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id in found:
                    return frozenset()
        return frozenset(found)

    @cached_property
    def moves(self) -> Moves:
        from devfix.recipes.moving import Moves

        return Moves(self)

    @cached_property
    def _changes_modules(self) -> bool:
        """Does it add to `hparams["modules"]` or to `brain.modules` itself?"""
        for node in self.module.source.walk():
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
                inner = node.value
                if self.key_of(inner) == "modules" or _is_attribute(inner, "modules"):
                    return True
                if self.key_of(node) == "modules":
                    return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("update", "setdefault", "add_module", "pop"):
                    base = node.func.value
                    if self.key_of(base) == "modules" or _is_attribute(base, "modules"):
                        return True
        return False

    def key_of(self, node: ast.AST) -> str:
        """x, of `hparams["x"]`, `hparams.get("x")` and `self.hparams.x`; else an empty string."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str) and self.is_hparams(node.value):
                return node.slice.value
        if isinstance(node, ast.Attribute) and self.is_hparams(node.value):
            return node.attr
        if isinstance(node, ast.Call) and node.args:
            return self._called_key(node)
        return ""

    def _called_key(self, node: ast.Call) -> str:
        """x, of `hparams.get("x")` and `getattr(self.hparams, "x")`."""
        function, name = node.func, node.args[0]
        if isinstance(function, ast.Name) and function.id == "getattr" and len(node.args) > 1:
            if not self.is_hparams(name):
                return ""
            name = node.args[1]
        elif not (
            isinstance(function, ast.Attribute) and function.attr == "get" and self.is_hparams(function.value)
        ):
            return ""
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""

    def is_hparams(self, node: ast.AST) -> bool:
        """`hparams` as it was loaded, or `self.hparams`."""
        if isinstance(node, ast.Name):
            return node.id in self.loaded
        return _is_attribute(node, "hparams")


def module_key(node: ast.AST) -> str:
    """x, of `self.modules.x` and `self.modules["x"]`; else an empty string."""
    if isinstance(node, ast.Attribute) and _is_attribute(node.value, "modules"):
        return node.attr
    if isinstance(node, ast.Subscript) and _is_attribute(node.value, "modules"):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
    return ""


def _is_attribute(node: ast.AST, name: str) -> bool:
    """`self.NAME`, or that of another name, such as `brain.NAME`."""
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)


def read_script(library: Library, path: str) -> Script | None:
    """A script, if that is what the file is: it loads a recipe and has a Brain."""
    document = library.files.document(path)
    if document is None or LOADER not in document.text:
        return None
    name = os.path.splitext(os.path.basename(path))[0]
    module = library.of_file(path, name)
    if module is None:
        return None
    loaded, files = _loading(module)
    if not loaded:
        return None
    brains = tuple(_brains(library, module))
    return Script(module, library, loaded, files, brains) if brains else None


def _loading(module: Module) -> tuple[frozenset[str], tuple[str, ...]]:
    names: set[str] = set()
    files: set[str] = set()
    for node in module.source.walk():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            function = node.value.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called == LOADER:
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.endswith((".yaml", ".yml")) and "\n" not in node.value:
                files.add(node.value)
    return frozenset(names), tuple(sorted(files))


def _brains(library: Library, module: Module) -> Iterator[Class]:
    """The Brain classes of a script: its own, and those that it takes from files beside it."""
    for name in [*module.classes, *module.source.imports]:
        cls = library.member(module, name)
        if cls is not None and not is_base(library, cls) and is_brain(library, cls):
            yield cls


def is_brain(library: Library, cls: Class) -> bool:
    order, unknown = library.order(cls)
    return any(name in _BRAINS for name in unknown) or any(is_base(library, item) for item in order)


def is_base(library: Library, cls: Class) -> bool:
    """Is it the class that takes `modules` and moves them, as speechbrain's Brain does?"""
    init = cls.methods.get("__init__")
    if init is None or "modules" not in [item.arg for item in (*init.args.args, *init.args.kwonlyargs)]:
        return False
    for node in walk(init):
        if isinstance(node, ast.Assign) and any(_is_attribute(item, "modules") for item in node.targets):
            if any(isinstance(item, ast.Attribute) and item.attr == "to" for item in walk(node.value)):
                return True
    return False


def _closure(methods: dict[str, tuple[Class, ast.FunctionDef]]) -> set[str]:
    """The names of the methods that computing reaches."""
    found = {name for name in COMPUTE if name in methods}
    todo = list(found)
    while todo:
        for node in walk(methods[todo.pop()][1]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                function = node.func
                if isinstance(function.value, ast.Name) and function.value.id == "self":
                    if function.attr in methods and function.attr not in found:
                        found.add(function.attr)
                        todo.append(function.attr)
    return found
