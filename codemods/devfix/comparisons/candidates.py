"""The comparisons of a file that may be about devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.comparisons.kinds import TYPES
from devfix.source import Source

EQUAL = (ast.Eq, ast.NotEq)
IN = (ast.In, ast.NotIn)
IS = (ast.Is, ast.IsNot)
# Names that people write for a device type, and torch does not know.
WRONG_NAMES = {"gpu": "cuda", "GPU": "cuda", "CPU": "cpu", "CUDA": "cuda", "Cuda": "cuda", "MPS": "mps"}
_WORDS = TYPES | set(WRONG_NAMES)


def candidates(source: Source) -> Iterator[ast.expr]:
    """Comparisons and `startswith` calls that may be about devices; cheap, since most files have none."""
    for node in source.walk():
        if isinstance(node, ast.Compare):
            if len(node.ops) == 1 and isinstance(node.ops[0], (*EQUAL, *IN, *IS)):
                if any(_about_devices(part) for part in ast.walk(node)):
                    yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "startswith" and len(node.args) == 1 and _about_devices(node.args[0]):
                yield node


def _about_devices(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, str):
            return False
        return node.value == ":" or node.value.partition(":")[0] in _WORDS
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "dev" in name
