"""One Python text, parsed: positions, names and enclosing statements."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from devfix.findings import Span

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Source:
    """The text of a Python file with its `ast`; immutable, and shared by all codemods.

    Raises what `ast.parse` raises: SyntaxError, ValueError (NUL), RecursionError, MemoryError.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)

    # --- positions -----------------------------------------------------------------------

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of every line's first character; lines end as in Python, not as in `splitlines`."""
        return [0, *(m.end() for m in _NEWLINE.finditer(self.text))]

    def offset(self, lineno: int, col: int) -> int:
        """Character offset of an `ast` position (1-based line, column in UTF-8 bytes)."""
        start = self.line_starts[lineno - 1]
        head = self.text[start : start + col]
        if head.isascii():
            return start + col
        line = self.text[start : start + col + 1]
        return start + len(line.encode("utf-8", "surrogatepass")[:col].decode("utf-8", "surrogatepass"))

    def span(self, node: ast.AST) -> Span:
        """Where a node stands; decorators belong to the function or class."""
        first = node
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            first = decorators[0]
            start = self.text.rindex("@", 0, self.offset(first.lineno, first.col_offset))
        else:
            start = self.offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]
        return Span(start, self.offset(node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]

    def code(self, node: ast.AST) -> str:
        """The text of a node as it stands in the file."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column, in characters, of an offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    # --- structure -----------------------------------------------------------------------

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        found: dict[ast.AST, ast.AST] = {}
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            for child in ast.iter_child_nodes(node):
                found[child] = node
                todo.append(child)
        return found

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest node around `node`, itself excluded, of one of the kinds."""
        up = self.parents.get(node)
        while up is not None and not isinstance(up, kinds):
            up = self.parents.get(up)
        return up

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that `statement` stands in."""
        parent = self.parents[statement]
        for field in _BLOCKS:
            block = getattr(parent, field, None)
            if isinstance(block, list) and statement in block:
                return block
        raise LookupError("statement without a block")

    def walk(self, root: ast.AST | None = None) -> Iterator[ast.AST]:
        """Every node below `root`, in no particular order; iterative, so depth does not matter."""
        todo: list[ast.AST] = [root or self.tree]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(ast.iter_child_nodes(node))

    # --- names ---------------------------------------------------------------------------

    @cached_property
    def imports(self) -> dict[str, str]:
        """Local name -> what it stands for, from every import in the file.

        `import torch.nn as nn` gives nn -> torch.nn; `from torch import nn` the same;
        relative imports keep their dots.
        """
        found: dict[str, str] = {}
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        found[alias.asname] = alias.name
                    else:
                        root = alias.name.partition(".")[0]
                        found[root] = root
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    joint = "" if module.endswith(".") else "."
                    found[alias.asname or alias.name] = f"{module}{joint}{alias.name}"
            else:
                for field in _BLOCKS:
                    todo.extend(getattr(node, field, ()))
        return found

    def qualified(self, node: ast.AST) -> str:
        """The dotted name of a Name or Attribute chain through the imports, else an empty string."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        root = self.imports.get(node.id)
        if root is None:
            return ""
        return ".".join([root, *reversed(parts)])
