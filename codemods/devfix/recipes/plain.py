"""Plain dicts and lists that a module's constructor gets: are modules in them registered?

`self.parts = parts` registers nothing if `parts` is a dict. Where it is sure that the constructor, and whatever it
hands the dict to, only keeps it and reads settings from it, what the dict holds is not moved with the module.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from devfix.recipes.library import Class, Library, Module
from devfix.source import walk

_DEEPEST = 3  # functions that call each other
_LOOKS = frozenset({"len", "isinstance", "bool", "print", "type"})
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.If, ast.IfExp, ast.Assert, ast.While)


def only_kept(library: Library, cls: Class, argument: str, holding: frozenset[str]) -> bool:
    """Does a class surely register nothing of a dict or list that its constructor gets?

    `holding`: the keys of the dict's own items under which there are modules; empty if the items are modules.
    """
    order, unknown = library.order(cls)
    init = library.method(cls, "__init__")
    if init is None or not unknown <= {"torch.nn.Module", "torch.nn.modules.module.Module", "object"}:
        return False
    names = [item.arg for item in (*init[1].args.args, *init[1].args.kwonlyargs)]
    if argument not in names:
        return False
    check = _Check(library, cls, holding)
    if not check.function(init[0].module, init[1], argument):
        return False
    return all(
        check.method(owner.module, node) for owner in order for node in owner.methods.values()
    )  # what is kept as an attribute


@dataclass
class _Check:
    library: Library
    cls: Class
    holding: frozenset[str]
    attributes: set[str] = field(default_factory=set)
    running: list[ast.FunctionDef] = field(default_factory=list)

    def function(self, module: Module, node: ast.FunctionDef, parameter: str) -> bool:
        """Is a parameter of a function only read from, and kept as an attribute?"""
        if node in self.running or len(self.running) >= _DEEPEST:
            return False
        self.running.append(node)
        fine = _Body(self, module, node, {parameter}).fine()
        self.running.pop()
        return fine

    def method(self, module: Module, node: ast.FunctionDef) -> bool:
        return _Body(self, module, node, set()).fine()


class _Body:
    """One function: the names of the dict, and those of its items."""

    def __init__(self, check: _Check, module: Module, node: ast.FunctionDef, names: set[str]) -> None:
        self.check, self.module, self.node = check, module, node
        self.names, self.items = names, set[str]()
        self.parents = module.source.parents

    def fine(self) -> bool:
        for _ in range(4):
            before = len(self.names), len(self.items), len(self.check.attributes)
            if not all(self._read(node) for node in walk(self.node) if isinstance(node, ast.expr)):
                return False
            if before == (len(self.names), len(self.items), len(self.check.attributes)):
                return True
        return False

    def _read(self, node: ast.expr) -> bool:
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            return True
        if isinstance(node, ast.Name):
            if node.id in self.items:
                return self._item(node)
            return node.id not in self.names or self._whole(node)
        if isinstance(node, ast.Attribute) and _is_self(node):
            return node.attr not in self.check.attributes or self._whole(node)
        return True

    def _whole(self, node: ast.expr) -> bool:
        """A place where the dict itself is read."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Assign):
            return all(self._kept(target) for target in parent.targets)
        if isinstance(parent, ast.Attribute):
            return self._method_of(parent)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self._item(parent)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return self._bound(parent.target)
        if isinstance(parent, ast.keyword):
            call = self.parents.get(parent)
            return isinstance(call, ast.Call) and parent.arg is not None and self._handed(call, parent.arg)
        if isinstance(parent, ast.Call):
            return parent.func is not node and self._handed(parent, parent.args.index(node))
        return isinstance(parent, _TESTS)

    def _kept(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name):
            self.names.add(target.id)
            return True
        if isinstance(target, ast.Attribute) and _is_self(target):
            self.check.attributes.add(target.attr)
            return True
        return False

    def _bound(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name):
            self.items.add(target.id)
        return isinstance(target, ast.Name)

    def _method_of(self, function: ast.Attribute) -> bool:
        """`x.keys()`, and `x.items()` or `x.values()` in a loop."""
        call = self.parents.get(function)
        if not isinstance(call, ast.Call) or call.func is not function or call.args:
            return False
        if function.attr == "keys":
            return True
        loop = self.parents.get(call)
        if not isinstance(loop, (ast.For, ast.comprehension)) or loop.iter is not call:
            return False
        if function.attr == "values":
            return self._bound(loop.target)
        if function.attr != "items" or not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
            return False
        return self._bound(loop.target.elts[1])

    def _item(self, node: ast.expr) -> bool:
        """A place where an item of the dict is read: only a setting of it may go on."""
        parent = self.parents.get(node)
        if (
            isinstance(parent, ast.Subscript)
            and parent.value is node
            and isinstance(parent.slice, ast.Constant)
        ):
            return bool(self.check.holding) and parent.slice.value not in self.check.holding
        return isinstance(parent, _TESTS)

    def _handed(self, call: ast.Call, argument: str | int) -> bool:
        """Is what it is handed to in view, and only reads from it?"""
        function = call.func
        if isinstance(function, ast.Name):
            if function.id in _LOOKS:
                return True
            node = self.module.functions.get(function.id)
            offset = 0
        elif isinstance(function, ast.Attribute) and _is_self(function):
            found = self.check.library.method(self.check.cls, function.attr)
            node = found[1] if found is not None and found[0].module is self.module else None
            offset = 1
        else:
            return False
        if node is None or any(isinstance(item, ast.Starred) for item in call.args):
            return False
        names = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
        if isinstance(argument, int):
            if argument + offset >= len(names):
                return False
            argument = names[argument + offset]
        elif argument not in [*names, *(item.arg for item in node.args.kwonlyargs)]:
            return False
        return self.check.function(self.module, node, argument)


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
