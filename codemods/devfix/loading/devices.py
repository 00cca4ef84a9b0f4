"""The device expression that may be written at a load."""

from __future__ import annotations

import ast
import re

from devfix.bindings import Binding, function_around
from devfix.callees import Callees
from devfix.flow.evidence import annotation_text
from devfix.flow.frame import path_of
from devfix.placing import settled_binding
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAME = re.compile(r"^_?(?:torch_|target_|map_|load_|model_)?(?:device|dev)$|^map_location$", re.IGNORECASE)
_ROOTS = re.compile(r"^(?:self\.)?(?:args|opts?|options|cfg|config|hparams|hps|conf|params|FLAGS)$")
_NUMBER = re.compile(
    r"rank|_id\b|\bindex\b|\bidx\b|get_device\(\)|current_device\(\)|device_count|get_device_"
)
# Bases whose instances have a `device` that is a torch.device, from the start.
_WITH_DEVICE = re.compile(r"(?:LightningModule|PreTrainedModel|ModelMixin|DiffusionPipeline)$")


class DevicesInScope:
    """Finds `device`, `self.device`, `args.device` where they are certainly bound."""

    def __init__(self, callees: Callees) -> None:
        self._source: Source = callees.source
        self._bindings = callees.bindings

    def at(self, node: ast.AST) -> str:
        """The nearest device expression at a node; empty where there is none."""
        function = function_around(self._source, node)
        inside: ast.AST | None = function
        while inside is not None:
            for name in self._names(inside):
                if self._usable(self._bindings.within(inside, name), inside, node):
                    return name
            inside = function_around(self._source, inside)
        if function is not None and self._self_device(function, node):
            return "self.device"
        option = self._option(node, function)
        if option:
            return option
        tree = self._source.tree
        for name in self._names(tree):
            bindings = self._bindings.within(tree, name)
            if self._usable(bindings, tree, node) and (
                function is None or not any(self._main_only(b.node) for b in bindings)
            ):
                return name
        return ""

    def _names(self, scope: ast.AST) -> list[str]:
        """Names of devices that a scope binds, `device` itself first."""
        if isinstance(scope, _FUNCTIONS):
            arguments = scope.args
            found = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        else:
            found = set()
        for name, nodes in self._source.names(scope).items():
            if _NAME.match(name) and any(isinstance(node.ctx, ast.Store) for node in nodes):
                found.add(name)
        return sorted((n for n in found if _NAME.match(n)), key=lambda n: (n != "device", len(n), n))

    def _usable(self, bindings: list[Binding], scope: ast.AST, node: ast.AST) -> bool:
        """Bound on every way to `node`, and to something that `map_location` takes."""
        if not bindings or any(self._is_number(binding) for binding in bindings):
            return False
        if any(isinstance(binding.node, (ast.For, ast.comprehension, ast.withitem)) for binding in bindings):
            return False
        if any(binding.parameter for binding in bindings):
            return True
        if scope is not (function_around(self._source, node) or self._source.tree):
            return True  # the scope around it has run by then, as far as the text shows
        statement = self._source.statement(node)
        nodes = [binding.node for binding in bindings if binding.node is not statement]
        return bool(nodes) and settled_binding(self._source, nodes, statement)

    def _is_number(self, binding: Binding) -> bool:
        """A rank or an index: `map_location` takes none."""
        if isinstance(binding.node, ast.arg) and annotation_text(binding.node.annotation) in (
            "int",
            "List",
            "list",
            "bool",
        ):
            return True
        value = binding.value
        if value is None:
            return not binding.parameter
        if isinstance(value, ast.Call) and self._source.qualified(value.func) == "torch.device":
            return False
        if isinstance(value, ast.Constant):
            return (value.value is not None and not isinstance(value.value, str)) or value.value == ""
        if isinstance(value, (ast.List, ast.Tuple, ast.Lambda, ast.Dict)):
            return True
        return not isinstance(value, ast.JoinedStr) and bool(_NUMBER.search(ast.unparse(value)))

    def _self_device(self, function: ast.AST, node: ast.AST) -> bool:
        owner = self._source.enclosing(function, ast.ClassDef)
        if not isinstance(owner, ast.ClassDef) or not isinstance(function, _FUNCTIONS):
            return False
        if [a.arg for a in function.args.args[:1]] != ["self"]:
            return False
        starting = function.name == "__init__"
        for item in owner.body:
            if isinstance(item, _FUNCTIONS) and item.name == "device" and item.decorator_list:
                return not starting
        if not starting and any(_WITH_DEVICE.search(path_of(base)) for base in owner.bases):
            return True
        bindings = self._bindings.of_class(owner, "self.device")
        if any(self._is_number(binding) for binding in bindings):
            return False
        init = next((i for i in owner.body if isinstance(i, _FUNCTIONS) and i.name == "__init__"), None)
        made = [b.node for b in bindings if init is not None and self._inside(b.node, init)]
        if not made or init is None:
            return False
        if starting:
            return settled_binding(self._source, made, self._source.statement(node))
        return any(self._source.parents[self._source.statement(one)] is init for one in made)

    def _inside(self, node: ast.AST, function: ast.AST) -> bool:
        return function_around(self._source, node) is function

    def _main_only(self, node: ast.AST) -> bool:
        """Bound under `if __name__ == "__main__":`, so unbound where the file is imported."""
        up: ast.AST | None = node
        while up is not None:
            if isinstance(up, ast.If) and "__name__" in ast.unparse(up.test):
                return True
            up = self._source.parents.get(up)
        return False

    def _option(self, node: ast.AST, function: ast.AST | None) -> str:
        """`args.device`, where the same function moves something to exactly that."""
        scope = function or self._source.tree
        for other in self._source.walk(scope):
            if not isinstance(other, ast.Attribute) or not _NAME.match(other.attr):
                continue
            root = path_of(other.value)
            if not _ROOTS.match(root) or not self._moved_to(other):
                continue
            first = root.partition(".")[0]
            bindings = self._bindings.within(scope, first)
            given = first == "self" or any(b.parameter for b in bindings)
            nodes = [binding.node for binding in bindings]
            statement = self._source.statement(node)
            if not given and not (nodes and settled_binding(self._source, nodes, statement)):
                continue
            if not self._set_here(scope, path_of(other)):
                return path_of(other)
        return ""

    def _set_here(self, scope: ast.AST, path: str) -> bool:
        return any(
            isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and path_of(n) == path
            for n in self._source.walk(scope)
        )

    def _moved_to(self, node: ast.Attribute) -> bool:
        """Is it the device of a `.to(...)` or a `device=`?"""
        parent = self._source.parents.get(node)
        if isinstance(parent, ast.keyword):
            return parent.arg == "device"
        return (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Attribute)
            and parent.func.attr == "to"
            and node in parent.args
        )
