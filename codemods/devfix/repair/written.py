"""What is written where: expressions of a program that fixes from a run change, and the calls put behind them."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.findings import AppendCall, Edit, ReplaceExpression, WrapExpression
from devfix.reports.observed import Found
from devfix.text.source import COMPREHENSIONS, Source

_SHAPES = frozenset({"shape", "size", "dim", "ndim", "dtype", "numel"})


def put_behind(source: Source, node: ast.expr, found: Found, call: str) -> Edit:
    """A call behind an expression, or behind each item where it is a list or a dict of tensors."""
    if found.within == "items":
        return WrapExpression(source.span(node), f"[one{call} for one in ", "]")
    if found.within == "values":
        return WrapExpression(source.span(node), f"{{key: one{call} for key, one in ", ".items()}")
    return appended(source, node, call)


def appended(source: Source, node: ast.expr, call: str) -> Edit:
    """A call behind an expression."""
    whole = _written_anew(source, node, lambda code: f"{code}{call}")
    return whole or AppendCall(source.span(node), call)


def replaced(source: Source, node: ast.expr, text: str) -> Edit:
    """Another text in the place of an expression."""
    return _written_anew(source, node, lambda code: text) or ReplaceExpression(source.span(node), text)


def _written_anew(source: Source, node: ast.expr, change: Callable[[str], str]) -> Edit | None:
    """All of the f-string that an expression stands in, since edits do not reach into it; None if in none."""
    span = source.span(node)
    joined = source.enclosing(node, ast.JoinedStr)
    while (outer := source.enclosing(joined, ast.JoinedStr) if joined is not None else None) is not None:
        joined = outer
    if joined is None or not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return None
    code, around = source.text[span.start : span.end], source.span(joined)
    try:  # its positions are right on most versions of Python
        same = ast.dump(ast.parse(code, mode="eval").body) == ast.dump(node)
    except SyntaxError:
        same = False
    text, first, last = source.code(joined), span.start - around.start, span.end - around.start
    made = change(code)
    if made.count('"') > code.count('"') and '"' in text[:first]:  # until Python 3.12, quotes end the string
        made = made.replace('"', "'")
    if not same or "\\" in made or any(sign in text[:first] and sign in made for sign in "\"'"):
        return None
    return ReplaceExpression(around, f"{text[:first]}{made}{text[last:]}")


def is_move(node: ast.Call) -> bool:
    """Is it `x.to(where)` or `x.cuda()`, with nothing but how to copy?"""
    if not isinstance(node.func, ast.Attribute) or any(one.arg != "non_blocking" for one in node.keywords):
        return False
    return len(node.args) == 1 if node.func.attr == "to" else node.func.attr == "cuda" and len(node.args) < 2


def is_written(source: Source, node: ast.expr) -> bool:
    """Is an expression written to in place, so that a copy of it would not do: `node += 1`, `node[0].add_(x)`?"""
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return True
    around = source.parents.get(node)
    if isinstance(around, ast.Subscript) and around.value is node:
        return is_written(source, around)
    if not isinstance(around, ast.Attribute):
        return False
    called = source.parents.get(around)
    if not isinstance(called, ast.Call) or called.func is not around:
        return is_written(source, around)
    return _in_place(around)


def added(source: Source, node: ast.expr, operation: str) -> ast.expr | None:
    """What an operation adds to an expression in place: `value` of `node += value`, `node.mul_(2).add_(value)`."""
    around = source.parents.get(node)
    if isinstance(around, ast.AugAssign) and around.target is node:
        return around.value
    call = source.parents.get(around) if isinstance(around, ast.Attribute) and _in_place(around) else None
    if not isinstance(call, ast.Call) or not isinstance(around, ast.Attribute) or call.func is not around:
        return None
    if around.attr != operation:
        return added(source, call, operation)
    return call.args[0] if call.args else None


def written_place(node: ast.expr) -> ast.expr:
    """`x` of `x.mul_(2)`, which gives `x` itself."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _in_place(node.func):
        node = node.func.value
    return node


def _in_place(method: ast.Attribute) -> bool:
    return method.attr.endswith("_") and not method.attr.endswith("__")


def bound_around(source: Source, node: ast.AST, written: ast.expr) -> bool:
    """Are all names of an expression those of the innermost comprehension around a node, which it is no source of?"""
    names = {one.id for one in ast.walk(written) if isinstance(one, ast.Name)}
    around = source.enclosing(node, *COMPREHENSIONS)
    if not isinstance(around, COMPREHENSIONS):
        return False
    if any(node in ast.walk(one.iter) for one in around.generators):
        return False
    targets = (node for one in around.generators for node in ast.walk(one.target))
    return names <= {one.id for one in targets if isinstance(one, ast.Name)}


def named_in(node: ast.expr) -> set[str]:
    """The names, attributes and items whose values an expression has, not only their shapes: `x.shape`, `len(x)`."""
    found: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Attribute) and one.attr in _SHAPES:
            continue
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "len":
            continue
        if isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)):
            found.add(ast.unparse(one))
        todo += ast.iter_child_nodes(one)
    return found


def draws_numbers(name: str) -> bool:
    """Does a factory draw random numbers? On another device they would be others."""
    return name.rpartition(".")[2] in ("rand", "randn", "randint", "randperm", "normal")


def dotted(source: Source, function: ast.expr) -> str:
    """The full name of what is called, as far as the imports tell."""
    root, dot, rest = ast.unparse(function).partition(".")
    return f"{source.imports.get(root, root)}{dot}{rest}"


def stores_in_class(source: Source, node: ast.Assign, name: str) -> int:
    owner = source.enclosing(node, ast.ClassDef)
    return sum(
        isinstance(one, ast.Attribute) and one.attr == name and not isinstance(one.ctx, ast.Load)
        for one in source.walk(owner)
    )


def is_simple(source: Source, value: ast.expr) -> bool:
    code = source.code(value)
    return "\n" not in code and "#" not in code and not isinstance(value, (ast.Tuple, ast.Yield))


def short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def is_unfilled(source: Source, whole: ast.expr, at: ast.AST, function: ast.AST | None) -> bool:
    """Does a list get its elements no sooner than at a node, or are these lists?"""
    text = ast.unparse(whole)
    fills = [
        call
        for call in source.of_kind(ast.Call, function or source.tree)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "extend", "insert")
        and source.code(call.func.value) == text
    ]
    nested = any(isinstance(one, (ast.List, ast.Tuple)) for call in fills for one in call.args[-1:])
    return bool(fills) and (nested or min(call.lineno for call in fills) >= source.statement(at).lineno)
