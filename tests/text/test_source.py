"""What a source finds below a node."""

from __future__ import annotations

import ast

from devfix.text.source import Source

BLOCKS = """
class Net:
    size: int = 1
    def forward(self, x):
        for one in x:
            x = 1
        else:
            x = 2
        while x:
            x = 3
            x += 4
        try:
            with x as y, y:
                x = (5 if y else 6, lambda: [z for z in y])
        except ValueError:
            x = 7
        except TypeError:
            def inner():
                x = 8
        else:
            x = 9
        finally:
            x = 10
        match x:
            case 1 if y:
                x = 11
            case _:
                print(12)
        if x:
            x = 13
        elif y:
            x = 14
        else:
            print(15)
"""


def test_statements_are_found_in_the_order_of_a_walk() -> None:
    source = Source(BLOCKS)
    for root in source.walk():
        for kind in (ast.Assign, ast.Expr, ast.AugAssign, ast.FunctionDef, ast.stmt):
            walked = tuple(one for one in source.walk(root) if isinstance(one, kind))
            assert source.of_kind(kind, root) == walked
