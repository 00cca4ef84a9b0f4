"""What counts the rounds of a loop: 0 in the first one, more in later ones."""

from __future__ import annotations

import ast

from devfix.engine.values import Value

# What is compared with what, and whether that holds in the first round: `i == 0`, `i > 0`.
_FIRSTS: dict[tuple[type[ast.cmpop], object], bool] = {
    (ast.Eq, 0): True, (ast.NotEq, 0): False, (ast.Gt, 0): False, (ast.LtE, 0): True, (ast.GtE, 1): False,
    (ast.Lt, 1): True,
}  # fmt: skip


class Counters:
    """The names that count the rounds of the loops around, each with its value, and whether it is the first round.

    `asked`: whether a test has asked for that.
    """

    def __init__(self) -> None:
        self.known: dict[str, tuple[Value, bool]] = {}
        self.asked = False

    def holds(self, node: ast.expr, value: Value, op: type[ast.cmpop], number: object) -> bool | None:
        """Does a comparison of a counter with a number hold in this round? None where that is not known."""
        counter, is_first = (
            self.known.get(node.id, (None, False)) if isinstance(node, ast.Name) else (None, False)
        )
        if counter is not value or not isinstance(number, int) or (op, number) not in _FIRSTS:
            return None
        self.asked = True
        return _FIRSTS[op, number] is is_first
