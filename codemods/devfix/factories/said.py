"""What is said of a call where no following is needed: the text around it shows it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.findings import Edit, Safety


@dataclass(frozen=True)
class Said:
    """A finding; it is not made where another was made inside of `within`."""

    node: ast.AST
    message: str
    title: str
    edits: tuple[Edit, ...]
    safety: Safety = Safety.UNSAFE
    within: ast.AST | None = None
