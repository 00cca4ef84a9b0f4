"""When is a repair as good as the right program, though it is written in another way?

For programs that do not run by themselves. Two texts are alike if they are the same code once

- values of `device=` and `map_location=` are left out, since there are several names for one device;
- `register_buffer("x", value)` is written `x = value` and `register_buffer("x", x)`, persistent or not;
- for bugs that are a missing move: all moves to devices are taken away, and the same things are moved in
  the same functions. Where a move stands is looked at where its place is the bug.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mutations.edits import moved

_MOVE_KINDS = frozenset(
    {
        "drop a loop's moves",
        "drop one of several moves",
        "drop the result of a tensor's .to",
        "drop a module's .to",
    }
)
Moves = set[tuple[str, str]]  # function, what is moved


def alike(kind: str, left: str, right: str) -> bool:
    """Is the repaired text of a mutant as good as the right one?"""
    one, other = _normal(kind, left), _normal(kind, right)
    return one == other


def _normal(kind: str, text: str) -> tuple[str, Moves]:
    tree = ast.parse(text)
    normal = _Normal(moves=kind in _MOVE_KINDS)
    return ast.dump(normal.visit(tree)), normal.found


class _Normal(ast.NodeTransformer):
    """Brings a tree into the form that is compared; `found` are the moves that were taken away."""

    def __init__(self, *, moves: bool) -> None:
        self.moves = moves
        self.found: Moves = set()
        self._function = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around, self._function = self._function, f"{self._function}.{node.name}"
        self.generic_visit(node)
        self._function = around
        node.body = node.body or [ast.Pass()]
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg in ("device", "map_location"):
            return ast.keyword(arg=node.arg, value=ast.Constant(value=0))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        value = moved(node) if self.moves else None
        if value is not None:
            self.found.add((self._function, ast.unparse(value)))
            return self.visit(value)  # type: ignore[no-any-return]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "ModuleList" and node.args:
            held = node.args[0]
            if isinstance(held, ast.GeneratorExp):
                node.args[0] = ast.ListComp(elt=held.elt, generators=held.generators)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        if len(node.targets) != 1 or not self.moves:
            return node
        targets, values = _parts(node.targets[0]), _parts(node.value)
        if len(targets) != len(values):
            return node
        kept = [(t, v) for t, v in zip(targets, values, strict=True) if ast.unparse(t) != ast.unparse(v)]
        return None if not kept else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | Sequence[ast.AST] | None:
        before = len(self.found)
        self.generic_visit(node)
        if isinstance(node.value, (ast.Name, ast.Attribute)) and len(self.found) > before:
            return None
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return node
        if call.func.attr != "register_buffer" or not isinstance(call.args[0], ast.Constant):
            return node
        name = str(call.args[0].value)
        value = call.args[1] if len(call.args) > 1 else call.keywords[0].value
        register = ast.Call(
            func=call.func, args=[call.args[0], ast.Name(id=name, ctx=ast.Load())], keywords=[]
        )
        if isinstance(value, ast.Name) and value.id == name:
            return ast.Expr(value=register)
        made = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value, lineno=0)
        return [made, ast.Expr(value=register)]


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else [node]
