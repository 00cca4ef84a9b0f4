"""One Python text, parsed: positions, names and enclosing statements."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property, wraps
from itertools import accumulate
from typing import Any, Concatenate, ParamSpec, TypeVar

from devfix.findings import Span
from devfix.text.lines import line_starts
from devfix.text.parsing import parse

About = ParamSpec("About")
Made = TypeVar("Made")
Node = TypeVar("Node", bound=ast.AST)

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef
_SIMPLE = frozenset(
    {
        *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Pass, ast.Raise, ast.Assert),
        *(ast.Delete, ast.Global, ast.Nonlocal, ast.Break, ast.Continue),
    }
)
# Fields without nodes of their own: nodes share operators and contexts, the rest are texts and numbers.
_PLAIN = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "asname", "module", "level", "kind", "type_comment", "simple"}
    | {"is_async", "conversion", "lineno", "tag", "rest", "kwd_attrs", "type_ignores"}
)
_LEAVES = frozenset({ast.Name, ast.Constant, ast.alias})


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Kind of node -> its fields that may hold nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = () if kind in _LEAVES else tuple(field for field in kind._fields if field not in _PLAIN)
        self[kind] = found
        return found


_FIELDS = _Fields()
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_OF_STATEMENTS = {  # no expression has statements in it
    kind: tuple(field for field in kind._fields if field in BLOCKS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def remembered(
    make: Callable[Concatenate[Source, About], Made],
) -> Callable[Concatenate[Source, About], Made]:
    """What a function makes of a source, and of nodes or texts besides, is made once; nobody may change it.

    For whatever reads a function or a file to its end, and is asked for by many of its statements.
    """

    @wraps(make)
    def known(source: Source, /, *about: About.args, **named: About.kwargs) -> Made:
        key, memo = (make, about, *named.items()), source.remembered
        if key not in memo:
            memo[key] = make(source, *about, **named)
        found: Made = memo[key]
        return found

    return known


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, in order; operators and contexts, which nodes share, left out."""
    found: list[ast.AST] = []
    for field in _FIELDS[node.__class__]:
        value = getattr(node, field, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


class Source:
    """The text of a Python file with its `ast`; immutable, and shared by all codemods.

    Raises what `parse` raises: SyntaxError, ValueError (NUL), RecursionError, MemoryError.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse(text)

    # --- positions -----------------------------------------------------------------------

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of every line's first character; lines end as in Python, not as in `splitlines`."""
        return line_starts(self.text)

    def offset(self, lineno: int, col: int) -> int:
        """Character offset of an `ast` position (1-based line, column in UTF-8 bytes)."""
        start = self.line_starts[lineno - 1]
        if self._ascii:
            return start + col
        columns = self._columns.get(lineno)
        if columns is None:
            columns = self._columns[lineno] = self._columns_of(lineno)
        return start + (bisect_left(columns, col) if columns else col)

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    @cached_property
    def _columns(self) -> dict[int, list[int]]:
        return {}

    def _columns_of(self, lineno: int) -> list[int]:
        """Where each character of a line begins, in bytes; empty where that is the same as in characters."""
        ends = self.line_starts[lineno : lineno + 1]
        line = self.text[self.line_starts[lineno - 1] : ends[0] if ends else None]
        if line.isascii():
            return []
        return [0, *accumulate(len(one.encode("utf-8", "surrogatepass")) for one in line)]

    def span(self, node: ast.AST) -> Span:
        """Where a node stands; decorators belong to the function or class."""
        return Span(*self._ends(node))

    def _ends(self, node: ast.AST) -> tuple[int, int]:
        first = node
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            first = decorators[0]
            start = self.text.rindex("@", 0, self.offset(first.lineno, first.col_offset))
        else:
            start = self.offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def code(self, node: ast.AST) -> str:
        """The text of a node as it stands in the file."""
        found: str | None = self.remembered.get(node)
        if found is None:
            found = self.remembered[node] = self.text[slice(*self._ends(node))]
        return found

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column, in characters, of an offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    # --- structure -----------------------------------------------------------------------

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Node -> the node around it; operators and contexts, which nodes share, are left out."""
        found: dict[ast.AST, ast.AST] = {}
        todo: list[ast.AST] = [self.tree]
        known, leaves, kind = _FIELDS, _LEAVES, ast.AST
        while todo:
            node = todo.pop()
            for field in known[node.__class__]:
                value = getattr(node, field, None)
                if value.__class__ is list:
                    for item in value:
                        if isinstance(item, kind):
                            found[item] = node
                            if item.__class__ not in leaves:
                                todo.append(item)
                elif isinstance(value, kind):
                    found[value] = node
                    if value.__class__ not in leaves:
                        todo.append(value)
        return found

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside to the outside."""
        up = self.parents.get(node)
        while up is not None:
            yield up
            up = self.parents.get(up)

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest node around `node`, itself excluded, of one of the kinds."""
        up = self.parents.get(node)
        while up is not None and not isinstance(up, kinds):
            up = self.parents.get(up)
        return up

    def scope(self, node: ast.AST) -> ast.AST:
        """The function around `node`, itself excluded; the whole text where there is none."""
        return self.enclosing(node, *FUNCTIONS) or self.tree

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that `statement` stands in."""
        return self._blocks[statement][0]

    def index(self, statement: ast.stmt) -> int:
        """The number of a statement in its block, from 0."""
        return self._blocks[statement][1]

    @cached_property
    def _blocks(self) -> dict[ast.AST, tuple[list[ast.stmt], int]]:
        return {
            statement: (block, at)
            for node in self._nodes
            for field in BLOCKS
            if (block := getattr(node, field, None)).__class__ is list
            for at, statement in enumerate(block)
        }

    def walk(self, root: ast.AST | None = None) -> Iterator[ast.AST]:
        """Every node below `root`, in no particular order; operators and contexts left out."""
        return iter(self._nodes if root is None or root is self.tree else walk(root))

    @cached_property
    def _nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the file: several codemods look at each of them."""
        return (self.tree, *self.parents)

    def between(self, start: int, stop: int) -> list[ast.AST]:
        """The nodes that begin between two places of the text, in the order of `walk`."""
        starts, numbers = self._starts
        found = sorted(numbers[bisect_left(starts, start) : bisect_left(starts, stop)])
        return [self._nodes[number] for number in found]

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """Where nodes begin, in order, and their numbers among all."""
        placed = ((number, node) for number, node in enumerate(self._nodes) if hasattr(node, "lineno"))
        found = sorted((self.span(node).start, number) for number, node in placed)
        return [start for start, _ in found], [number for _, number in found]

    @property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls of the file, in no particular order."""
        return self.of_kind(ast.Call)

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """All calls, by the last name of what is called; those without one are below an empty text."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(getattr(call.func, "id", "") or getattr(call.func, "attr", ""), []).append(call)
        return found

    def of_kind(self, kind: type[Node], root: ast.AST | None = None) -> tuple[Node, ...]:
        """Every node of one kind below `root`, in the order of `walk`; found once for each root."""
        root = root or self.tree
        if (kind, root) not in self.remembered:
            if root is self.tree:
                kinds = [one for one in self._by_kind if issubclass(one, kind)]
                below = [*self._nodes] if len(kinds) > 1 else self._by_kind[kinds[0]] if kinds else []
            else:
                below = walk(root, _OF_STATEMENTS if issubclass(kind, ast.stmt) else _FIELDS)
            self.remembered[kind, root] = tuple([node for node in below if isinstance(node, kind)])
        found: tuple[Node, ...] = self.remembered[kind, root]
        return found

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self._nodes:
            found.setdefault(node.__class__, []).append(node)
        return found

    def has(self, words: str) -> bool:
        """Do these words stand anywhere in the text? Looked for once."""
        if words not in self.remembered:
            self.remembered[words] = words in self.text
        return bool(self.remembered[words])

    def names(self, root: ast.AST | None = None) -> dict[str, tuple[ast.Name, ...]]:
        """What is written of each name below `root`, in the order of `walk`; found once for each root."""
        key = ("names", self.tree if root is None else root)
        if key not in self.remembered:
            found: dict[str, list[ast.Name]] = {}
            for node in self.of_kind(ast.Name, root):
                found.setdefault(node.id, []).append(node)
            self.remembered[key] = {name: tuple(nodes) for name, nodes in found.items()}
        known: dict[str, tuple[ast.Name, ...]] = self.remembered[key]
        return known

    @cached_property
    def remembered(self) -> dict[Hashable, Any]:
        """What was made of the text once, by the functions that are `@remembered`."""
        return {}

    def forget(self) -> None:
        """Free what is as large as the tree and can be found out again."""
        for name in ("parents", "_nodes", "_by_kind", "_blocks", "_starts", "calls_by_name"):
            self.__dict__.pop(name, None)
        self.remembered.clear()

    # --- names ---------------------------------------------------------------------------

    @cached_property
    def _outline(self) -> tuple[dict[str, str], tuple[Definition, ...]]:
        """Imports and definitions, from one pass over the statements (expressions left out)."""
        imports: dict[str, str] = {}
        definitions: list[Definition] = []
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            kind = node.__class__
            if kind in _SIMPLE:
                continue
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        imports[alias.asname] = alias.name
                    else:
                        root = alias.name.partition(".")[0]
                        imports[root] = root
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                joint = "" if module.endswith(".") else "."
                for alias in node.names:
                    imports[alias.asname or alias.name] = f"{module}{joint}{alias.name}"
            else:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    definitions.append(node)
                for field in BLOCKS:
                    block = getattr(node, field, None)
                    if block.__class__ is list:
                        todo.extend(block)
        return imports, tuple(definitions)

    @cached_property
    def imports(self) -> dict[str, str]:
        """Local name -> what it stands for, from every import in the file.

        `import torch.nn as nn` gives nn -> torch.nn; `from torch import nn` the same;
        relative imports keep their dots.
        """
        return self._outline[0]

    def local_name(self, full: str) -> str:
        """What a module is called in the file; an empty string where it is not imported."""
        return next((local for local, module in self.imports.items() if module == full), "")

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """Every function and class of the file, nested ones included, in no particular order."""
        return self._outline[1]

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


def walk(root: ast.AST, known: Mapping[type[ast.AST], tuple[str, ...]] = _FIELDS) -> list[ast.AST]:
    """`root` and every node below it in the order of `ast.walk`; operators and contexts left out."""
    found, kind = [root], ast.AST
    for node in found:  # grows on the way
        for field in known[node.__class__]:
            value = getattr(node, field, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, kind):
                        found.append(item)
            elif isinstance(value, kind):
                found.append(value)
    return found
