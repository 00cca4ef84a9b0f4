"""Where an import goes, if it is needed at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import Span, TextEdit
from devfix.rewrite.layout import CannotRewrite, Layout

_HIDDEN = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "False", "0")


def place_import(layout: Layout, module: str, name: str = "") -> list[TextEdit]:
    """The insertion of `import module` or `from module import name`; empty if the name is bound so already.

    It follows the file's first run of imports, else the docstring, else the comments that head
    the file. Raises CannotRewrite if the name means something else in this module.
    """
    text = f"from {module} import {name}" if name else f"import {module}"
    try:
        ast.parse(text)
    except SyntaxError:
        raise CannotRewrite(f"`{text}` is not an import") from None
    local = name or module.partition(".")[0]
    meanings: list[str] = []
    for statement in _module_level(layout.source.tree.body):
        for bound, meaning, whole in _bindings(statement):
            if bound != local:
                continue
            wanted = f"{module}.{name}" if name else local
            if meaning == wanted and (name or whole == module or module == local):
                return []
            meanings.append(meaning)
    if any(meaning != (f"{module}.{name}" if name else local) for meaning in meanings):
        raise CannotRewrite(f"`{text}`: the name `{local}` means something else in this file")
    return [_insertion(layout, text)]


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that bind names of the module, those under `if`, `try` and `with` included.

    An import that is only made where it can be is enough: whoever wrote `try: import torch` has
    reasons that an unconditional import would run against.
    """
    todo = list(reversed(body))
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in _HIDDEN:
            todo.extend(reversed(statement.orelse))
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner: list[ast.stmt] = []
            for part in ("body", "handlers", "orelse", "finalbody"):
                for each in getattr(statement, part, ()):
                    inner.extend(each.body if isinstance(each, ast.ExceptHandler) else [each])
            todo.extend(reversed(inner))


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, str, str]]:
    """(local name, what it stands for, the module that was named) of one statement."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                yield alias.asname, alias.name, alias.name
            else:
                root = alias.name.partition(".")[0]
                yield root, root, alias.name
    elif isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            joint = "" if module.endswith(".") else "."
            yield alias.asname or alias.name, f"{module}{joint}{alias.name}", module
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, f"<{statement.name}>", ""


def _insertion(layout: Layout, text: str) -> TextEdit:
    body = layout.source.tree.body
    rest = body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        if isinstance(body[0].value.value, str):
            rest = body[1:]
    run = 0
    while run < len(rest) and isinstance(rest[run], (ast.Import, ast.ImportFrom)):
        run += 1
    anchor = rest[run - 1] if run else (body[0] if len(rest) < len(body) else None)
    if anchor is not None:
        gap = not run or all(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in rest[:run])
        behind = body.index(anchor) + 1
        while behind < len(body) and not layout.fresh(body[behind]):
            anchor = body[behind]
            behind += 1
        stop = layout.tail(anchor)[1]
        newline = layout.newline(layout.line_at(stop))
        return TextEdit(Span(stop, stop), newline * (2 if gap else 1) + text)
    if not body:
        end = len(layout.text)
        newline = layout.newline(max(layout.line_count - 1, 0))
        if end and layout.text[end - 1] not in "\r\n":
            return TextEdit(Span(end, end), newline + text)
        return TextEdit(Span(end, end), text + newline)
    line = layout.comments_above(body[0])
    newline = layout.newline(line)
    gaps = 3 if isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else 2
    return TextEdit(Span(layout.start(line), layout.start(line)), text + newline * gaps)
