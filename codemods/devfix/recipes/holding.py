"""What `modules:` reaches, and what a constructor does with something that it is handed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from devfix.documents.yaml import Node
from devfix.engine.files import Class, Function
from devfix.models import torch_api
from devfix.names import of_self
from devfix.recipes.library import Library
from devfix.recipes.making import Maker
from devfix.recipes.plain import only_kept
from devfix.recipes.recipe import APPLY, NAME, NEW, Recipe, class_of
from devfix.source import children, walk

# Methods that do not run what they are called on.
NEUTRAL = frozenset(
    {
        "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
        "named_children", "state_dict", "load_state_dict", "train", "eval", "requires_grad_", "zero_grad",
        "apply", "register_forward_hook", "register_buffer", "register_parameter", "share_memory", "half",
        "float", "double", "append", "extend", "insert", "add", "update", "items", "keys", "values", "get",
        "pop", "copy", "index", "count", "setdefault", "add_module", "register_module", "to", "cuda", "cpu",
        "load", "save", "split", "join", "format", "lower", "upper", "startswith", "endswith", "strip",
    }
)  # fmt: skip
MOVES = ("to", "cuda", "to_empty")


def registered(recipe: Recipe, maker: Maker) -> frozenset[str]:
    """The entries that are moved with what is listed: those that modules hold, or may hold."""
    if recipe.modules is None:
        return frozenset()
    nodes = [value for _, value in recipe.modules.pairs]
    found = {name for node in nodes if node.tag != "!ref" for name in recipe.referred(node)}
    return held_by(recipe, maker, nodes) | found


def held_by(recipe: Recipe, maker: Maker, nodes: list[Node]) -> frozenset[str]:
    """The entries that modules hold, or may hold."""
    found: set[str] = set()
    while nodes:
        for name in _handed_on(recipe, maker, nodes.pop()):
            if name not in found:
                found.add(name)
                nodes.append(recipe.nodes[name])
    return frozenset(found)


def _handed_on(recipe: Recipe, maker: Maker, root: Node) -> Iterator[str]:
    """What a node refers to, but not through objects that are no modules."""
    todo, seen = [root], {id(root)}
    while todo:
        node = todo.pop()
        if node is not root or node.tag in ("!ref", "!copy"):
            yield from recipe.referred(node)
        cls = maker.library.find(class_of(node)) if node.tag.startswith(NEW) else None
        if cls is not None and maker.is_module(cls) is False:
            continue
        kept = _kept(recipe, cls, node) if cls is not None else frozenset()
        todo.extend(child for child in node.children if id(child) not in seen | kept)
        seen.update(id(child) for child in node.children)


def _is_setting(recipe: Recipe, name: str, depth: int = 0) -> bool:
    """Is an entry a constant, or computed from such?"""
    node = recipe.nodes[name]
    if node.kind != "scalar" or node.tag not in ("", "!ref") or depth > 5:
        return False
    return not node.tag or all(_is_setting(recipe, other, depth + 1) for other in recipe.referred(node))


def _kept(recipe: Recipe, cls: Class, node: Node) -> frozenset[int]:
    """The arguments of a module that are dicts with modules in them, of which it registers nothing."""
    found: set[int] = set()
    for key, value in node.pairs:
        name = next(recipe.referred(value), "") if value.tag == "!ref" else ""
        held = recipe.nodes[name] if name else value
        if held.kind != "mapping" or held.tag:
            continue
        holding = {
            item.value
            for _, items in held.pairs
            for item, inner in items.pairs
            if not items.tag and any(not _is_setting(recipe, name) for name in recipe.references(inner))
        }
        if all(items.kind == "mapping" for _, items in held.pairs) and holding:
            if only_kept(cls, key.value, frozenset(holding)):
                found.add(id(value))
    return frozenset(found)


@dataclass(frozen=True)
class Treatment:
    """What a class does with an argument of its constructor."""

    runs: bool = False
    moves: bool = False


class Holders:
    """Classes and what they do with their arguments."""

    def __init__(self, library: Library, maker: Maker, base: Holders | None = None) -> None:
        self.library, self.maker, self.base = library, maker, base
        self._known: dict[tuple[Class, str], Treatment] = {}

    def ways(self, recipe: Recipe, name: str, used: Iterable[str]) -> tuple[str, ...]:
        """The used entries that run an entry which they hold, and do not move it themselves."""
        used = frozenset(used)
        found: list[str] = []
        todo, seen = [name], {name}
        while todo:
            for held in recipe.holders.get(todo.pop(), ()):
                if held.entry in seen or not all(self._passes(node, at) for node, at in held.links):
                    continue
                seen.add(held.entry)
                if held.entry in used:
                    found.append(held.entry)
                else:
                    todo.append(held.entry)
        return tuple(found)

    def _passes(self, node: Node, argument: str) -> bool:
        if class_of(node) in torch_api.CONTAINERS:
            return True
        cls = self.library.find(class_of(node)) if node.tag.startswith(NEW) else None
        if cls is None or node.tag.startswith((NAME, APPLY)):
            return False
        treatment = self.treatment(cls, argument)
        return treatment.runs and not treatment.moves

    def treatment(self, cls: Class, argument: str) -> Treatment:
        """What a class does with the argument of that name, or of that position."""
        if self.base is not None and not self.library.owns(cls):
            return self.base.treatment(cls, argument)
        key = (cls, argument)
        if key not in self._known:
            self._known[key] = _Taint(cls, argument).result()
        return self._known[key]


class _Taint:
    """Follows an argument through the names and attributes of a class, order left aside."""

    def __init__(self, cls: Class, argument: str) -> None:
        self.methods = [method for owner in cls.lineage for method in owner.methods.values()]
        self.attributes: set[str] = set()
        self.names: dict[Function, set[str]] = {method: set() for method in self.methods}
        init = cls.method("__init__")
        parameters = init.positional[1:] if init is not None else []
        if argument.isdigit() and int(argument) < len(parameters):
            argument = parameters[int(argument)]
        self.known = False
        for method in self.methods:
            if method.name == "__init__" and any(one.arg == argument for one in method.parameters):
                self.names[method].add(argument)  # a base gets it by its name, mostly through **kwargs
                self.known = True

    def result(self) -> Treatment:
        if not self.known:
            return Treatment()
        for _ in range(4):
            before = len(self.attributes), sum(map(len, self.names.values()))
            for method in self.methods:
                self._spread(method)
            if before == (len(self.attributes), sum(map(len, self.names.values()))):
                break
        runs = moves = False
        for method in self.methods:
            for node in method.nodes:
                if not isinstance(node, ast.Call):
                    continue
                function = node.func
                if isinstance(function, ast.Attribute) and function.attr in MOVES:
                    moves |= self._is(function.value, method)
                elif isinstance(function, ast.Attribute) and function.attr not in NEUTRAL:
                    runs |= self._is(function, method) or self._is(function.value, method)
                elif isinstance(function, (ast.Name, ast.Subscript)):
                    runs |= self._is(function, method)
        return Treatment(runs, moves)

    def _spread(self, method: Function) -> None:
        for node in method.nodes:
            if isinstance(node, ast.Assign) and self._has(node.value, method):
                for target in node.targets:
                    self._taint(target, method)
            elif isinstance(node, (ast.For, ast.comprehension)) and self._has(node.iter, method):
                self._taint(node.target, method)
            elif isinstance(node, ast.Call):
                function = node.func
                if isinstance(function, ast.Attribute) and function.attr in ("append", "update", "extend"):
                    if any(self._has(argument, method) for argument in node.args):
                        self._taint(function.value, method)

    def _taint(self, target: ast.expr, method: Function) -> None:
        for node in walk(target):
            if isinstance(node, ast.Name) and node.id != "self":
                self.names[method].add(node.id)
            elif name := of_self(node):
                self.attributes.add(name)

    def _has(self, node: ast.expr, method: Function) -> bool:
        """Does what an expression gives contain it? What a call of it returns does not."""
        if self._is(node, method):
            return True
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                if function.attr in ("items", "values", "get", "pop", "to", "eval", "train", "copy"):
                    return self._has(function.value, method)
                return any(self._has(argument, method) for argument in node.args) and not self._is(
                    function.value, method
                )
            if isinstance(function, ast.Name) and self._is(function, method):
                return False
            return any(self._has(argument, method) for argument in node.args)
        if isinstance(node, (ast.Attribute, ast.Constant, ast.Compare, ast.Lambda)):
            return False
        return any(self._has(child, method) for child in children(node) if isinstance(child, ast.expr))

    def _is(self, node: ast.expr, method: Function) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            return node.id in self.names[method]
        return of_self(node) in self.attributes
