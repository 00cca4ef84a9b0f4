"""Follows one argument of a module through its methods, to see whether it meets what the module has.

Statement by statement, with what the call says of its flags: `if not test:` is not entered where
`test=True` is given. Values are sets of marks; where two ways come together, both marks stay.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from devfix.inputs.classes import Function, Method, Written
from devfix.inputs.kinds import Marks, Operations
from devfix.placing import dotted
from devfix.source import children

NOTHING: Marks = frozenset()
_DEPTH = 6
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Constants = dict[str, object]


@dataclass(eq=False)
class Seen:
    """What was seen of the argument on all ways."""

    met: bool = False  # with a parameter, a submodule or what one of them gives
    unseen: bool = False  # handed to something out of sight
    kept: bool = False  # it comes out again, or it may have met something as a number
    host: bool = False  # read where only the CPU will do
    stack: list[Function] = field(default_factory=list)


class Trace(Operations):
    """One method, with what its parameters are."""

    def __init__(
        self, owner: Written, found: Method, names: dict[str, Marks], constants: Constants, seen: Seen
    ) -> None:
        self.owner = owner  # the class of `self`
        self.source = found[0].source
        self.method = found[1]
        self.names = names
        self.constants = constants
        self.seen = seen
        self.returned: Marks = NOTHING
        self.dead = False

    def run(self) -> Marks:
        """What the method returns."""
        self.seen.stack.append(self.method)
        self.block(self.method.body)
        self.seen.stack.pop()
        return self.returned

    def enter(self, owner: Written, found: Method, node: ast.Call) -> Marks | None:
        """Follow a call of a method in sight; None where its arguments cannot be told apart."""
        method = found[1]
        if method in self.seen.stack or len(self.seen.stack) >= _DEPTH:
            return None
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)
        given = bind(method, node, not static)
        if given is None:
            return None
        names, constants = dict[str, Marks](), defaults(method)
        for name, argument in given.items():
            constants.pop(name, None)
            names[name] = self.ev(argument)
            known, value = self._constant(argument)
            if known:
                constants[name] = value
        return Trace(owner, found, names, constants, self.seen).run()

    def _constant(self, node: ast.expr) -> tuple[bool, object]:
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Name) and node.id in self.constants:
            return True, self.constants[node.id]
        return False, None

    # --- statements ----------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.dead:
                return
            getattr(self, f"_{type(statement).__name__.lower()}", self._other)(statement)

    def _other(self, node: ast.stmt) -> None:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            return
        for child in children(node):
            if isinstance(child, ast.expr):
                self.ev(child)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, name, None), list):
                self.block(getattr(node, name))
        self.dead = self.dead or isinstance(node, _ENDS)

    def _return(self, node: ast.Return) -> None:
        self.returned |= self.ev(node.value) if node.value is not None else NOTHING
        self.dead = True

    def _assert(self, node: ast.Assert) -> None:
        """Whatever it says, it holds."""

    def _assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.ev(node.value), node.value)

    def _augassign(self, node: ast.AugAssign) -> None:
        value = self.meet([self.ev(node.target), self.ev(node.value)])
        self.assign(node.target, value, None)

    def assign(self, target: ast.expr, value: Marks, made: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            several = made.elts if isinstance(made, (ast.Tuple, ast.List)) else []
            for at, one in enumerate(target.elts):
                item = several[at] if len(several) == len(target.elts) else None
                self.assign(one, self.ev(item) if item is not None else value, item)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, None)
        elif isinstance(target, ast.Subscript):
            self.ev(target.slice)
            path = dotted(target.value)
            if path and "D" not in self.ev(target.value):
                self.names[path] = self.names.get(path, NOTHING) | value
        elif path := dotted(target):
            self.names[path] = value
            self.constants.pop(path, None)
            if isinstance(made, ast.Constant):
                self.constants[path] = made.value
            if path.startswith("self.") and value & {"T", "F"}:
                self.seen.kept = True

    def _if(self, node: ast.If) -> None:
        holds = self.truth(node.test)
        self.ev(node.test)
        if holds is not None:
            self.block(node.body if holds else node.orelse)
            return
        start, constants = self.names, self.constants
        ends: list[tuple[dict[str, Marks], Constants]] = []
        for arm in (node.body, node.orelse):
            self.names, self.constants, self.dead = dict(start), dict(constants), False
            self.block(arm)
            if not self.dead:
                ends.append((self.names, self.constants))
        self.dead = not ends
        self.names, self.constants = _joined(ends) if ends else (start, constants)

    def _for(self, node: ast.For) -> None:
        self._loop(node.body, lambda: self.iterate(node.target, node.iter))
        self.block(node.orelse)

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        self.ev(node.test)
        if self.truth(node.test) is not False:
            self._loop(node.body, lambda: None)
        self.block(node.orelse)

    def _loop(self, body: list[ast.stmt], bind_target: Callable[[], None]) -> None:
        for _ in range(2):
            before = dict(self.names), dict(self.constants)
            bind_target()
            self.block(body)
            self.names, self.constants = _joined([before, (self.names, self.constants)])
            self.dead = False

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            self.ev(item.context_expr)
        self.block(node.body)

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        before = dict(self.names), dict(self.constants)
        self.block([*node.body, *node.orelse])
        for handler in node.handlers:
            self.names, self.constants = _joined([before, (self.names, self.constants)])
            self.dead = False
            self.block(handler.body)
        self.dead = False
        self.block(node.finalbody)

    # --- conditions ----------------------------------------------------------------------

    def truth(self, test: ast.expr) -> bool | None:
        """Does a condition hold in this call, as far as its text and the arguments tell?"""
        known, value = self._constant(test)
        if known:
            return bool(value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            parts = [self.truth(part) for part in test.values]
            ends = isinstance(test.op, ast.Or)
            if ends in parts:
                return ends
            return None if None in parts else not ends
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        return None

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        (known, one), (also, other) = self._constant(left), self._constant(right)
        same: bool | None = None
        if known and also and isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            same = one == other
        elif also and other is None and self.names.get(dotted(left), NOTHING) & {"T", "D"}:
            same = False  # it is a tensor
        return same if same is None or isinstance(op, (ast.Is, ast.Eq)) else not same


def bind(method: Function, node: ast.Call, bound: bool) -> dict[str, ast.expr] | None:
    """The parameters of a method with the arguments of a call; None where they cannot be told apart."""
    arguments = method.args
    plain = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][1 if bound else 0 :]
    known = {*plain, *(one.arg for one in arguments.kwonlyargs)}
    if any(isinstance(argument, ast.Starred) for argument in node.args) or len(node.args) > len(plain):
        return None
    given = dict(zip(plain, node.args, strict=False))
    rest: list[ast.expr] = []
    for keyword in node.keywords:
        if keyword.arg is None or (keyword.arg not in known and arguments.kwarg is None):
            return None
        if keyword.arg in known:
            given[keyword.arg] = keyword.value
        else:
            rest.append(keyword.value)
    if rest and arguments.kwarg is not None:
        given[arguments.kwarg.arg] = ast.Tuple(rest, ast.Load())
    return given


def defaults(method: Function) -> Constants:
    """The parameters whose defaults are constants, with those."""
    arguments = method.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = []
    if arguments.defaults:
        pairs += zip(plain[-len(arguments.defaults) :], arguments.defaults, strict=True)
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {one.arg: default.value for one, default in pairs if isinstance(default, ast.Constant)}


def _joined(ends: list[tuple[dict[str, Marks], Constants]]) -> tuple[dict[str, Marks], Constants]:
    names: dict[str, Marks] = {}
    for one, _ in ends:
        for name, marks in one.items():
            names[name] = names.get(name, NOTHING) | marks
    first = ends[0][1]
    missing = object()
    constants = {
        name: value
        for name, value in first.items()
        if all(other.get(name, missing) == value for _, other in ends)
    }
    return names, constants
