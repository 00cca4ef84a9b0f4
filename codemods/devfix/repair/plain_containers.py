"""A ModuleList or ModuleDict in the place of a plain list or dict of modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.engine.files import Class
from devfix.engine.stores import NOWHERE, Method, Store, kept_by
from devfix.findings import Edit, EnsureImport, ReplaceExpression, WrapExpression
from devfix.text.source import Source

# Uses that a ModuleList or ModuleDict allows as a list or dict does.
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"items", "keys", "values", "pop", "update", "clear"})
_READERS = frozenset(
    {
        "len", "enumerate", "zip", "reversed", "iter", "range", "print", "str", "repr", "bool",
        "list", "tuple", "sorted", "any", "all", "sum", "max", "min", "map", "next",
    }
)  # fmt: skip
_DISPLAYS = (ast.List, ast.Tuple, ast.ListComp)


@dataclass(frozen=True)
class PlainContainer:
    """An attribute that keeps modules in a plain list or dict, and where a method runs one.

    `nested`: there are containers in it. `odd_keys`: a ModuleDict may refuse keys of it. `sure`: all elements are
    modules for certain. `guessed`: callers that are out of view pass them.
    """

    owner: Class
    name: str
    stores: tuple[Store, ...]
    mapping: bool
    nested: bool
    odd_keys: bool
    sure: bool
    use: ast.AST
    method: Method
    guessed: bool = False


def as_module_container(found: PlainContainer) -> tuple[Edit, ...]:
    """The edits that register the modules; none where some use of the container would fail."""
    source = found.owner.file.source
    if not found.sure or found.odd_keys or not all(_allows(source, one, found) for one in _reads(found)):
        return ()
    values = [one.part for one in found.stores if one.part is not None]
    values = [one for one in values if not _is_container(source, one)]
    inner = [one for value in values for one in _within(value)]
    if found.nested:
        inner += [
            one for value in _added(found) for one in (value, *_within(value)) if isinstance(one, _DISPLAYS)
        ]
        if found.mapping or not inner or "isinstance(" in source.code(found.owner.node):
            return ()
    elif inner or any("." in one for value in _keys(found) for one in _texts(value)):
        return ()
    written, imports = _written(source, "ModuleDict" if found.mapping else "ModuleList")
    edits = [_wrapped(source, one, written) for one in (*inner, *values)]
    return (*edits, *imports)


def _wrapped(source: Source, value: ast.expr, written: str) -> Edit:
    span = source.span(value)
    empty = (isinstance(value, (ast.List, ast.Tuple)) and not value.elts) or (
        isinstance(value, ast.Dict) and not value.keys
    )
    if empty or (isinstance(value, ast.Call) and not value.args and not value.keywords):
        if not isinstance(value, ast.Call) or (
            isinstance(value.func, ast.Name) and value.func.id in ("list", "dict")
        ):
            return ReplaceExpression(span, f"{written}()")
    return WrapExpression(span, f"{written}(", ")")


def _is_container(source: Source, value: ast.expr) -> bool:
    """Is it a ModuleList or ModuleDict already, as in another branch?"""
    return isinstance(value, ast.Call) and source.qualified(value.func).startswith("torch.nn.Module")


def _within(value: ast.expr) -> Iterator[ast.expr]:
    """The lists in a list."""
    parts: list[ast.expr] = []
    if isinstance(value, (ast.List, ast.Tuple)):
        parts = value.elts
    elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        parts = [value.elt]
    elif isinstance(value, ast.BinOp):
        yield from (*_within(value.left), *_within(value.right))
    elif (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("list", "tuple")
    ):
        yield from (one for given in value.args for one in _within(given))
    for one in parts:
        if isinstance(one, _DISPLAYS):
            yield one
            yield from _within(one)


def _added(found: PlainContainer) -> Iterator[ast.expr]:
    """What is appended."""
    parents = found.owner.file.source.parents
    for load in _loads(found):
        method = parents[load]
        call = parents[method]
        if isinstance(method, ast.Attribute) and isinstance(call, ast.Call) and call.func is method:
            yield from call.args[-1:]


def _keys(found: PlainContainer) -> Iterator[ast.expr]:
    """The keys of a dict, and those under which something is stored."""
    for store in found.stores:
        if isinstance(store.part, ast.DictComp):
            yield store.part.key
    for load in _loads(found):
        up = found.owner.file.source.parents[load]
        if isinstance(up, ast.Subscript) and isinstance(up.ctx, ast.Store):
            yield up.slice


def _texts(key: ast.expr) -> Iterator[str]:
    parts = key.values if isinstance(key, ast.JoinedStr) else ()
    return (one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _loads(found: PlainContainer) -> list[ast.Attribute]:
    """Where the methods of the class itself read the attribute."""
    return kept_by(found.owner.file.source, found.owner.node).get(found.name, NOWHERE).loads


def _reads(found: PlainContainer) -> Iterator[ast.Attribute]:
    """Every read of the attribute in the file, of whatever object, but not in classes that set one of their own."""
    source = found.owner.file.source
    every = [node for node in source.of_kind(ast.Attribute) if node.attr == found.name]
    others = {
        source.enclosing(one, ast.ClassDef)
        for one in every
        if isinstance(one.ctx, ast.Store) and source.code(one.value) == "self"
    } - {None, found.owner.node}
    for node in every:
        mine = source.code(node.value) == "self" and source.enclosing(node, ast.ClassDef) in others
        if isinstance(node.ctx, ast.Load) and not mine:
            yield node


def _allows(source: Source, node: ast.Attribute, found: PlainContainer) -> bool:
    """Would a read of the attribute work with the new container?"""
    parent = source.parents[node]
    own = node in _loads(found)
    if isinstance(parent, ast.Attribute):
        return parent.attr in (_DICT_METHODS if found.mapping else _LIST_METHODS) or not own
    if isinstance(parent, ast.Subscript) and parent.value is node:
        sliced = isinstance(parent.slice, ast.Slice)
        return not isinstance(parent.ctx, ast.Del) and (not sliced or _is_iterated(source, parent))
    if isinstance(parent, ast.Call):
        return source.code(parent.func).rpartition(".")[2] in _READERS
    if isinstance(parent, ast.Compare):
        return isinstance(parent.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
    plain = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assert)
    return isinstance(parent, plain) or _is_iterated(source, node)


def _is_iterated(source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    if isinstance(parent, ast.Call):
        return source.code(parent.func) in ("enumerate", "zip", "reversed", "len")
    return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node


def _written(source: Source, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """How the container class is written in this file, and the import it needs."""
    imports = source.imports
    for local, meaning in imports.items():
        if meaning == f"torch.nn.{kind}":
            return local, ()
    for local, meaning in imports.items():
        if meaning == "torch.nn":
            return f"{local}.{kind}", ()
    if imports.get("torch") == "torch":
        return f"torch.nn.{kind}", ()
    return f"nn.{kind}", (EnsureImport("torch", "nn"),)
