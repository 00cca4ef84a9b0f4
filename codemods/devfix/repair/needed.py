"""Is what holds state of a module used once the module is moved? If not, it does not matter where that is."""

from __future__ import annotations

import ast

from devfix.text.names import path_of
from devfix.text.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def used_after(source: Source, root: ast.AST, path: str, loaded: ast.AST, moved: ast.AST) -> bool:
    """May an optimizer, say, still be used after a move: there, or by what it is handed to on the way?

    `loaded` is where its state was filled; what has a dot in its name belongs to an object that others use.
    """
    if not path.isidentifier():
        return True
    end = source.span(source.statement(moved)).end
    function = source.enclosing(moved, *_FUNCTIONS)
    loop = source.enclosing(moved, *_LOOPS)
    again = loop is not None and source.enclosing(loop, *_FUNCTIONS) is function
    inside = source.span(loaded)
    for node in source.walk(root):
        if not isinstance(node, ast.Name) or node.id != path or not isinstance(node.ctx, ast.Load):
            continue
        at = source.span(node).start
        if at >= end or again or source.enclosing(node, *_FUNCTIONS) is not function:
            return True
        if inside.start <= at < inside.end or isinstance(source.parents.get(node), ast.Attribute):
            continue
        statement = source.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if [path_of(target) for target in targets] != [path]:
            return True  # handed on: `Trainer(model, optimizer)`
    return False
