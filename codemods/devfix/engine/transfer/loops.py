"""Branches and loops: which of their statements run, and what there is after them."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.engine.places import NOWHERE, asks_for, conditions
from devfix.engine.state import State, merge
from devfix.engine.transfer.conditions import Test, emptied
from devfix.engine.transfer.processes import Processes
from devfix.engine.values import ANYTHING, BATCH, LOADER, MAPPING, NUMBER, SEQUENCE, Value
from devfix.text.source import FUNCTIONS, FunctionNode, Source, remembered

_Loop = ast.For | ast.AsyncFor | ast.While
_NONE = frozenset[str]()
_PUTS = frozenset({"append", "appendleft", "add", "extend", "insert"})


class Loops(Processes):
    def branch(self, node: ast.If) -> None:
        """An `if`: the arm that is taken, or both."""
        test = self.test(node.test)
        if test.decided is not None:
            self.block(node.body if test.decided else node.orelse)
            self.skipped(node.orelse if test.decided else node.body)
            return
        self._branches(test, node.body, node.orelse, emptied(node.test), _stored_in(node))

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

        self._loop(node, start)
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
        self._loop(node, lambda _: self.assume([], test.true_names))

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

    def _loop(self, node: _Loop, start: Callable[[int], None]) -> None:
        """Twice, since a second round meets what the first one made; the second is skipped if it would do the same.

        In the second round of a loop around it, once.
        """
        state, body = self.state, node.body
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
                ends.append(state.copy())
            if not ends:
                final = before
                break
            made = ends[0]
            for one in ends[1:]:
                self._mixed_ends(made, one, body[0])
                made = merge(made, one)
            made.dead, made.path = False, path
            final = merge(final, made.copy()) if turn else made
            if turn or self.rounds or not (again or self._changed(node, before, made)):
                break
            state.take(made.copy())  # the second round goes on where the first one ended
        state.take(final)
        state.dead = False
        state.path = path
        self.block(node.orelse)

    def _changed(self, node: _Loop, before: State, after: State) -> bool:
        """Is anything that was there in another place after a round, and does a round meet it?"""
        fresh, filled = _NONE, _NONE
        if self.function is not None and not self.globals and not self.nonlocals:
            fresh, filled = _not_met(self.file.source, node, self.function.node)
        for name in before.names.changed(after.names):
            old, new = before.names.get(name), after.names.get(name)
            if old is None or new is None or new is old or name in fresh:
                continue
            same = new.kind == old.kind and new.place == old.place
            inside = new.rest is old.rest and new.items is old.items
            if not same or not (inside or (name in filled and new.kind in (SEQUENCE, MAPPING))):
                return True
        for cell in before.places.changed(after.places):
            if (place := before.places.get(cell)) is not None and place != after.places.get(cell):
                return True
        for key in before.heap.changed(after.heap):
            if (value := before.heap.get(key)) is not None and value is not after.heap.get(key):
                return True
        return False

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


@remembered
def _not_met(source: Source, node: _Loop, function: FunctionNode) -> tuple[frozenset[str], frozenset[str]]:
    """The names that each round binds before it reads them, and those that it only puts something into.

    Nothing is known of those of a function that defines others, which may read them.
    """
    if any(
        one is not function for kind in (*FUNCTIONS, ast.Lambda) for one in source.of_kind(kind, function)
    ):
        return _NONE, _NONE
    fresh, read = set[str](), set[str]()
    for one in source.of_kind(ast.Name, node.target) if not isinstance(node, ast.While) else ():
        fresh.add(one.id)
    for statement in node.body:
        puts = {
            call.func.value
            for call in source.of_kind(ast.Call, statement)
            if isinstance(call.func, ast.Attribute) and call.func.attr in _PUTS
        }
        changed = {one.target for one in source.of_kind(ast.AugAssign, statement)}
        for one in source.of_kind(ast.Name, statement):
            if one not in puts and (one in changed or not isinstance(one.ctx, ast.Store)):
                read |= {one.id} - fresh
        if isinstance(statement, ast.Assign):
            fresh |= {one.id for one in statement.targets if isinstance(one, ast.Name)} - read
    names = {one.id for one in source.of_kind(ast.Name, node)}
    return frozenset(fresh), frozenset(names - read)
