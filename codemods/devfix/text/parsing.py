"""The tree of a Python file, also of an older Python where only one word has become a keyword."""

from __future__ import annotations

import ast
import re

# `x.cuda(async=True)` of torch up to 0.4: Python 3.7 made a keyword of the word, and torch named it `non_blocking`.
_OLD_ARGUMENT = re.compile(r"(?<![\w.])async(?=\s*=(?!=))")
_AS_LONG = "Async"
_MOVES = frozenset({"cuda", "copy_", "to", "type"})


def parse(text: str) -> ast.Module:
    """The tree of a file; an argument called `async`, which Python 3.6 still takes, has another name in it.

    Raises what `ast.parse` raises: SyntaxError, ValueError (NUL), RecursionError, MemoryError.
    """
    try:
        return ast.parse(text)
    except SyntaxError:
        older = _OLD_ARGUMENT.sub(_AS_LONG, text)  # so that all positions are those of the file
        if older != text:
            try:
                return _renamed(ast.parse(older))
            except SyntaxError:
                pass  # then it is the first error that is worth telling
        raise


def _renamed(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
            for one in node.keywords:
                one.arg = "non_blocking" if one.arg == _AS_LONG else one.arg
    return tree
