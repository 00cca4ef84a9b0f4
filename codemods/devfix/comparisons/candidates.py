"""The comparisons of a file that may be about devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.comparisons.kinds import TYPES
from devfix.engine.forms import WRONG_TYPES
from devfix.source import Source, walk
from devfix.spotting import lines_with, on_lines

EQUAL = (ast.Eq, ast.NotEq)
IN = (ast.In, ast.NotIn)
IS = (ast.Is, ast.IsNot)
_WORDS = TYPES | set(WRONG_TYPES)
_QUOTED = rf"[\"'](?:{'|'.join(sorted(_WORDS))})[\"':]"
# Several plain patterns: each is found faster than one for all of them.
_SPELLED = (
    re.compile("dev"),
    re.compile(rf"==\s*{_QUOTED}"),
    re.compile(rf"!=\s*{_QUOTED}"),
    re.compile(rf"in\s*[\[({{]\s*{_QUOTED}"),
    re.compile(r"startswith\("),
    *(re.compile(f"{word}[\"']\\s+(?:in|not|is|[=!]=)\\s") for word in ("cuda", "cpu", "mps")),
)
_SIGNS = ("==", "!=", " in ", " in\n", " is ", " is\n", "startswith(")


def candidates(source: Source) -> Iterator[ast.expr]:
    """Comparisons and `startswith` calls that may be about devices; cheap, since most files have none."""
    # A comparison has its sign on the line of such a word, or on the one above or below it.
    starts = [*source.line_starts, len(source.text)]
    lines = []
    for line in lines_with(source, *_SPELLED):
        near = source.text[starts[max(line - 2, 0)] : starts[min(line + 1, len(starts) - 1)]]
        if any(sign in near for sign in _SIGNS):
            lines.append(line)
    for node in on_lines(source.tree, lines):
        if isinstance(node, ast.Compare):
            against = node.comparators[0]
            if isinstance(against, ast.Constant) and _harmless(node.left, against.value):
                continue
            if len(node.ops) == 1 and isinstance(node.ops[0], (*EQUAL, *IN, *IS)):
                if any(_about_devices(part) for part in walk(node)):
                    yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "startswith" and len(node.args) == 1 and _about_devices(node.args[0]):
                yield node


def _harmless(left: ast.expr, value: object) -> bool:
    """`device is None`, `device.type == "cuda"`, `options.get("device") == "cpu"`: right, or no torch.device."""
    if not isinstance(value, str):
        return True
    if isinstance(left, ast.Attribute):
        return left.attr == "type" and value in TYPES
    return isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and left.func.attr == "get"


def _about_devices(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, str):
            return False
        return node.value == ":" or node.value.partition(":")[0] in _WORDS
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "dev" in name
