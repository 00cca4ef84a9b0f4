"""Which expression a name stands for at a place, inside of one function."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from devfix.names import Binding
from devfix.source import Source

_WITH = (ast.With, ast.AsyncWith)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def bound(source: Source, bindings: Mapping[str, Sequence[Binding]], use: ast.Name) -> Binding | None:
    """The binding that a read surely sees: as `Names.binding` has it, but what `with` holds always runs."""
    seen: Binding | None = None
    at, around = source.span(use).start, {use, *source.ancestors(use)}
    for binding in bindings.get(use.id, ()):
        statement: ast.AST | None = binding.statement
        if statement is None:
            seen = binding
        elif source.span(binding.target).start >= at:
            continue
        elif binding.form == "loop":
            seen = binding if statement in around else None
        elif statement not in around:
            up = source.parents[statement]
            while isinstance(up, _WITH):
                up = source.parents[up]
            seen = binding if up in around and binding.form in ("single", "unpack") else None
    return seen


def runs_over(source: Source, use: ast.Name, binding: Binding | None) -> ast.expr | None:
    """What a name is an element of: the `xs` of `for x in xs` and of `[x for x in xs]`, through enumerate and zip."""
    for up in source.ancestors(use):
        if isinstance(up, _COMPREHENSIONS):
            for part in up.generators:
                found = _element(part.target, part.iter, use.id)
                if found is not None:
                    return found
    loop = binding.statement if binding is not None and binding.form == "loop" else None
    return _element(loop.target, loop.iter, use.id) if isinstance(loop, ast.For) else None


def _element(target: ast.expr, over: ast.expr, name: str) -> ast.expr | None:
    if isinstance(target, ast.Name):
        return over if target.id == name else None
    if (
        not isinstance(target, ast.Tuple)
        or not isinstance(over, ast.Call)
        or not isinstance(over.func, ast.Name)
    ):
        return None
    parts: list[ast.expr] = list(over.args)
    if over.func.id == "enumerate" and len(target.elts) == 2 and parts:
        return _element(target.elts[1], parts[0], name)
    if over.func.id == "zip" and len(parts) == len(target.elts):
        for one, part in zip(target.elts, parts, strict=True):
            found = _element(one, part, name)
            if found is not None:
                return found
    return None
