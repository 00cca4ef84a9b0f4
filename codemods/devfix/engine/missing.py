"""Names and attributes that nothing gives a value: an expression that reads them raises wherever it is run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING

from devfix.engine.files import Class, File, Function
from devfix.engine.places import OWNED
from devfix.engine.values import MODULE, Value
from devfix.models import torch_api
from devfix.models.loader import module_attributes
from devfix.text.names import own_nodes
from devfix.text.source import Source, remembered, walk

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__class__", "__path__", "get_ipython", "display"}
_PLAIN = frozenset({"object", "ABC", "abc.ABC"})
_DYNAMIC = frozenset({"setattr", "exec", "eval", "globals", "locals", "vars"})
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OWN_ATTRIBUTES = ("__getattr__", "__getattribute__", "__setattr__", "__new__", "__init_subclass__")


def is_unbound(file: File, function: Function | None, node: ast.Name) -> bool:
    """Does nothing bind a name: no builtin, no import, nothing in the functions around or in the file's body?"""
    name, source = node.id, file.source
    if name in _BUILTINS or name in source.imports or name in _of_body(source) or _is_dynamic(source):
        return False
    while function is not None and function.outer is not None:
        function = function.outer
    around: ast.AST | None = function.node if function is not None else None
    if around is None:
        return True
    if name in _inside(source, around):
        return False
    owner = source.enclosing(around, ast.FunctionDef, ast.AsyncFunctionDef)
    return owner is None or name not in _inside(source, owner)


@remembered
def _of_body(source: Source) -> frozenset[str]:
    """The names that the body of a file binds, and those that functions declare global."""
    declared = {name for one in source.of_kind(ast.Global) for name in one.names}
    return _bound_in(own_nodes(source.tree)) | declared


@remembered
def _inside(source: Source, root: ast.AST) -> frozenset[str]:
    """The names that anything below a node binds; those of inner scopes as well."""
    return _bound_in(walk(root))


def _bound_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in _bound_by(node))


def _bound_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, _DEFINING):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {one.asname or one.name.partition(".")[0] for one in node.names}
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return {node.name} if node.name else set()
    return {node.rest} if isinstance(node, ast.MatchMapping) and node.rest else set()


@remembered
def _is_dynamic(source: Source) -> bool:
    """May the file get names from elsewhere: `from x import *`, `exec`, `globals().update`?"""
    if any(one.names[0].name == "*" for one in source.of_kind(ast.ImportFrom)):
        return True
    called = (one.func for one in source.calls)
    return any(isinstance(one, ast.Name) and one.id in ("exec", "globals") for one in called)


# --- attributes --------------------------------------------------------------------------------


def is_unassigned(analysis: Analysis, function: Function, name: str, *, alone: bool = False) -> bool:
    """Does no class in view, and nothing else in the file, give `self` an attribute?

    Only where all bases are in view or torch.nn.Module, and nothing sets attributes by name.
    """
    return function.owner is not None and lacks(analysis, function.owner, name, alone=alone)


def lacks(analysis: Analysis, owner: Class, name: str, *, alone: bool = False) -> bool:
    """Has no object of a class an attribute, for all that is in view? `alone`: a module is not mixed into another."""
    if name.startswith("__") or may_be_named(owner.file.source, name):
        return False
    module = any(base in torch_api.MODULE_BASES for base in owner.outside)
    if owner.method("__init__") is None and not (module and alone):
        return False  # what has no constructor may be mixed into a class that assigns it
    if module and name in module_attributes():
        return False
    for one in owner.lineage:
        if any(base not in torch_api.MODULE_BASES and base not in _PLAIN for base in one.outside):
            return False
        if one.node.decorator_list or one.node.keywords or name in _bound_in(own_nodes(one.node)):
            return False
        if one.file is not owner.file and may_be_named(one.file.source, name):
            return False
    return all(owner not in one.lineage[1:] for one in analysis.file.all_classes)


def may_be_named(source: Source, name: str) -> bool:
    """May anything in a file give an object an attribute of that name?"""
    named = _named_in(source)
    return named is None or name in named


@remembered
def _named_in(source: Source) -> frozenset[str] | None:
    """The attributes that anything in a file stores, deletes, or names in a string; None: perhaps any."""
    found: set[str] = set()
    for node in source.walk():
        if isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            if node.attr == "__dict__":
                return None
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)
        elif isinstance(node, ast.Name):
            if node.id in _DYNAMIC:
                return None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name in _OWN_ATTRIBUTES:
                return None
    return frozenset(found)


# --- modules -----------------------------------------------------------------------------------


def is_plain(analysis: Analysis, value: Value) -> bool:
    """Is a module nothing but a torch.nn.Module, which has no `device`?"""
    if value.kind != MODULE or value.role == "named" or OWNED in (value.place.kind, value.role):
        return (
            False  # what is found by its name need not be a module, and what a framework wraps may have one
        )
    if value.role == "part":
        return True
    if isinstance(value.bound, Value) and isinstance(value.bound.ref, Class):
        return lacks(analysis, value.bound.ref, "device")
    made_by = value.links[0].name if value.links and value.links[0].kind == "make" else ""
    return made_by.startswith("torch.nn.") and not may_be_named(analysis.file.source, "device")
