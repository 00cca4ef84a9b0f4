"""What the statements of methods store in `self`, and which names they bind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Method = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Store:
    """One place that gives `self.<name>` a value.

    `form`: "single" (`self.x = v`), "typed" (`self.x: T = v`), "unpack" (one of several targets),
    "chained" (`self.x = self.y = v`), "augmented", "deleted" or "other" (loop target, with). `value` is
    what is assigned; of "unpack" the whole right side, `index` being the position among the targets.
    """

    name: str
    target: ast.Attribute
    statement: ast.stmt
    method: Method
    form: str
    value: ast.expr | None = None
    index: int = -1

    @property
    def part(self) -> ast.expr | None:
        """What the attribute itself gets, where that is written out: a list of `self.a, self.b = [], []`."""
        if self.form == "unpack":
            if isinstance(self.value, (ast.Tuple, ast.List)) and self.index < len(self.value.elts):
                return self.value.elts[self.index]
            return None
        return self.value


def self_name(method: Method) -> str:
    """The name of the first parameter; empty for static and class methods."""
    for decorator in method.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod"):
            return ""
    arguments = [*method.args.posonlyargs, *method.args.args]
    return arguments[0].arg if arguments else ""


def position(store: Store) -> tuple[int, int]:
    return store.target.lineno, store.target.col_offset


def inner_statements(method: Method) -> Iterator[ast.stmt]:
    """Every statement of a method, nested ones included, in no particular order."""
    todo: list[ast.AST] = list(method.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        kind = node.__class__
        fields = _BLOCKS_OF.get(kind)
        if fields is None:
            fields = _BLOCKS_OF[kind] = tuple(field for field in BLOCKS if field in kind._fields)
        for field in fields:
            todo.extend(getattr(node, field))


_BLOCKS_OF: dict[type[ast.AST], tuple[str, ...]] = {}  # those that nodes of a class have


def stores_of(method: Method, me: str) -> Iterator[Store]:
    """The stores of one method; of each statement only the targets are looked at, so it is quick."""
    for statement in inner_statements(method):
        targets: list[ast.expr]
        if isinstance(statement, (ast.Assign, ast.Delete)):
            targets = statement.targets
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            targets = [statement.target]
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
        else:
            continue
        for target in targets:
            for node in _attributes(target, me):
                store = _store(node, statement, method)
                if store is not None:
                    yield store


def _attributes(target: ast.expr, me: str) -> Iterator[ast.Attribute]:
    """The `self.<name>` among what a target assigns."""
    if isinstance(target, ast.Attribute):
        if isinstance(target.value, ast.Name) and target.value.id == me:
            yield target
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _attributes(item, me)
    elif isinstance(target, ast.Starred):
        yield from _attributes(target.value, me)


def _store(node: ast.Attribute, statement: ast.stmt, method: Method) -> Store | None:
    form, value, index = "other", None, -1
    if isinstance(statement, ast.Delete):
        form = "deleted"
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
        if targets[0] is node and len(targets) == 1:
            form, value = "single", statement.value
        elif node in targets:
            plain = all(isinstance(target, (ast.Name, ast.Attribute)) for target in targets)
            form, value = "chained" if plain else "other", statement.value
        elif len(targets) == 1 and isinstance(targets[0], (ast.Tuple, ast.List)):
            elements = targets[0].elts
            if node in elements and not any(isinstance(e, ast.Starred) for e in elements):
                form, value, index = "unpack", statement.value, elements.index(node)
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is None:
            return None
        form, value = "typed", statement.value
    elif isinstance(statement, ast.AugAssign):
        form, value = "augmented", statement.value
    return Store(node.attr, node, statement, method, form, value, index)
