"""Expressions read as text: what is at the bottom of a chain, and what a text parses to."""

from __future__ import annotations

import ast
import builtins
import re

from devfix.bindings import FunctionNode, function_around
from devfix.flow import Flow, torch_api
from devfix.flow.evidence import annotated_kind
from devfix.flow.frame import path_of
from devfix.flow.lattice import CARRIERS, Kind
from devfix.flow.methods import MOVES
from devfix.placing import stores
from devfix.source import Source, walk


def parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def resolves(source: Source, function: FunctionNode | ast.Module, expression: ast.AST) -> bool:
    """Is every name of an expression bound in a function, in one around it, or in the module?

    The device of a value may be written with the names of the function that has moved it.
    """
    names = {part.id for part in walk(expression) if isinstance(part, ast.Name)}
    return all(_is_bound(source, function, name) for name in names)


def _is_bound(source: Source, function: FunctionNode | ast.Module, name: str) -> bool:
    around: FunctionNode | ast.Module | None = function
    while isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if is_local(source, around, name):
            return True
        around = function_around(source, around)
    if name in source.imports or hasattr(builtins, name) or stores(source, source.tree, name):
        return True
    return any(one.name == name for one in source.definitions)


def is_local(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function bind a name itself?"""
    if any(isinstance(one, ast.arg) and one.arg == name for one in walk(function.args)):
        return True
    return bool(stores(source, function, name))


def root_of(flow: Flow, node: ast.expr) -> ast.expr | None:
    """The name at the bottom of a chain that stays on one device: `x` of `x[:, 0].view(-1)`."""
    while True:
        if isinstance(node, ast.Name):
            return node
        if isinstance(node, ast.Attribute):
            if path_of(node) and flow.value(node).kind in (Kind.TENSOR, Kind.ANY):
                base = flow.value(node.value)
                if base.kind not in CARRIERS:
                    return node
            node = node.value
        elif isinstance(node, ast.Subscript):
            if flow.value(node.value).kind is not Kind.TENSOR:
                return None
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in MOVES or node.func.attr == "type_as":
                return None
            kind = flow.value(node.func.value).kind
            known = kind in (Kind.TENSOR, Kind.ANY) or node.func.attr in torch_api.TENSOR_ONLY
            if flow.source.qualified(node.func) or not known:
                return None
            node = node.func.value
        elif isinstance(node, ast.UnaryOp):
            node = node.operand
        else:
            return None


def parameters(function: FunctionNode | ast.Module) -> frozenset[str]:
    """The parameters of a function, `self` left out."""
    if isinstance(function, ast.Module):
        return frozenset()
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return frozenset(argument.arg for argument in every) - {"self", "cls"}


def optional(function: FunctionNode | ast.Module) -> frozenset[str]:
    """The parameters whose default is None: they may have no device."""
    if isinstance(function, ast.Module):
        return frozenset()
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    return frozenset(a.arg for a, d in pairs if isinstance(d, ast.Constant) and d.value is None)


def annotated(function: FunctionNode | ast.Module) -> frozenset[str]:
    """The parameters that are declared to be tensors."""
    if isinstance(function, ast.Module):
        return frozenset()
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return frozenset(
        one.arg for one in every if one.annotation is not None and annotated_kind(one.annotation) == "tensor"
    )


def typed(function: FunctionNode | ast.Module) -> frozenset[str]:
    """The parameters that are declared to be no tensors."""
    if isinstance(function, ast.Module):
        return frozenset()
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return frozenset(
        argument.arg
        for argument in every
        if argument.annotation is not None
        and not re.search(r"Tensor|\bAny\b|Module|jaxtyping|\bT\w?\b", ast.unparse(argument.annotation))
    )
