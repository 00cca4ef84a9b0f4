"""A quick look at what constructors store: most attributes are neither tensors nor lists of modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from devfix.registration.classes import ModuleClass
from devfix.registration.signatures import tensor_annotation
from devfix.registration.stores import Method, Store, self_name

_NO_TENSORS = frozenset({"int", "float", "len", "range", "str", "bool", "set", "getattr", "super", "partial"})
_NO_MAKERS = ("numpy.", "math.", "functools.", "random.", "os.")
_TENSOR_PARTS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "values", "indices"})


def may_hold_tensors(owner: ModuleClass, stores: Iterable[Store]) -> bool:
    """May one of the stores leave a plain tensor, or some? A no is certain."""
    return any(
        store.value is not None and store.form != "augmented" and _tensor(owner, store.value, store.method)
        for store in stores
    )


def may_hold_modules(owner: ModuleClass, stores: Iterable[Store]) -> bool:
    """May one of the stores leave a list, tuple or dict of modules? A no is certain."""
    return any(store.part is not None and _container(owner, store.part, store.method) for store in stores)


def _container(owner: ModuleClass, node: ast.expr, method: Method) -> bool:
    if isinstance(node, ast.Name):
        return _given(owner, node, method, annotated=True)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Add, ast.Mult)) and _container(owner, node.left, method)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return isinstance(node.func.value, ast.Name) and node.func.value.id == self_name(method)
        return isinstance(node.func, ast.Name) and not node.func.id[:1].isupper()
    if isinstance(node, (ast.List, ast.Tuple)):
        return not node.elts or any(not isinstance(item, ast.Constant) for item in node.elts)
    return isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.Dict, ast.DictComp))


def _tensor(owner: ModuleClass, node: ast.expr, method: Method) -> bool:
    if isinstance(node, ast.Name):
        return _given(owner, node, method)
    if isinstance(node, ast.Attribute):
        if node.attr in _TENSOR_PARTS:
            return _tensor(owner, node.value, method)
        return isinstance(node.value, ast.Name) and node.value.id == self_name(method)
    if isinstance(node, ast.Call):
        return _call(owner, node, method)
    if isinstance(node, ast.BinOp):
        return _tensor(owner, node.left, method) or _tensor(owner, node.right, method)
    if isinstance(node, ast.IfExp):
        return _tensor(owner, node.body, method) or _tensor(owner, node.orelse, method)
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and _tensor(owner, node.operand, method)
    if isinstance(node, ast.Subscript):
        return _tensor(owner, node.value, method)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_tensor(owner, item, method) for item in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _tensor(owner, node.elt, method)
    if isinstance(node, ast.Dict):
        return any(_tensor(owner, item, method) for item in node.values)
    if isinstance(node, ast.DictComp):
        return _tensor(owner, node.value, method)
    return isinstance(node, ast.Compare)


def _call(owner: ModuleClass, node: ast.Call, method: Method) -> bool:
    function = node.func
    if isinstance(function, ast.Name):
        if function.id in _NO_TENSORS:
            return False
        last = function.id
    elif isinstance(function, ast.Attribute):
        last = function.attr
        name = owner.source.qualified(function)
        if name.startswith(_NO_MAKERS):
            return False
        if not name:
            mine = isinstance(function.value, ast.Name) and function.value.id in (
                self_name(method),
                owner.node.name,
            )
            return owner.method(last) is not None if mine else _tensor(owner, function.value, method)
    else:
        return False
    return not last[:1].isupper() or last.endswith("Tensor")


def _given(owner: ModuleClass, node: ast.Name, method: Method, *, annotated: bool = False) -> bool:
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
    if annotated:
        return given.annotation is not None
    if method.name == "__init__" and tensor_annotation(given.annotation):
        return True
    if method.name == "__init__" and owner.made_here and not owner.descendants:
        return True
    return node.id in owner.assigned(method)
