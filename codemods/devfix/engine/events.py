"""What can happen to a module."""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import dataclass, field

from devfix.engine.files import Function
from devfix.engine.places import Place
from devfix.engine.values import Value
from devfix.text.source import Source

MOVED, ATTACHED, FILLED, USED, HANDED, WRAPPED, OWNED, RETURNED = (
    "moved", "attached", "filled", "used", "handed", "wrapped", "owned", "returned"
)  # fmt: skip
MOVES = frozenset({"to", "cuda", "cpu", "xpu", "npu", "hpu", "ipu"})


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happens to a module, as a function of the file sees it.

    `what`: moved (to `place`), attached (`child` becomes a part), filled (it gets a
    parameter that is not on the CPU), used (a method, or its call, is run), handed (to code
    out of sight), wrapped, owned (a framework places it from now on) or returned. `stays`: what is attached, or else
    the module, is on the CPU until then. `name`: of the method, or of what gets it. `cells` are those of the module and
    of the modules that it is part of. `via`: the function in view in which it happens; `node` is the call of that,
    then. `path`: how the module is written; `device`: how the device is.
    """

    what: str
    node: ast.AST
    statement: ast.stmt
    function: Function | None
    module: Value
    cells: tuple[object, ...]
    path: str
    place: Place
    child: Value | None = None
    child_cells: tuple[object, ...] = ()
    stays: bool = False
    via: str = ""
    name: str = ""
    device: str = ""
    order: int = 0


@dataclass(eq=False)
class Surgery:
    """A group of arrivals in one module that one move would take along.

    `moves` are the moves of the module before them, in order; `used` those that something made
    use of before the arrivals, so that they must stay. `use` is the first use after them.
    """

    moves: list[Event]
    arrivals: list[Event]
    used: list[Event] = field(default_factory=list)
    use: Event | None = None


def moved_by(node: ast.AST, moves: Set[str] = MOVES) -> ast.expr | None:
    """`x` of a call `x.to(...)`, `x.cuda()` and their like, by these names; None of anything else."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr in moves else None


def may_move(source: Source) -> bool:
    """May a file move modules, or change them?"""
    return any(one in source.text for one in (".to(", ".cuda(", "setattr(", "_modules["))
