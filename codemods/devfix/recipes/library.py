"""Classes by their dotted names, from sources that are read and never imported."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from functools import cached_property

from devfix import depends
from devfix.listing import noted_kind
from devfix.parsed import parsed
from devfix.recipes.files import Files
from devfix.source import Source

_FOLLOW = 8  # re-exports


@dataclass(frozen=True, eq=False)
class Module:
    """One Python file of a library or of the recipe's folder."""

    name: str  # dotted, as it was found
    path: str
    source: Source

    @property
    def package(self) -> str:
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.source.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in self.source.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """The modules whose names are all taken over."""
        found = []
        for node in self.source.tree.body:
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                found.append(self.absolute("." * node.level + (node.module or "")))
        return tuple(found)

    def absolute(self, dotted: str) -> str:
        """A name with leading dots, seen from this module."""
        if not dotted.startswith("."):
            return dotted
        rest = dotted.lstrip(".")
        package = self.package.split(".") if self.package else []
        kept = package[: len(package) - (len(dotted) - len(rest) - 1)]
        return ".".join([*kept, rest] if rest else kept)

    def dotted(self, node: ast.AST) -> str:
        """What an expression names, seen from this module: an import, or something of its own."""
        name = self.source.qualified(node)
        if name:
            return self.absolute(name)
        if isinstance(node, ast.Name) and (node.id in self.classes or node.id in self.functions):
            return f"{self.name}.{node.id}" if self.name else node.id
        if isinstance(node, ast.Name):
            return node.id
        return ""


@dataclass(frozen=True, eq=False)
class Class:
    """A class and the module that defines it."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return f"{self.module.name}.{self.node.name}"

    @cached_property
    def methods(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}


class Library:
    """Everything that dotted names lead to, seen from a recipe; what is not found there, `base` may know."""

    def __init__(self, files: Files, roots: tuple[str, ...], base: Library | None = None) -> None:
        self.files = files
        self.roots = roots
        self.base = base
        self.stamps: dict[str, tuple[int, int]] = {}
        self.needs = depends.Needs()  # of all that was found, for whoever uses what was found for others
        self._modules: dict[str, Module | None] = {}
        self._orders: dict[ast.ClassDef, tuple[tuple[Class, ...], frozenset[str]]] = {}

    def module(self, dotted: str) -> Module | None:
        """The module of a name, or None where it is not in view."""
        if dotted not in self._modules:
            with depends.aside() as needs:
                self._modules[dotted] = self._find(dotted)
            self.needs.add(needs)
            depends.add(needs)
        return self._modules[dotted]

    def _find(self, dotted: str) -> Module | None:
        parts = dotted.split(".")
        if not dotted or not all(part.isidentifier() for part in parts):
            return None
        for root in self.roots:
            base = os.path.join(root, *parts)
            for path in (f"{base}.py", os.path.join(base, "__init__.py")):
                if noted_kind(path) == "file" and (module := self.of_file(path, dotted)):
                    self.stamps[path] = stamp(path)
                    return module
        return self.base.module(dotted) if self.base is not None else None

    def owns(self, cls: Class) -> bool:
        """Was a class found here, and not by `base`?"""
        return self.base is None or cls.module.path not in self.base.stamps

    def of_file(self, path: str, dotted: str = "") -> Module | None:
        """The module that a file is."""
        document = self.files.document(path)
        source = source_of(document.text) if document is not None else None
        return Module(dotted, path, source) if source is not None else None

    def find(self, dotted: str, depth: int = 0) -> Class | None:
        """The class that a dotted name leads to, through re-exports."""
        home, _, name = dotted.rpartition(".")
        module = self.module(home)
        return self.member(module, name, depth) if module is not None else None

    def member(self, module: Module, name: str, depth: int = 0) -> Class | None:
        """A class by the name that it has in a module."""
        if name in module.classes:
            return Class(module, module.classes[name])
        if depth > _FOLLOW:
            return None
        if name in module.source.imports:
            return self.find(module.absolute(module.source.imports[name]), depth + 1)
        for star in module.stars:
            other = self.module(star)
            if other is not None and (found := self.member(other, name, depth + 1)):
                return found
        return None

    def named(self, module: Module, node: ast.AST) -> Class | None:
        """The class that an expression of a module names."""
        if isinstance(node, ast.Name):
            return self.member(module, node.id)
        dotted = module.dotted(node)
        return self.find(dotted) if "." in dotted else None

    def order(self, cls: Class) -> tuple[tuple[Class, ...], frozenset[str]]:
        """The classes that are in view, derived ones first, and the names of bases that are not."""
        if self.base is not None and not self.owns(cls):
            return self.base.order(cls)
        known = self._orders.get(cls.node)
        if known is None:
            self._orders[cls.node] = ((cls,), frozenset())  # a class cannot be its own base
            found, unknown = [cls], set()
            for base in cls.node.bases:
                other = self.named(cls.module, base)
                if other is None:
                    unknown.add(cls.module.dotted(base) or "?")
                    continue
                above, names = self.order(other)
                found += [item for item in above if all(item.node is not have.node for have in found)]
                unknown |= names
            known = self._orders[cls.node] = (tuple(found), frozenset(unknown))
        return known

    def method(self, cls: Class, name: str) -> tuple[Class, ast.FunctionDef] | None:
        """The method that an instance has, and the class that defines it."""
        for owner in self.order(cls)[0]:
            if name in owner.methods:
                return owner, owner.methods[name]
        return None


def stamp(path: str) -> tuple[int, int]:
    """Tells whether a file is still the one that was read."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def source_of(text: str) -> Source | None:
    """The source of a text, or None where it does not parse; recipes share a library."""
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
