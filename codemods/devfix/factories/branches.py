"""Branches and loops: what holds after them, whichever way was taken."""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace

from devfix.factories.expressions import Expressions
from devfix.factories.named import Names
from devfix.factories.values import HERE, OTHER, UNKNOWN, Anchor, Fact, Form, element, join
from devfix.flow.frame import path_of
from devfix.placing import about_devices


class Branches(Expressions):
    """Follows all ways, and joins what they leave."""

    dead: bool  # does nothing come here?
    looping: int  # how many loops around
    left: list[Names]  # what the arms of a loop that leave its round leave behind
    # What an `if` has left where a name or path is false, where it is true, and after both.
    arms: dict[str, tuple[Names, Names, Names]]

    @abstractmethod
    def block(self, statements: list[ast.stmt]) -> None:
        """Follow statements."""

    def _if(self, node: ast.If) -> None:
        self.ev(node.test)
        path, negated = _plain(node.test)
        start, dead = self.names, self.dead
        ends: list[Names] = []
        spans: list[tuple[int, int]] = []
        for arm, holds in ((node.body, True), (node.orelse, False)):
            self.names, self.dead = start.copy(), dead
            self._assume(node.test, holds)
            self._as_before(path, holds is not negated)
            first = len(self.meetings)
            self.block(arm)
            spans.append((first, len(self.meetings)))
            if not self.dead:
                ends.append(self.names)
        if len(ends) == 2 and self.looping:
            self._first_rounds(start, ends, spans)
        self.dead = not ends
        if not ends:
            self.names = start
        elif len(ends) == 1:
            self.names = ends[0]
        else:
            self.names = self._joined(ends[0], ends[1], about_devices(node.test))
            self._given_else(node.test, start)
            if path:
                yes, no = reversed(ends) if negated else ends
                self.arms[path] = no, yes, self.names.copy()

    def _as_before(self, path: str, holds: bool) -> None:
        """What was moved in this arm the last time that the condition was asked is moved in it now."""
        arms = self.arms.get(path)
        if arms is None or self.names.get(path) is not arms[2].get(path):
            return
        for name, fact in arms[holds].items():
            if fact.placed and arms[2][name].stray and self.names.get(name) is arms[2][name]:
                self.names[name] = fact

    def _given_else(self, test: ast.expr, start: Names) -> None:
        """`if x is None: x = something()`: whatever that is, a tensor may have been given."""
        path = _asked_for(test)
        before, after = start.get(path, UNKNOWN), self.names.get(path, UNKNOWN)
        if before.placed and before.anchor is not None and before.anchor.text == f"{path}.device":
            if after.form in (Form.UNKNOWN, Form.MAYBE) and after != HERE:
                self.names[path] = replace(before, anchor=replace(before.anchor, sure=False))

    def _first_rounds(self, start: Names, ends: list[Names], spans: list[tuple[int, int]]) -> None:
        """`if first: out = x else: out = cat((out, x))`: what `out` was before the loop is not used."""
        for own, other in ((0, 1), (1, 0)):
            unused = frozenset(
                origin
                for name, fact in start.items()
                if fact.stray and ends[other].get(name, UNKNOWN).placed
                for origin in fact.origins
            )
            within = [m for m in self.meetings[spans[other][0] : spans[other][1]] if m.origins & unused]
            if unused and not within:
                first, last = spans[own]
                kept = [m for m in self.meetings[first:last] if not m.origins & unused]
                self.meetings[first:last] = kept
                if own == 0:
                    spans[1] = (
                        spans[1][0] - (last - first) + len(kept),
                        spans[1][1] - (last - first) + len(kept),
                    )

    def _joined(self, one: Names, two: Names, devices: bool = False) -> Names:
        result = one.copy()
        for name, b in two.items():
            a = one.get(name)
            if a is b:
                continue
            if a is None:
                result[name] = b  # bound on one way only: where it is read, that way was taken
            elif devices and a.origins != b.origins:
                result[name] = _chosen(name, a if not a.origins else b if not b.origins else UNKNOWN)
            else:
                result[name] = join(a, b) if devices else _either(name, a, b) or join(a, b)
        return result

    def _assume(self, test: ast.expr, holds: bool) -> None:
        """What a condition tells of a name: `isinstance(x, torch.Tensor)`, `x is None`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._assume(test.operand, not holds)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) is holds:
                for part in test.values:
                    self._assume(part, holds)
        elif isinstance(test, ast.Call) and test.args:
            path, name = path_of(test.args[0]), path_of(test.func)
            if not path or name not in ("isinstance", "torch.is_tensor"):
                return
            tensor = name != "isinstance" or "Tensor" in self.source.code(test.args[1])
            if (holds and not tensor) or (tensor and not holds):
                self.names[path] = OTHER
            elif tensor and self.names.get(path, UNKNOWN).form is Form.MAYBE:
                self.names[path] = Fact(Form.TENSOR, anchor=Anchor(f"{path}.device", False))
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            empty = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
            path = path_of(test.left)
            if empty and path and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
                if isinstance(test.ops[0], ast.Is) is holds:
                    self.names[path] = OTHER

    def _for(self, node: ast.For) -> None:
        iterated = self.ev(node.iter)
        before = self.names.copy()
        self.assign(node.target, element(iterated))
        self.hold(node.target, node.iter, iterated=True)
        self._round(node.body)
        self._after_loop(before, node.orelse)

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        self.ev(node.test)
        before = self.names.copy()
        self._round(node.body)
        if isinstance(node.test, ast.Constant) and node.test.value:
            before = self.names  # the body runs at least once
        self._after_loop(before, node.orelse)

    def _continue(self, node: ast.stmt) -> None:
        self.left.append(self.names)
        self.dead = True

    _break = _continue

    def _round(self, body: list[ast.stmt]) -> None:
        """The body of a loop; what was put into a list is there in the next round, however this one ends."""
        outer, self.left = self.left, []
        self.looping += 1
        self.block(body)
        self.looping -= 1
        for names in self.left:
            for name, fact in names.items():
                known = self.names.get(name)
                if known is not None and Form.LIST is fact.form is known.form and names is not self.names:
                    self.names[name] = join(known, fact)
        self.left = outer

    def _after_loop(self, before: Names, orelse: list[ast.stmt]) -> None:
        self.dead = False
        self.names = self._joined(self.names, before)
        self.block(orelse)


def _plain(test: ast.expr) -> tuple[str, bool]:
    """`self.x` of `self.x` and `not self.x`, and whether it is negated; empty for other conditions."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return path_of(test.operand), True
    return path_of(test), False


def _asked_for(test: ast.expr) -> str:
    """`x` of `x is None`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is):
        right = test.comparators[0]
        return path_of(test.left) if isinstance(right, ast.Constant) and right.value is None else ""
    return ""


def _chosen(name: str, value: Fact) -> Fact:
    """What a condition puts on a GPU, or not: `x.device` tells which, and `"cuda"` would not."""
    if (
        value.placed
        and value.anchor is not None
        and value.anchor.text.startswith('"')
        and name.isidentifier()
    ):
        return replace(value, anchor=Anchor(f"{name}.device", False))
    return value


def _either(name: str, a: Fact, b: Fact) -> Fact | None:
    """What was moved to a device in one arm and is elsewhere in the other: `x.device` is right for both."""
    for one, other in ((a, b), (b, a)):
        elsewhere = other.form is Form.TENSOR and other.anchor is None and not other.origins
        if one.placed and elsewhere and name.isidentifier():
            return replace(one, anchor=Anchor(f"{name}.device", False), flat=None, filled=None)
    return None
