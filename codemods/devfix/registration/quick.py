"""A quick look at what constructors store: most attributes are no lists of modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from devfix.registration.classes import ModuleClass
from devfix.registration.stores import Method, Store, self_name


def may_hold_modules(owner: ModuleClass, stores: Iterable[Store]) -> bool:
    """May one of the stores leave a list, tuple or dict of modules? A no is certain."""
    return any(store.part is not None and _container(owner, store.part, store.method) for store in stores)


def _container(owner: ModuleClass, node: ast.expr, method: Method) -> bool:
    if isinstance(node, ast.Name):
        return _given(owner, node, method)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Mult)) and _container(owner, node.left, method)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return isinstance(node.func.value, ast.Name) and node.func.value.id == self_name(method)
        return isinstance(node.func, ast.Name) and not node.func.id[:1].isupper()
    if isinstance(node, (ast.List, ast.Tuple)):
        return not node.elts or any(not isinstance(item, ast.Constant) for item in node.elts)
    return isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.Dict, ast.DictComp))


def _given(owner: ModuleClass, node: ast.Name, method: Method) -> bool:
    """May a name stand for more than an argument about which nothing is known?"""
    arguments = method.args
    every = (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    )
    given = next((a for a in every if a is not None and a.arg == node.id), None)
    if given is None:
        return node.id in owner.assigned(method) or f"\n{node.id}" in owner.source.text
    return given.annotation is not None
