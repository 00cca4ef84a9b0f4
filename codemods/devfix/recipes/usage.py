"""What a script does with the entries of one recipe: uses, requires, moves or hands them away."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from devfix.engine.files import Function
from devfix.models.torch_api import turns_gradients_off
from devfix.recipes.constants import UNKNOWN, truth
from devfix.recipes.holding import NEUTRAL
from devfix.recipes.moving import EVERYTHING
from devfix.recipes.recipe import Recipe, last_key
from devfix.recipes.script import Script, module_key
from devfix.text.source import children, walk


@dataclass(frozen=True, eq=False)
class Use:
    """`self.hparams.x` or `self.modules.x` where it is run.

    `sure`: no condition is open. `idle`: with the values that stand in the recipe it is not reached.
    `path`: the name with the keys behind it, `models[generator]`, where these are in view and in the recipe.
    """

    name: str
    node: ast.expr
    method: Function
    sure: bool
    no_grad: bool
    idle: bool = False
    path: str = ""

    @property
    def where(self) -> str:
        """For a person."""
        return f"{os.path.basename(self.method.file.path)}, line {self.node.lineno},"


@dataclass
class Usage:
    """What one script does with one recipe."""

    script: Script
    recipe: Recipe
    uses: list[Use] = field(default_factory=list)  # of self.hparams, where it computes
    listed_uses: list[Use] = field(default_factory=list)  # of self.modules, anywhere in a Brain
    required: set[str] = field(default_factory=set)  # entries that must be there
    required_modules: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)  # entries that the script itself puts there
    moved: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)  # by the script's word
    doubtful: dict[str, ast.Call] = field(default_factory=dict)  # moved if a device is given

    def moves(self, name: str, held: str = "") -> bool:
        """Does the script move an entry, or hand it to something that may? With `held`: as far as that is in it."""
        if name in self.moved or EVERYTHING in self.moved:
            return True
        return any(not held or self._leads(name, part, held) for part in self._moved_parts.get(name, ()))

    @cached_property
    def _moved_parts(self) -> dict[str, list[str]]:
        """Entry -> the last keys of what is moved of it."""
        found: dict[str, list[str]] = {}
        for one in self.moved:
            for at, character in enumerate(one):
                if character == "[":
                    found.setdefault(one[:at], []).append(last_key(one))
        return found

    @cached_property
    def of_name(self) -> dict[str, list[Use]]:
        """The uses of each name of `self.hparams`."""
        found: dict[str, list[Use]] = {}
        for use in self.uses:
            found.setdefault(use.name, []).append(use)
        return found

    @cached_property
    def of_entry(self) -> dict[str, list[Use]]:
        """The uses of each entry, by whatever name."""
        found: dict[str, list[Use]] = {}
        for use in self.uses:
            for name in {self.recipe.target(use.name), self.recipe.target(use.path)}:
                found.setdefault(name, []).append(use)
        return found

    @cached_property
    def last_used(self) -> dict[str, Use]:
        """The last use of each entry, by its whole path."""
        return {self.recipe.target(use.path or use.name): use for use in self.uses}

    def _leads(self, name: str, key: str, held: str) -> bool:
        """May what is under a key somewhere in an entry be what is held, or have it?"""
        nodes = self.recipe.nodes
        there = [one for one in nodes if one.startswith(f"{name}[") and one.endswith(f"[{key}]")]
        return not there or any(
            held == self.recipe.target(one) or held in self.recipe.references(nodes[one]) for one in there
        )

    @property
    def fit(self) -> int:
        """How many of the listed modules it uses, less those that it takes for listed and are not."""
        used = {use.name for use in self.listed_uses}
        return len(used & self.recipe.listed) - len(used - self.recipe.listed)

    @property
    def missing(self) -> float:
        """The part of what the script cannot do without that the recipe does not have."""
        have = set(self.recipe.entries) | self.given
        alike = {folded(last_key(name)) for name in have | set(self.recipe.nodes)}
        absent_modules = {name for name in self.required_modules - have if folded(name) not in alike}
        absent = self.required - have, absent_modules - set(self.recipe.listed)
        return len(absent[0] | absent[1]) / (len(self.required | self.required_modules) or 1)


def folded(name: str) -> str:
    """A name without case and underscores."""
    return name.lower().replace("_", "")


def usage(script: Script, recipe: Recipe) -> Usage:
    """Read a script for one recipe."""
    moves = script.moves
    found = Usage(script, recipe, given=moves.given, moved=moves.moved)
    found.frozen, found.doubtful = moves.frozen, moves.doubtful
    for method, computes in script.methods.items():
        _Uses(found, method, computes).block(method.node.body, True, False)
    _requirements(found)
    return found


# --- conditions --------------------------------------------------------------------------------


def holds(found: Usage, test: ast.expr, written: bool = False) -> bool | None:
    """Whether a condition on the recipe's entries holds; with `written` also one on the values that stand there."""
    script, recipe = found.script, found.recipe

    def look(node: ast.expr) -> Any:
        # Values are left open unless asked for: the command line may set any of them.
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
                name = str(node.args[1].value)
                if script.is_hparams(node.args[0]):
                    return True if name in recipe.entries else UNKNOWN if name in found.given else False
                if isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "modules":
                    return name in recipe.listed
        key = script.key_of(node) if written else ""
        return recipe.constant(key) if key in recipe.entries and key not in found.given else UNKNOWN

    for part in [test.operand] if isinstance(test, ast.UnaryOp) else [test]:
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.In, ast.NotIn)):
            known = _contains(found, part)
            if known is not None:
                return known if part is test else not known
    return truth(test, look)


def _contains(found: Usage, test: ast.Compare) -> bool | None:
    """`"x" in hparams`, `"x" in self.modules`."""
    if not (isinstance(test.left, ast.Constant) and isinstance(test.left.value, str)):
        return None
    where, name = test.comparators[0], test.left.value
    wanted = isinstance(test.ops[0], ast.In)
    while isinstance(where, ast.Call) and isinstance(where.func, ast.Attribute):
        where = where.func.value  # .keys()
    if isinstance(where, ast.Attribute) and where.attr == "__dict__":
        where = where.value
    if isinstance(where, ast.Attribute) and where.attr == "modules":
        return (name in found.recipe.listed) is wanted
    if found.script.is_hparams(where) and name not in found.given:
        return (name in found.recipe.entries) is wanted
    return None


# --- uses ----------------------------------------------------------------------------------------


class _Uses:
    """One method of a Brain, statement by statement, with what is known of the conditions around."""

    def __init__(self, found: Usage, method: Function, computes: bool) -> None:
        self.found, self.method, self.computes = found, method, computes
        self.script = found.script
        self.idle = 0  # conditions around that do not hold for the values in the recipe
        self.no_grad = any(turns_gradients_off(item) for item in method.node.decorator_list)

    def block(self, body: Iterable[ast.stmt], sure: bool, no_grad: bool) -> None:
        idle = self.idle
        for statement in body:
            self.statement(statement, sure, no_grad)
            if isinstance(statement, ast.If) and _leaves(statement.body):
                known = holds(self.found, statement.test)
                if known is True:
                    break
                sure = sure and known is False
                self.idle += holds(self.found, statement.test, written=True) is True
            if isinstance(statement, (ast.Return, ast.Raise)):
                break
        self.idle = idle

    def statement(self, node: ast.stmt, sure: bool, no_grad: bool) -> None:
        if isinstance(node, ast.If):
            self.expressions(node.test, sure, no_grad)
            for branch, known in self._branches(node.test):
                self.block(node.body if branch else node.orelse, sure and known is branch, no_grad)
            return
        if isinstance(node, (ast.With, ast.AsyncWith)):
            no_grad = no_grad or any(turns_gradients_off(item.context_expr) for item in node.items)
        inner = sure and not isinstance(node, (ast.Try, ast.While, ast.For, ast.AsyncFor))
        for child in children(node):
            if isinstance(child, ast.stmt):
                self.statement(child, inner, no_grad)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                self.block(child.body, False, no_grad)
            else:
                self.expressions(child, sure, no_grad)

    def _branches(self, test: ast.expr) -> Iterator[tuple[bool, bool | None]]:
        """The branches of a condition that may be taken, and whether it holds; each is `idle` while it is looked at."""
        known, written = holds(self.found, test), holds(self.found, test, written=True)
        for branch in (True, False):
            if known is not (not branch):
                self.idle += written is (not branch)
                yield branch, known
                self.idle -= written is (not branch)

    def expressions(self, node: ast.AST, sure: bool, no_grad: bool) -> None:
        if isinstance(node, ast.IfExp):
            self.expressions(node.test, sure, no_grad)
            for branch, known in self._branches(node.test):
                self.expressions(node.body if branch else node.orelse, sure and known is branch, no_grad)
            return
        if isinstance(node, ast.BoolOp):
            for index, value in enumerate(node.values):
                self.expressions(value, sure and index == 0, no_grad)
                known = holds(self.found, value)
                if known is isinstance(node.op, ast.Or):
                    break
                sure = sure and known is not None
            return
        if isinstance(node, ast.Call):
            self._call(node, sure, no_grad)
        name = module_key(node)
        if name and isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Load):
            if name not in NEUTRAL:
                self.found.listed_uses.append(self._use(name, node, sure, no_grad))
        key = self.script.key_of(node)
        if key and sure and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            self.found.required.add(key)
        for child in children(node):
            self.expressions(child, sure, no_grad)

    def _call(self, node: ast.Call, sure: bool, no_grad: bool) -> None:
        if not self.computes or _on_host(node):
            return
        function = node.func
        if isinstance(function, ast.Attribute) and not self.script.key_of(function):  # `x.method(...)`
            if function.attr in NEUTRAL:
                return
            function = function.value
        for name in sorted(self.script.moves.meant(function) - {EVERYTHING}):
            name = name.rstrip(".")
            key = name.partition("[")[0]
            inside = (
                inner for inner in (*walk(function), *self.method.nodes) if self.script.key_of(inner) == key
            )
            where = next((inner for inner in inside if isinstance(inner, ast.expr)), function)
            path = name if name in self.found.recipe.nodes else key
            self.found.uses.append(replace(self._use(key, where, sure, no_grad), path=path))

    def _use(self, name: str, node: ast.expr, sure: bool, no_grad: bool) -> Use:
        return Use(name, node, self.method, sure, no_grad or self.no_grad, self.idle > 0)


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _on_host(node: ast.Call) -> bool:
    """Is what it gets put on the CPU on the spot?"""
    for argument in node.args:
        for inner in walk(argument):
            if isinstance(inner, ast.Attribute) and inner.attr in ("cpu", "numpy"):
                return True
            if isinstance(inner, ast.Constant) and inner.value == "cpu":
                return True
    return False


# --- what a script cannot do without ---------------------------------------------------------------


def _requirements(found: Usage) -> None:
    """Entries that are read with nothing around that asks for them first."""
    script = found.script
    asked = _asked(script)
    for node in script.file.source.of_kind(ast.Subscript):
        if isinstance(node.ctx, ast.Load):
            key = script.key_of(node)
            if key and key not in asked and not _guarded(script, node):
                found.required.add(key)
    found.required -= asked
    found.required_modules = {use.name for use in found.listed_uses if use.sure} - asked


def _asked(script: Script) -> set[str]:
    """The names that the script asks for with `in` or `hasattr`."""
    source = script.file.source
    compared = (one for one in source.of_kind(ast.Compare) if isinstance(one.ops[0], (ast.In, ast.NotIn)))
    calls = (call for call in source.calls_by_name.get("hasattr", ()) if len(call.args) == 2)
    names = [*(one.left for one in compared), *(call.args[1] for call in calls)]
    return {one.value for one in names if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _guarded(script: Script, node: ast.AST) -> bool:
    """Is it in a branch that need not be taken?"""
    source = script.file.source
    around = source.enclosing(node, ast.If, ast.IfExp, ast.Try, ast.ExceptHandler)
    while isinstance(around, ast.If) and "__name__" in source.code(around.test):
        around = source.enclosing(around, ast.If, ast.IfExp, ast.Try, ast.ExceptHandler)
    return around is not None
