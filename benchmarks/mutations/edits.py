"""What a mutant is, and what its makers share: text edits, moves, modules by their uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from devfix.findings import Span
from devfix.text.placing import dotted
from devfix.text.source import Source

Edit = tuple[Span, str]  # what to replace, by what; of characters

_DTYPE = re.compile(r"dtype|\b(?:float|int|uint|bfloat|complex)\d+\b|\b(?:half|float|double|long|int|bool)$")
_MODULE_USES = frozenset(
    {"parameters", "named_parameters", "modules", "eval", "train", "state_dict", "load_state_dict"}
)


@dataclass(frozen=True)
class Mutant:
    """A program with a bug planted; `region` is what it concerns, in characters of `text`."""

    kind: str
    program: str
    line: int  # of the right program
    text: str
    region: Span


def mutant(kind: str, program: str, source: Source, at: ast.AST, edits: Iterable[Edit]) -> Mutant | None:
    """Apply the edits around `at`; None where the result is no Python."""
    text, grown = source.text, 0
    for span, new in sorted(edits, reverse=True):
        text = text[: span.start] + new + text[span.end :]
        grown += len(new) - (span.end - span.start)
    region = concerned(source, at)
    try:
        ast.parse(text)
    except SyntaxError:
        return None
    line, _ = source.position(source.span(at).start)
    return Mutant(kind, program, line, text, Span(region.start, region.end + grown))


def concerned(source: Source, node: ast.AST) -> Span:
    """The function around a node, or the class around that; for code of the module, all of the file."""
    around = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    if around is not None and getattr(around, "name", "") == "__init__":
        around = source.enclosing(around, ast.ClassDef) or around
    return source.span(around) if around is not None else Span(0, len(source.text))


def deleted(source: Source, statements: Iterable[ast.stmt]) -> list[Edit]:
    """Edits that remove whole statements, lines included; `pass` in a block that they empty."""
    chosen = list(statements)
    edits: list[Edit] = []
    for statement in chosen:
        block = source.block(statement)
        span = source.span(statement)
        alone = all(other in chosen for other in block) and statement is block[0]
        edits.append((span, "pass") if alone else (_whole_lines(source.text, span), ""))
    return edits


def _whole_lines(text: str, span: Span) -> Span:
    """The lines of a statement where it has them for itself (a comment after it aside)."""
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end + 1
    rest = text[span.end : end].strip()
    if text[start : span.start].strip() or (rest and not rest.startswith("#")):
        return span
    return Span(start, end)


def without_keyword(source: Source, call: ast.Call, name: str) -> list[Edit]:
    """The edit that removes `name=...` from a call, with its comma; none if it is not there."""
    keyword = next((item for item in call.keywords if item.arg == name), None)
    if keyword is None:
        return []
    text, span = source.text, source.span(keyword)
    start = len(text[: span.start].rstrip())
    if text[start - 1] == ",":
        return [(Span(start - 1, span.end), "")]
    after = re.compile(r"\s*,\s*").match(text, span.end)
    return [(Span(span.start, after.end() if after else span.end), "")]


def moved(node: ast.AST) -> ast.expr | None:
    """`x` of `x.to(device)` or `x.cuda()`; None for casts, moves to the CPU and everything else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    if node.func.attr == "cuda":
        return node.func.value
    if node.func.attr != "to":
        return None
    values = [item.value for item in node.keywords if item.arg == "device"] or node.args[:1]
    if not values or any(item.arg == "dtype" for item in node.keywords) or len(node.args) > 1:
        return None
    text = ast.unparse(values[0])
    # `x.to(other)` takes the dtype of `other` as well, which a fix could not know.
    if "cpu" in text or _DTYPE.search(text) or not ("dev" in text or "cuda" in text):
        return None
    return node.func.value


def unmoved(source: Source, call: ast.Call) -> Edit:
    """The edit from `x.to(device)` to `x`."""
    assert isinstance(call.func, ast.Attribute)
    return Span(source.span(call.func.value).end, source.span(call).end), ""


def move_statement(statement: ast.stmt) -> ast.expr | None:
    """`x` of the statements `x.to(device)` and `x = x.to(device)`."""
    if isinstance(statement, ast.Expr):
        path = moved(statement.value)
        return path if path is not None and dotted(path) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        path = moved(statement.value)
        if path is not None and dotted(path) and dotted(path) == dotted(statement.targets[0]):
            return path
    return None


def module_names(source: Source) -> frozenset[str]:
    """Dotted names that are used as modules: called, or asked for their parameters and the like."""
    found: set[str] = set()
    for node in source.walk():
        if isinstance(node, ast.Attribute) and node.attr in _MODULE_USES:
            found.add(dotted(node.value))
        elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Call):
            name = dotted(node.func)
            if name and name not in source.imports:
                found.add(name)
    return frozenset(found - {""})


def own_calls(source: Source, root: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node, in the order of the text."""
    calls = (node for node in source.walk(root) if isinstance(node, ast.Call))
    return iter(sorted(calls, key=lambda node: source.span(node)))
