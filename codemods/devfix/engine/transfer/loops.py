"""Branches and loops: which of their statements run, and what there is after them."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.engine.events import moved_by
from devfix.engine.places import NOWHERE, asks_for, conditions
from devfix.engine.state import State, merge
from devfix.engine.transfer.conditions import Test
from devfix.engine.transfer.processes import Processes
from devfix.engine.values import ANYTHING, BATCH, LOADER, MAPPING, NUMBER, SEQUENCE, Value

MAX_ARMS = 100  # of a chain of `elif`, one in the `else` of the other; Python's stack is no place for more


class Loops(Processes):
    arms = 0

    def branch(self, node: ast.If) -> None:
        """An `if`: the arm that is taken, or both; what is bound or moved below a hundred others is not known."""
        if self.arms >= MAX_ARMS:
            self._forget(node)
            return
        self.arms += 1
        try:
            self._branch(node)
        finally:
            self.arms -= 1

    def _forget(self, node: ast.If) -> None:
        """Nothing is known any more of what an `if` that is not followed binds, or may move."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store):
                self.bind(one, ANYTHING, node)
            moved = moved_by(one)
            if isinstance(moved, ast.Name | ast.Attribute):
                self.escape(([(self.eval(moved), moved)], {}))

    def _branch(self, node: ast.If) -> None:
        test = self.test(node.test)
        if test.decided is not None:
            self.block(node.body if test.decided else node.orelse)
            self.skipped(node.orelse if test.decided else node.body)
            return
        self._branches(test, node.body, node.orelse, _emptied(node.test), _stored_in(node))

    def skipped(self, body: list[ast.stmt]) -> None:
        """What is not run, as far as is known."""

    def _branches(
        self,
        test: Test,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        emptied: tuple[str, bool] | None = None,
        stored_in: ast.expr | None = None,
    ) -> None:
        state = self.state
        before = state.copy()
        held = before.names.get(emptied[0]) if emptied is not None else None
        self.assume(test.if_true, test.true_names)
        self.block(body)
        stored = self.eval(stored_in) if stored_in is not None and not state.dead else ANYTHING
        then = state.aside()
        state.take(before)
        self.assume(test.if_false, test.false_names)
        self.block(orelse)
        if stored_in is not None and stored.kind == MAPPING:
            self.rebind(stored_in, stored)  # where it was not there, nobody reads it
        if state.dead:
            state.take(then)
        elif not then.dead:
            both = then, state.aside()
            if self.loops:
                self._mixed_ends(*both, body[0])
            if emptied is not None:  # what is empty is of no interest where the other arm has something
                name, holds = emptied
                none, some = both if holds else both[::-1]
                if none.names.get(name) is held and (value := some.names.get(name)) is not None:
                    none.names[name] = value
            state.take(merge(*(both[::-1] if test.is_negative else both), test.condition))

    def each(self, node: ast.For) -> None:
        """A `for` loop."""
        iterated = self.eval(node.iter)
        if iterated.kind == LOADER or iterated.kind == BATCH:
            inner = self.iterate(iterated, node)
        else:
            inner = self.iterate(iterated, node.iter)
        before = self.state.names.copy()
        counter = self._counter(node)

        def start(turn: int) -> None:
            self.bind(node.target, inner, node)
            if counter:
                number = self.state.names[counter] = Value(NUMBER)
                self.counters.known[counter] = number, turn == 0

        self._loop(node.body, node.orelse, start)
        self.counters.known.pop(counter, None)
        elements = {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
        for name in before.changed(self.state.names):  # what one element is tells nothing of all
            value = self.state.names.get(name)
            if value is not None and any(asks_for(one, elements) for one in conditions(value.place)):
                self.state.names[name] = value.but(place=NOWHERE)

    def repeat(self, node: ast.While) -> None:
        """A `while` loop."""
        test = self.test(node.test)
        if test.decided is False:
            return
        self._loop(node.body, node.orelse, lambda _: self.assume([], test.true_names))

    def _counter(self, node: ast.For) -> str:
        """The name that counts the rounds of a loop from 0: of `range(n)`, or `enumerate(xs)`; empty if none does."""
        call, target = node.iter, node.target
        while isinstance(call, ast.Call) and self.is_progress_bar(call) and call.args:
            call = call.args[0]
        if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
            return ""
        name = self.file.source.code(call.func)
        if name == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        elif name != "range":
            return ""
        return target.id if isinstance(target, ast.Name) else ""

    def _loop(self, body: list[ast.stmt], orelse: list[ast.stmt], start: Callable[[int], None]) -> None:
        """Twice, since a second round meets what the first one made; the second is skipped if it would do the same.

        In the second round of a loop around it, once.
        """
        state = self.state
        path, final = state.path, state
        for turn in (0, 1):
            before = state.copy()
            self.loops.append([])
            self.rounds += turn
            start(turn)
            asked, self.counters.asked = self.counters.asked, False
            self.block(body)
            again = self.counters.asked  # perhaps of a loop around
            self.counters.asked |= asked
            self.rounds -= turn
            ends = self.loops.pop()
            if not state.dead:
                ends.append(state.aside())  # it becomes another one below
            if not ends:
                final = before
                break
            made = ends[0]
            for one in ends[1:]:
                self._mixed_ends(made, one, body[0])
                made = merge(made, one)
            made.dead, made.path = False, path
            final = merge(final, made) if turn else made
            if turn or self.rounds or not (again or _changed(before, made)):
                break
            state.take(made.copy())  # the second round goes on where the first one ended
        state.take(final)
        state.dead = False
        state.path = path
        self.block(orelse)

    def _mixed_ends(self, one: State, other: State, node: ast.stmt) -> None:
        """`if not x: out.append(zeros(3)); continue`, and below `out.append(x)`: both are in one list."""
        for name in one.names.changed(other.names):
            a, b = one.names.get(name), other.names.get(name)
            if a is not None and b is not None and a.kind == b.kind == SEQUENCE and a.rest and b.rest:
                self.mixed(node, a.rest, b.rest, node)


def _stored_in(node: ast.If) -> ast.expr | None:
    """The mapping of `if key in kept: kept[key] = ...`, of which the other arm has no such entry."""
    test = node.test
    if node.orelse or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.In):
        return None
    entry = ast.dump(ast.Subscript(test.comparators[0], test.left, ast.Store()))
    last = node.body[-1]
    fills = isinstance(last, ast.Assign) and any(ast.dump(one) == entry for one in last.targets)
    return test.comparators[0] if fills else None


def _emptied(test: ast.expr) -> tuple[str, bool] | None:
    """`x` of a test for whether x has no elements, and whether it has none where the test holds."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = _emptied(test.operand)
        return None if found is None else (found[0], not found[1])
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        name = _counted(test)
        return (name, False) if name else None
    name, against = _counted(test.left), test.comparators[0]
    if not name or not isinstance(against, ast.Constant) or against.value not in (0, 1):
        return None
    forms = (ast.Eq, ast.Gt, ast.NotEq) if against.value == 0 else (ast.Lt, ast.GtE)
    return (name, isinstance(test.ops[0], (ast.Eq, ast.Lt))) if isinstance(test.ops[0], forms) else None


def _counted(node: ast.expr) -> str:
    """`x` of `len(x)`, `x.numel()`, `x.size(0)` and `x.shape[0]`; an empty string of anything else."""
    held: ast.expr | None = None
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "shape"
    ):
        held = node.value.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("numel", "nelement") or (node.func.attr == "size" and node.args):
            held = node.func.value
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args
    ):
        held = node.args[0]
    return held.id if isinstance(held, ast.Name) else ""


def _changed(before: State, after: State) -> bool:
    """Is anything that was there in another place after a round?"""
    for name in before.names.changed(after.names):
        old, new = before.names.get(name), after.names.get(name)
        if (
            old is not None
            and new is not None
            and new is not old
            and (
                new.kind != old.kind
                or new.place != old.place
                or new.rest is not old.rest
                or new.items is not old.items
            )
        ):
            return True
    for cell in before.places.changed(after.places):
        if (place := before.places.get(cell)) is not None and place != after.places.get(cell):
            return True
    for key in before.heap.changed(after.heap):
        if (value := before.heap.get(key)) is not None and value is not after.heap.get(key):
            return True
    return False
