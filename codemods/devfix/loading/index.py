"""What a file calls, saves and assigns, found once for all of its loads."""

from __future__ import annotations

import ast
import re

from devfix.flow.frame import path_of
from devfix.source import Source, remembered


@remembered
def assigned(source: Source, scope: ast.AST) -> dict[str, list[ast.expr]]:
    """Name, or path -> what a scope binds to it."""
    found: dict[str, list[ast.expr]] = {}
    for node in source.of_kind(ast.Assign, scope):
        for path in dict.fromkeys(path_of(target) for target in node.targets):
            found.setdefault(path, []).append(node.value)
    return found


@remembered
def calls(source: Source) -> dict[str, list[ast.Call]]:
    """The calls of a file by the path that is called."""
    found: dict[str, list[ast.Call]] = {}
    for call in source.calls:
        found.setdefault(path_of(call.func), []).append(call)
    return found


@remembered
def saved(source: Source) -> dict[str, list[ast.Call]]:
    """The calls that save, by what they save to."""
    found: dict[str, list[ast.Call]] = {}
    for call in source.calls:
        if len(call.args) > 1 and source.qualified(call.func) in ("torch.save", "torch.jit.save"):
            found.setdefault(ast.dump(call.args[1]), []).append(call)
    return found


@remembered
def plain(source: Source) -> str:
    """The text of a file without comments."""
    return without_comments(source.text)


def without_comments(text: str) -> str:
    """A text without what follows a `#` on a line, be it in a string."""
    return re.sub(r"#.*", "", text)
