"""Statements: bindings, branches, loops, and what leaves a block."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from devfix.engine.events import RETURNED
from devfix.engine.evidence_of_modules import is_class_name
from devfix.engine.files import Function
from devfix.engine.globals import declare
from devfix.engine.joins import element
from devfix.engine.places import AT_DEFAULT, DIFFERENT, IN, NOWHERE, VAR, Place
from devfix.engine.state import merge
from devfix.engine.transfer.loops import Loops
from devfix.engine.values import (
    ANYTHING,
    CLASS,
    DEVICE,
    FUNCTION,
    LIBRARY_CALL,
    LOADER,
    MODULE,
    NONE,
    NOTHING,
    OBJECT,
    RESULT,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Assumption,
    Value,
)

_PLAIN = frozenset({"staticmethod", "no_grad", "inference_mode", "jit", "script"})  # decorators


class Run(Loops):
    def block(self, body: list[ast.stmt]) -> None:
        """Interpret statements, one after the other."""
        state = self.state
        for one in body:
            if state.dead:
                return
            self.statement = one
            handler = _HANDLERS.get(one.__class__)
            if handler is not None:
                handler(self, one)

    # --- bindings ------------------------------------------------------------------------

    def _expression(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        if value.kind == UNKNOWN and isinstance(node.value, ast.Call):
            value = self._given_back(node.targets[0], node.value) or value
        for target in node.targets:
            self.bind(target, value, node.value)

    def _given_back(self, target: ast.expr, call: ast.Call) -> Value | None:
        """`x, mask = f(x, mask)`: a function out of sight gives back what it gets, in some other form."""
        names = [one.id for one in call.args if isinstance(one, ast.Name)]
        if isinstance(target, ast.Name) and target.id in names[:1]:
            if is_class_name(self.file.source.code(call.func).rpartition(".")[2]):
                return None  # a wrapper may place what the module gets
            module = self.lookup(target.id) or ANYTHING
            return module if module.kind == MODULE and not self.where(module).on_host else None
        if (
            not isinstance(target, ast.Tuple)
            or len(names) < 2
            or names != [one.id for one in target.elts if isinstance(one, ast.Name)]
        ):
            return None
        assumed = frozenset({Assumption(LIBRARY_CALL, f"{self.file.source.code(call.func)}()")})
        held = [self.lookup(name) or ANYTHING for name in names]
        return Value(SEQUENCE, items=tuple([one.but(assumed=one.assumed | assumed, role="") for one in held]))

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.annotated(self.eval(node.value), node.annotation), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        old, new = self.eval(node.target), self.eval(node.value)
        if old.kind == MODULE and new.kind == SEQUENCE:
            self.extended(node, old, new)
            return
        made = self.operate(node, old, new, node.target, node.value, node.op)
        if old.kind == TENSOR:
            made = old if old.place.kind != "unknown" or made.kind != TENSOR else made
        self.bind(node.target, made, node.value)

    # --- control -------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> None:
        value = self.eval(node.value) if node.value is not None else NOTHING
        if node.value is not None and not isinstance(node.value, ast.Call):
            self.note(RETURNED, node.value, value, node.value)
        if value.kind in (TENSOR, SEQUENCE):
            self.agree(node, value)
        if self.loaded and node.value is not None and (value.kind == MODULE or value.role == "instance"):
            self._agrees_with_weights(node.value, value)
        self.returns.append((value, self.state.copy()))
        self.state.dead = True

    def _agrees_with_weights(self, node: ast.expr, module: Value) -> None:
        """A function maps weights to the device that it is told, and returns the module that got them on the CPU."""
        place = self.loaded.get(module.ref, NOWHERE)
        if module.role == "instance":
            module = module.but(kind=MODULE, place=Place(IN, module.ref), role="")
        if place.kind == VAR and self.function is not None and self.where(module).on_host:
            if isinstance(place.key, tuple) and place.key[:2] == ("parameter", id(self.function.node)):
                anchor = Value(DEVICE, place), node, place
                stray = module, node, self.where(module)
                self.report(
                    node, "the result", DIFFERENT, stray, anchor, module.assumed | {Assumption(RESULT)}
                )

    def _leave(self, node: ast.stmt) -> None:
        if self.loops:
            self.loops[-1].append(self.state.copy())
        self.state.dead = True

    def _raise(self, node: ast.stmt) -> None:
        self.state.dead = True

    def _try(self, node: ast.Try) -> None:
        state = self.state
        before = state.copy()
        self.block(node.body)
        if not state.dead:
            self.block(node.orelse)
        ends = [] if state.dead else [state.copy()]
        after = state.copy()
        for handler in node.handlers:
            start = before.copy()
            raised = after.copy()
            raised.dead = False
            state.take(merge(start, raised))
            state.path = before.path
            if handler.name:
                state.names[handler.name] = ANYTHING
            self.block(handler.body)
            if not state.dead:
                ends.append(state.copy())
        if ends:
            joined = ends[0]
            for one in ends[1:]:
                joined = merge(joined, one)
            state.take(joined)
            self._imported_otherwise(node)
        else:
            state.dead = True
        if node.finalbody:
            dead, state.dead = state.dead, False
            self.block(node.finalbody)
            state.dead = state.dead or dead

    def _imported_otherwise(self, node: ast.Try) -> None:
        """What is imported, or else None, is what is imported; of two functions in view it may be either."""
        origins: dict[str, set[tuple[str | None, str]]] = {}
        every = (*node.body, *(one for handler in node.handlers for one in handler.body))
        for one in (one for one in every if isinstance(one, ast.ImportFrom)):
            for alias in one.names:
                origins.setdefault(alias.asname or alias.name, set()).add((one.module, alias.name))
        for name, found in origins.items():
            if len(found) > 1 and self.file.imported(self.file.source.imports.get(name, "")) is not None:
                self.state.names[name] = ANYTHING
            elif (kept := self.state.names.get(name)) is not None and kept.kind == NONE:
                self.state.names.pop(name)

    def _with(self, node: ast.With) -> None:
        kept, autocasts = self.default, len(self.analysis.entered)
        opened: list[tuple[ast.expr, Value]] = []
        for item in node.items:
            value = self.eval(item.context_expr)
            given = self.special(item.context_expr, value, "__enter__")
            if given is not None:
                opened.append((item.context_expr, value))
            elif value.kind == SEQUENCE and not self.is_progress_bar(item.context_expr):
                given = element(value)  # what a generator yields that is made a context
            self.analysis.entered += self.entered(value, item.context_expr)
            if value.kind == DEVICE:
                self.default = self.state.resolve(value.place)
                if self.default.kind == "cpu":
                    self.default = AT_DEFAULT
            elif isinstance(item.context_expr, ast.Call):
                name = self.file.dotted(item.context_expr.func)
                if name.rpartition(".")[2] in _DEVICE_CONTEXTS:
                    self.default = NOWHERE
            if item.optional_vars is not None:
                self.bind(
                    item.optional_vars,
                    given or (value if value.kind in (OBJECT, MODULE, LOADER, SEQUENCE) else ANYTHING),
                    item.context_expr,
                )
        self.block(node.body)
        for at, value in reversed(opened):
            self.special(at, value, "__exit__", [(NOTHING, at)] * 3)
        self.default = kept
        del self.analysis.entered[autocasts:]

    def _match(self, node: ast.Match) -> None:
        self.device_matched(node, self.eval(node.subject))
        state = self.state
        before, ends = state.copy(), []
        for case in node.cases:
            state.take(before.copy())
            for one in ast.walk(case.pattern):
                name = getattr(one, "name", None)
                if isinstance(name, str):
                    state.names[name] = ANYTHING
            self.block(case.body)
            if not state.dead:
                ends.append(state.copy())
        joined = before
        for end in ends:
            joined = merge(joined, end)
        state.take(joined)

    def _assert(self, node: ast.Assert) -> None:
        test = self.test(node.test)
        self.assume(test.if_true, test.true_names)
        self.state.dead = self.state.dead or test.decided is False

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = self.file.of_node.get(node)
        if not isinstance(function, Function):
            return
        value = Value(FUNCTION, ref=function)
        if self.function is not None:
            self.analysis.closures[id(value)] = self
            self.analysis.kept.append(value)
        if not _PLAIN.issuperset(function.decorators):
            for one in node.decorator_list:
                self.eval(one)
        for default in function.defaults.values() if self.function is None else ():
            if isinstance(default, ast.Name):
                self.analysis.defined[default] = self.analysis.constant(self.file, default)
        self.state.names[node.name] = value

    def _define_class(self, node: ast.ClassDef) -> None:
        made = self.file.of_node.get(node)
        if made is not None:
            self.state.names[node.name] = Value(CLASS, ref=made)

    def _global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            if self.function is not None:
                declare(self, name, isinstance(node, ast.Nonlocal))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.state.names.pop(name, None)
            if self.function is None and self.analysis.is_device_name(name.lower()):
                self.named(name, node)


_DEVICE_CONTEXTS = frozenset(
    {"init_empty_weights", "init_on_device", "deferred_init", "FakeTensorMode", "DeviceContext"}
)
_HANDLERS: dict[type[ast.stmt], Callable[[Any, Any], None]] = {
    ast.Expr: Run._expression, ast.Assign: Run._assign, ast.AnnAssign: Run._annotated, ast.AugAssign: Run._augmented,
    ast.Return: Run._return, ast.If: Run.branch, ast.For: Run.each, ast.AsyncFor: Run.each, ast.While: Run.repeat,
    ast.Break: Run._leave, ast.Continue: Run._leave, ast.Raise: Run._raise, ast.Try: Run._try, ast.With: Run._with,
    ast.AsyncWith: Run._with, ast.Match: Run._match, ast.Assert: Run._assert, ast.FunctionDef: Run._define,
    ast.AsyncFunctionDef: Run._define, ast.ClassDef: Run._define_class, ast.Delete: Run._delete,
    ast.Global: Run._global, ast.Nonlocal: Run._global,
    ast.Import: Run._import, ast.ImportFrom: Run._import,
}  # fmt: skip
