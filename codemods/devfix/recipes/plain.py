"""Plain dicts and lists that a module's constructor gets: are modules in them registered?

`self.parts = parts` registers nothing if `parts` is a dict. Where it is sure that the constructor, and whatever it
hands the dict to, only keeps it and reads settings from it, what the dict holds is not moved with the module.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from devfix.engine.files import Class, Function
from devfix.models import torch_api
from devfix.text.names import of_self

_DEEPEST = 3  # functions that call each other
_LOOKS = frozenset({"len", "isinstance", "bool", "print", "type"})
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.If, ast.IfExp, ast.Assert, ast.While)


def only_kept(cls: Class, argument: str, holding: frozenset[str]) -> bool:
    """Does a class surely register nothing of a dict or list that its constructor gets?

    `holding`: the keys of the dict's own items under which there are modules; empty if the items are modules.
    """
    init = cls.method("__init__")
    if init is None or not {*torch_api.MODULE_BASES, "object"}.issuperset(cls.outside):
        return False
    if all(one.arg != argument for one in init.parameters):
        return False
    check = _Check(cls, holding)
    if not check.function(init, argument):
        return False
    methods = (method for owner in cls.lineage for method in owner.methods.values())
    return all(_Body(check, method, set()).fine() for method in methods)  # what is kept as an attribute


@dataclass
class _Check:
    cls: Class
    holding: frozenset[str]
    attributes: set[str] = field(default_factory=set)
    running: list[Function] = field(default_factory=list)

    def function(self, function: Function, parameter: str) -> bool:
        """Is a parameter of a function only read from, and kept as an attribute?"""
        if function in self.running or len(self.running) >= _DEEPEST:
            return False
        self.running.append(function)
        fine = _Body(self, function, {parameter}).fine()
        self.running.pop()
        return fine


class _Body:
    """One function: the names of the dict, and those of its items."""

    def __init__(self, check: _Check, function: Function, names: set[str]) -> None:
        self.check, self.function = check, function
        self.names, self.items = names, set[str]()
        self.parents = function.file.source.parents

    def fine(self) -> bool:
        for _ in range(4):
            before = len(self.names), len(self.items), len(self.check.attributes)
            if not all(self._read(node) for node in self.function.nodes if isinstance(node, ast.expr)):
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
        return of_self(node) not in self.check.attributes or self._whole(node)

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
        if name := of_self(target):
            self.check.attributes.add(name)
        return bool(name)

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
            found, offset = self.function.file.functions.get(function.id), 0
        elif name := of_self(function):
            found, offset = self.check.cls.method(name), 1
        else:
            return False
        if found is None or any(isinstance(item, ast.Starred) for item in call.args):
            return False
        if isinstance(argument, int):
            if argument + offset >= len(found.positional):
                return False
            argument = found.positional[argument + offset]
        elif all(one.arg != argument for one in found.parameters):
            return False
        return self.check.function(found, argument)
