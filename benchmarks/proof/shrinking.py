"""Delta debugging: a program with as few statements as show the same."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 60
Test = Callable[[Sequence[str]], "list[bool]"]  # which of these texts still show it


def shrunk(text: str, shows: Test) -> str:
    """The smallest text found that still shows what `text` shows: statements, and arms of branches, are dropped."""
    text = ast.unparse(ast.parse(text))
    size = max(1, len(_statements(ast.parse(text))) // 2)
    for _ in range(ROUNDS):
        count = len(_statements(ast.parse(text)))
        size = min(size, count)
        tried = [_without(text, range(start, min(start + size, count))) for start in range(0, count, size)]
        candidates = [one for one in dict.fromkeys(tried) if one is not None and one != text]
        if size == 1:
            candidates += [one for one in _flatter(text) if one != text]
        held = (
            [one for one, good in zip(candidates, shows(candidates), strict=True) if good]
            if candidates
            else []
        )
        if held:
            text = min(held, key=len)
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return text


def _statements(tree: ast.Module) -> list[ast.stmt]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.stmt) and not isinstance(one, ast.Pass)]


def _without(text: str, numbers: range) -> str | None:
    tree = ast.parse(text)
    gone = {id(one) for i, one in enumerate(_statements(tree)) if i in numbers}
    made = _Dropping(gone).visit(tree)
    try:
        return ast.unparse(made)
    except ValueError:
        return None


def _flatter(text: str) -> list[str]:
    """The text with a compound statement replaced by its body."""
    found = []
    kinds = (ast.If, ast.For, ast.With, ast.Try)
    count = sum(isinstance(one, kinds) for one in ast.walk(ast.parse(text)))
    for number in range(count):
        tree = ast.parse(text)
        chosen = [one for one in ast.walk(tree) if isinstance(one, kinds)][number]
        found.append(ast.unparse(_Dropping(set(), chosen).visit(tree)))
    return found


class _Dropping(ast.NodeTransformer):
    def __init__(self, gone: set[int], flat: ast.stmt | None = None) -> None:
        self.gone, self.flat = gone, flat

    def visit(self, node: ast.AST) -> Any:
        if id(node) in self.gone:
            return None
        self.generic_visit(node)
        if node is self.flat:
            return getattr(node, "body", None)
        if hasattr(node, "body") and isinstance(node.body, list) and not node.body:
            if not isinstance(node, ast.Module):
                node.body = [ast.Pass()]
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            return node.body
        return node
