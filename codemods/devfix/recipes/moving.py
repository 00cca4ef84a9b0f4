"""What a script moves of a recipe, or may move: by `to`, in loops, under other names, or by handing it on."""

from __future__ import annotations

import ast

from devfix.recipes.script import Script
from devfix.text.source import children, walk

_MOVES = ("to", "cuda", "to_empty")
# What gives back what it is called on, or its items; and what is given something, and gives that.
_SAME = frozenset({"to", "cuda", "eval", "train", "values", "items", "requires_grad_", "half"})
_GIVE_BACK = frozenset({"enumerate", "zip", "list", "tuple", "reversed"})
# What only looks at what it is given.
_LOOKS = frozenset(
    {
        "print", "len", "isinstance", "hasattr", "type", "str", "repr", "id", "callable", "getattr", "issubclass",
        "get", "format", "join",
    }
)  # fmt: skip
EVERYTHING = "*"


class Moves:
    """What a script moves or may move, anywhere in it and in order no matter."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.moved: set[str] = set()
        self.frozen: set[str] = set()  # `eval()` or no gradients
        self.given: set[str] = set()  # put there by the script itself
        # `hparams["x"].to(run_opts["device"])`: a move only where a device is given on the command line
        self.doubtful: dict[str, ast.Call] = {}
        self.aliases: dict[str, set[str]] = {}
        sources = {id(source): source for source in script.sources}
        nodes = [node for source in sources.values() for node in source.walk()]
        self.bindings = [
            n for n in nodes if isinstance(n, (ast.Assign, ast.For, ast.comprehension, ast.NamedExpr))
        ]
        self.others = [n for n in nodes if isinstance(n, (ast.Call, ast.Subscript, ast.Attribute))]
        self.computing = {
            inner
            for method, computes in script.methods.items()
            if computes
            for inner in method.nodes
            if isinstance(inner, ast.Call)
        }
        self._run()

    def _run(self) -> None:
        for _ in range(3):
            before = {name: len(meant) for name, meant in self.aliases.items()}
            for binding in self.bindings:
                self._alias(binding)
            if before == {name: len(meant) for name, meant in self.aliases.items()}:
                break
        for node in self.others:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                key = self.script.key_of(node)
                if key:
                    self.given.add(key)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if self.script.is_hparams(node.value):
                    self.given.add(node.attr)

    def _alias(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            meant = self.meant(node.value)
            for target in node.targets:
                self._bind(target, meant)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind(_values(node.target, node.iter), self.meant(node.iter))
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, self.meant(node.value))

    def _bind(self, target: ast.expr, meant: set[str]) -> None:
        if meant:
            for node in walk(target):
                if isinstance(node, ast.Name) and node.id not in self.script.loaded and node.id != "self":
                    self.aliases.setdefault(node.id, set()).update(meant)
                elif isinstance(node, ast.Attribute) and not self.script.is_hparams(node):
                    self.aliases.setdefault(f".{node.attr}", set()).update(meant)

    def meant(self, node: ast.expr) -> set[str]:
        """The entries that an expression gives, or holds: `all[x]` under a key, with a dot at the end an attribute."""
        key = self.script.key_of(node)
        if key:
            return {key}
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, set())
        if isinstance(node, ast.Attribute):
            known = self.aliases.get(f".{node.attr}", set())
            return known or {f"{name.rstrip('.')}." for name in self.meant(node.value)}
        if isinstance(node, ast.Call):
            return self._given_by(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.IfExp, ast.BoolOp, ast.Starred)):
            parts = [child for child in children(node) if isinstance(child, ast.expr)]
            return set().union(*(self.meant(child) for child in parts))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str):
                return {
                    name if name in ("", EVERYTHING) else f"{name}[{node.slice.value}]"
                    for name in self.meant(node.value)
                }
        if isinstance(node, (ast.Subscript, ast.Await, ast.NamedExpr)):
            return self.meant(node.value)
        return set()

    def _given_by(self, node: ast.Call) -> set[str]:
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr in ("values", "items") and self.script.is_hparams(function.value):
                return {EVERYTHING}
            return self.meant(function.value) if function.attr in _SAME else set()
        name = getattr(function, "id", "")
        if name == "vars" and node.args and self.script.is_hparams(node.args[0]):
            return {EVERYTHING}
        return set().union(*map(self.meant, node.args)) if name in _GIVE_BACK else set()

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            meant = {name.rstrip(".") for name in self.meant(function.value)}
            if function.attr in _MOVES:
                if self._to_option(node) and EVERYTHING not in meant:
                    self.doubtful.update(dict.fromkeys(meant, node))
                else:
                    self.moved |= meant
            elif function.attr in ("eval", "requires_grad_", "freeze"):
                self.frozen |= meant
            elif function.attr == "apply" and meant:
                self.moved |= meant
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called in _LOOKS or (called != "append" and self.script.key_of(node)):
            return
        if node in self.computing:
            return  # handed on where it computes: that is a use, and not yet a move
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if not self.script.is_hparams(argument):  # a part ends with a dot: nobody asks for it
                self.moved |= self.meant(argument) - {EVERYTHING}

    def _to_option(self, node: ast.Call) -> bool:
        """`.to(run_opts["device"])`, of options that the command line gave and nobody completes."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if len(arguments) != 1 or not isinstance(arguments[0], ast.Subscript):
            return False
        option = arguments[0]
        key, options = option.slice, option.value
        return (
            isinstance(key, ast.Constant)
            and key.value == "device"
            and isinstance(options, ast.Name)
            and options.id in self.script.options
        )


def _values(target: ast.expr, over: ast.expr) -> ast.expr:
    """What a loop's target has of the values: not the keys of `items()`, nor the numbers of `enumerate()`."""
    function = over.func if isinstance(over, ast.Call) else None
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called in ("items", "enumerate") and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        return target.elts[1]
    return target
