"""What the methods of a class store in `self`, statement by statement, and where they read it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NamedTuple

from devfix.engine.files import Class, Function, stored
from devfix.text.source import Source, remembered

Method = ast.FunctionDef | ast.AsyncFunctionDef
# Methods that decide themselves what moves along, or what counts as registered.
_OWN_WAYS = frozenset(
    {
        "_apply", "to", "cuda", "cpu", "__setattr__", "__getattr__", "__getattribute__", "parameters",
        "named_parameters", "named_modules", "children", "named_children", "register_buffer",
    }
)  # fmt: skip
# In such a method: it may reach, or register, every attribute.
_UNSEEN = re.compile(r"__dict__|(?<![.\w])exec\(")
_ANYTHING = re.compile(r"vars\(|getattr\(|setattr\(|dir\(|register_(?:buffer|parameter|module)\(|_buffers\b")


@dataclass(frozen=True)
class Store:
    """One place that gives `self.<name>` a value.

    `form`: "single" (`self.x = v`), "typed" (`self.x: T = v`), "unpack" (one of several targets), "chained"
    (`self.x = self.y = v`), "augmented" or "other" (deleted, a target of a loop). `value` is what is assigned, `part`
    what the attribute itself gets of it, where that is written out: a list of `self.a, self.b = [], []`.
    """

    target: ast.Attribute
    statement: ast.stmt
    method: Method
    form: str
    value: ast.expr | None = None
    part: ast.expr | None = None


class Kept(NamedTuple):
    """Where the methods of a class itself store an attribute, and where they read it, in the order of the text."""

    stores: list[Store]
    loads: list[ast.Attribute]


NOWHERE = Kept([], [])


@remembered
def buffers_of(source: Source, owner: ast.ClassDef) -> frozenset[str]:
    """The names under which a class registers buffers, as they are written: what they are assigned later stays one."""
    calls = (one for one in source.of_kind(ast.Call, owner) if one.args)
    names = (
        getattr(one.args[0], "value", None)
        for one in calls
        if isinstance(one.func, ast.Attribute) and one.func.attr == "register_buffer"
    )
    return frozenset(one for one in names if isinstance(one, str))


@remembered
def kept_by(source: Source, owner: ast.ClassDef) -> dict[str, Kept]:
    """The attributes of `self` that the methods of a class name."""
    found: dict[str, Kept] = {}
    for method in owner.body:
        me = _self(method) if isinstance(method, Method) else ""
        for node in source.of_kind(ast.Attribute, method) if me else ():
            if isinstance(node.value, ast.Name) and node.value.id == me:
                kept = found.setdefault(node.attr, Kept([], []))
                if isinstance(node.ctx, ast.Load):
                    kept.loads.append(node)
                elif isinstance(method, Method) and (store := _store(source, node, method)) is not None:
                    kept.stores.append(store)
    for kept in found.values():
        for nodes in kept:
            nodes.sort(key=lambda one: source.span(one.target if isinstance(one, Store) else one).start)
    return found


def _self(method: Method) -> str:
    """The name of the first parameter; empty for static and class methods."""
    static = any(
        isinstance(one, ast.Name) and one.id in ("staticmethod", "classmethod")
        for one in method.decorator_list
    )
    arguments = [*method.args.posonlyargs, *method.args.args]
    return arguments[0].arg if arguments and not static else ""


def _store(source: Source, node: ast.Attribute, method: Method) -> Store | None:
    statement, up = source.statement(node), source.parents[node]
    if isinstance(statement, ast.AnnAssign):
        value = statement.value
        return Store(node, statement, method, "typed", value, value) if value is not None else None
    if isinstance(statement, ast.AugAssign):
        return Store(node, statement, method, "augmented", statement.value)
    if isinstance(statement, ast.Assign):
        value, plain = (
            statement.value,
            all(isinstance(one, (ast.Name, ast.Attribute)) for one in statement.targets),
        )
        if up is statement and plain:
            form = "single" if len(statement.targets) == 1 else "chained"
            return Store(node, statement, method, form, value, value)
        if isinstance(up, (ast.Tuple, ast.List)) and statement.targets == [up]:
            if not any(isinstance(one, ast.Starred) for one in up.elts):
                at = up.elts.index(node)
                written = isinstance(value, (ast.Tuple, ast.List)) and at < len(value.elts)
                part = value.elts[at] if written and isinstance(value, (ast.Tuple, ast.List)) else None
                return Store(node, statement, method, "unpack", value, part)
    return Store(node, statement, method, "other")


def changed_by(method: Function) -> list[str]:
    """The attributes of `self` that a method stores, or changes in place, or an item of; found out once."""
    found: list[str] | None = method.remembered.get(changed_by)
    if found is None:
        found = method.remembered[changed_by] = [*dict.fromkeys(stored(method, items=True))]
    return found


def super_call(owner: Class) -> ast.stmt | None:
    """The statement of the constructor that initialises the base, if it stands at the top level."""
    init = owner.methods.get("__init__")
    for one in init.node.body if init is not None else ():
        call = one.value if isinstance(one, ast.Expr) else None
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
        ):
            return one
    return None


def only_building(owner: Class) -> set[str]:
    """The methods of a class that run only while an object is made, by their names, as far as its files say."""
    methods: dict[str, list[Function]] = {}
    for one in owner.lineage:
        for method in one.methods.values():
            methods.setdefault(method.name, []).append(method)
    building, others = _reached({"__init__"}, methods), set[str]()
    while later := {name for name in building - {"__init__"} if _is_called_by_others(name, owner, building)}:
        others |= later
        building -= _reached(others, methods)
    return building


def _reached(names: set[str], methods: dict[str, list[Function]]) -> set[str]:
    """Methods, and those that they call in turn."""
    found, todo = set(names), list(names)
    while todo:
        more = {name for one in methods.get(todo.pop(), ()) for name in one.called} & methods.keys() - found
        found |= more
        todo += more
    return found


def _is_called_by_others(name: str, owner: Class, building: set[str]) -> bool:
    """Does a method of the class that is none of these call a method, or what is outside of the class?"""
    family = {one.node for one in owner.lineage}
    for file in {one.file for one in owner.lineage}:
        for call in file.source.calls_by_name.get(name, ()) if name in file.source.text else ():
            around = file.of_node.get(
                file.source.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef) or call
            )
            if isinstance(around, Function) and around.owner is not None and around.owner.node in family:
                if around.name in building:
                    continue
            if isinstance(call.func, ast.Attribute):
                return True
    return False


def has_own_way(owner: Class, name: str) -> bool:
    """May a class move, or count as registered, an attribute by that name in a way of its own?

    As a property, a method or a constant of the body; through its `__dict__`, or text that it executes; or by
    overriding what moves and lists the parts of a module.
    """
    if owner.method(name) is not None or owner.constant(name) is not None:
        return True
    for one in owner.lineage:
        if _UNSEEN.search(one.file.source.code(one.node)):
            return True
        for method in _OWN_WAYS & one.methods.keys():
            text = one.file.source.code(one.methods[method].node)
            if "super(" not in text or _ANYTHING.search(text) or re.search(rf"\b{name}\b", text):
                return True
    return False
