"""What is said of one hard-coded accelerator."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Flag, auto

from devfix.findings import Edit, Elsewhere, Safety, Span


class Cure(Flag):
    """Which runs a fix is for: those without CUDA, and those of values on another GPU than the current one."""

    ABSENT = auto()
    OTHER = auto()


@dataclass(frozen=True, eq=False)
class Verdict:
    """A place that names CUDA, what is wrong with it, and the edits that mend it, if any.

    - `code` is the place as it stands, `why` goes on from it: "`code` goes to CUDA, but ...".
    - `device` is the expression that belongs there, empty where the fix has another form.
    - `elsewhere` is what the fix does in other files.
    - `told`: a condition, or a move that follows at once, says where it goes.
    - `cure` counts for what is safe: a safe fix has to cure something.
    - `sites` are the places without a condition that it mends, or under that of there being CUDA.
    - `node` is the other side: what the value meets, or where the device comes from.
    """

    span: Span
    code: str
    device: str
    why: str
    edits: tuple[Edit, ...]
    safety: Safety
    node: ast.AST | None = None
    title: str = ""
    elsewhere: tuple[Elsewhere, ...] = ()
    told: bool = False
    cure: Cure = Cure.ABSENT
    sites: tuple[ast.expr, ...] = ()
