"""Runs the statements of a method over the values of `values`; expressions are `meeting`'s."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

from devfix.registration import dims
from devfix.registration.classes import ModuleClass
from devfix.registration.signatures import parameters
from devfix.registration.stores import Method
from devfix.registration.values import UNKNOWN, Attribute, Env, Is, Val, join, join_all, listed

_DEPTH = 5


@dataclass(eq=False)
class Run:
    """One call being followed."""

    owner: ModuleClass | None
    function: Method
    env: Env
    returns: list[Val] = field(default_factory=list)


class Running(ABC):
    """Statements, branches and calls that are followed into."""

    def __init__(self) -> None:
        self._run: Run
        self._stack: list[Method] = []
        self._visited: set[Method] = set()
        # What the plain attributes are by now, as methods assign them again.
        self._held: dict[Attribute, Val] = {}

    @abstractmethod
    def _eval(self, node: ast.expr) -> Val:
        """What an expression is; meetings in it are noted."""

    @abstractmethod
    def _keep(self, target: ast.Attribute, value: Val) -> None:
        """An attribute is assigned."""

    @abstractmethod
    def _meet(self, node: ast.expr, values: list[Val]) -> Val:
        """What comes of values in one operation."""

    def _execute(self, owner: ModuleClass | None, function: Method, env: Env) -> Val:
        if function in self._stack or len(self._stack) >= _DEPTH:
            return UNKNOWN
        before = getattr(self, "_run", None)
        self._stack.append(function)
        self._visited.add(function)
        self._run = run = Run(owner, function, env)
        try:
            self._block(function.body)
        finally:
            self._stack.pop()
            if before is not None:
                self._run = before
        return join_all(run.returns)

    def _inline(
        self, owner: ModuleClass | None, function: Method, call: ast.Call, args: list[Val], skip: int
    ) -> Val:
        taken = parameters(function)[skip:]
        env: Env = {}
        if isinstance(function, ast.AsyncFunctionDef) or any(isinstance(a, ast.Starred) for a in call.args):
            return UNKNOWN
        for argument, value in zip(taken, args, strict=False):
            env[argument.arg] = value
        for keyword in call.keywords:
            if keyword.arg:
                env[keyword.arg] = self._eval(keyword.value)
        return self._execute(owner, function, env)

    def _block(self, body: list[ast.stmt]) -> bool:
        """Run statements; True where the end is not reached."""
        ended = [self._statement(statement) for statement in body[: _reach(body)]]
        return any(ended) or _ends(body)

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Assign):
            value = self._eval(node.value)
            for target in node.targets:
                self._bind(target, value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._bind(node.target, self._eval(node.value))
        elif isinstance(node, ast.AugAssign):
            made = self._meet(node.value, [self._eval_load(node.target), self._eval(node.value)])
            self._bind(node.target, made)
        elif isinstance(node, (ast.Expr, ast.Return)):
            if node.value is not None:
                value = self._eval(node.value)
                if isinstance(node, ast.Return):
                    self._run.returns.append(value)
        elif isinstance(node, ast.If):
            self._eval(node.test)
            self._branches(node.body, node.orelse)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._bind(node.target, self._element(self._eval(node.iter)))
            self._branches(node.body, [])
            self._block(node.orelse)
        elif isinstance(node, ast.While):
            self._eval(node.test)
            self._branches(node.body, [])
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._eval(item.context_expr)
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, UNKNOWN)
            return self._block(node.body)
        elif isinstance(node, ast.Try):
            self._branches([*node.body, *node.orelse], [])
            for handler in node.handlers:
                self._branches(handler.body, [])
            self._block(node.finalbody)
        elif isinstance(node, ast.Assert):
            self._eval(node.test)
        return False

    def _branches(self, one: list[ast.stmt], other: list[ast.stmt]) -> None:
        run = self._run
        start, held = run.env, self._held
        run.env, self._held = dict(start), dict(held)
        one_ends = self._block(one)
        first, first_held = run.env, self._held
        run.env, self._held = dict(start), dict(held)
        other_ends = self._block(other)
        if one_ends and not other_ends:
            return
        if other_ends and not one_ends:
            run.env, self._held = first, first_held
            return
        second, second_held = run.env, self._held
        run.env = {
            name: join(first.get(name, UNKNOWN), second.get(name, UNKNOWN)) for name in {*first, *second}
        }
        self._held = {name: join(value, second_held[name]) for name, value in first_held.items()}

    def _bind(self, target: ast.expr, value: Val) -> None:
        if isinstance(target, ast.Name):
            self._run.env[target.id] = value
        elif isinstance(target, ast.Attribute):
            self._keep(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, item in enumerate(target.elts):
                if isinstance(item, ast.Starred):
                    self._bind(item.value, UNKNOWN)
                elif value.items and len(value.items) == len(target.elts):
                    self._bind(item, value.items[index])
                else:
                    self._bind(item, self._element(value))

    def _element(self, value: Val) -> Val:
        """What iterating over a value, or taking one of its parts, gives."""
        if value.items:
            return join_all(list(value.items))
        if value.kind is Is.PLAIN:
            return replace(value, dim=value.dim - 1 if value.dim > 0 else dims.ANY)
        if value.kind is Is.MODULE:
            return replace(value, node=listed(value.node) or value.node)
        return value

    def _eval_load(self, node: ast.expr) -> Val:
        if isinstance(node, ast.Attribute):
            return self._eval(node)
        return self._run.env.get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN


def _ends(body: list[ast.stmt]) -> bool:
    return any(isinstance(s, (ast.Return, ast.Raise, ast.Continue, ast.Break)) for s in body)


def _reach(body: list[ast.stmt]) -> int:
    """How many statements of a block can run."""
    for index, statement in enumerate(body):
        if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            return index + 1
    return len(body)
