"""What counts the rounds of a loop: 0 in the first one, more in later ones."""

from __future__ import annotations

import ast

FIRST, LATER = "first", "later"  # roles of a number
# What is compared with what, and whether that holds in the first round: `i == 0`, `i > 0`.
_FIRSTS: dict[tuple[type[ast.cmpop], object], bool] = {
    (ast.Eq, 0): True, (ast.NotEq, 0): False, (ast.Gt, 0): False, (ast.LtE, 0): True, (ast.GtE, 1): False,
    (ast.Lt, 1): True,
}  # fmt: skip


def holds_in(role: str, op: type[ast.cmpop], number: object) -> bool | None:
    """Does a comparison of a counter hold in these rounds? None where that differs, or it is no counter."""
    if role not in (FIRST, LATER):
        return None
    found = _FIRSTS.get((op, number)) if isinstance(number, int) else None
    return found if found is None or role == FIRST else not found
