"""How large a program may be: what is larger is left out, and the report says so.

The time of every analysis grows about as the text does (`benchmarks/growth.py`), up to these sizes. Programs that
people write are far smaller; those that programs write can be as large as memory allows.
"""

from __future__ import annotations

import ast
import re

STATEMENTS = 10_000  # of a function, or of a file outside of its functions
FUNCTIONS = 10_000  # of a file, methods included
DEPTH = 1_000  # classes of a file that derive from each other
MISMATCHES = 5_000  # values of a file that meet others on another device
CUT = f"more than {MISMATCHES:,} values meet others that are on another device; the rest is left out"
ENTRIES = 30_000  # of a recipe, those of its mappings included

_LINES = re.compile(r"[\r\n;]")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class TooLarge(ValueError):
    """A file is left out; the message says what of it is too large."""


def check(text: str, tree: ast.Module) -> None:
    """Raises TooLarge for a file that is not analysed."""
    if sum(1 for _ in _LINES.finditer(text)) < DEPTH:
        return  # nothing of it can be too large
    functions = 0
    classes: dict[str, ast.ClassDef] = {}
    todo: list[ast.Module | ast.FunctionDef | ast.AsyncFunctionDef] = [tree]
    while todo:
        scope = todo.pop()
        count = 0
        inside: list[ast.AST] = [scope]
        while inside:
            node = inside.pop()
            for field in _BLOCKS:
                block = getattr(node, field, None)
                for one in block if block.__class__ is list else ():
                    count += isinstance(one, ast.stmt)
                    if isinstance(one, _FUNCTIONS):
                        functions += 1
                        todo.append(one)
                        continue
                    if isinstance(one, ast.ClassDef):
                        classes[one.name] = one
                    inside.append(one)
        if count > STATEMENTS:
            what = "the file has" if isinstance(scope, ast.Module) else f"the function `{scope.name}` has"
            where = " outside of functions" if isinstance(scope, ast.Module) else ""
            raise TooLarge(said(f"{what} {count:,} statements{where}", STATEMENTS))
    if functions > FUNCTIONS:
        raise TooLarge(said(f"the file has {functions:,} functions", FUNCTIONS))
    if len(classes) > DEPTH and (depth := _depth(classes)) > DEPTH:
        raise TooLarge(said(f"the file has {depth:,} classes that derive from each other", DEPTH))


def _depth(classes: dict[str, ast.ClassDef]) -> int:
    """How many classes derive from each other at most."""
    known: dict[str, int] = {}
    for first in classes:
        todo = [first]
        while todo:
            name = todo[-1]
            bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
            bases = [base for base in bases if base in classes]
            new = [base for base in bases if base not in known]
            if name not in known and new:
                known[name] = 0  # classes that derive from themselves
                todo += new
            else:
                todo.pop()
                known[name] = 1 + max((known[base] for base in bases), default=0)
    return max(known.values(), default=0)


def said(what: str, limit: int) -> str:
    """The message about something that is above a limit."""
    return f"{what}, of at most {limit:,} that devfix analyses; the file is left out"
