"""Inputs that are made up to run a model once: to trace it, to export it, to count what it does.

The model is a parameter of the function, or a part of a class that has a device: it is wherever it was moved,
and what is made up for it is on the CPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.factories.operations import torch_name
from devfix.factories.owners import FUNCTIONS, Function
from devfix.factories.said import Said
from devfix.factories.scopes import Scopes
from devfix.findings import Edit, InsertStatement, SetArgument
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.source import Source, walk

_MADE = frozenset(f"torch.{name}" for name in ("rand", "randn", "zeros", "ones", "empty", "full", "randint"))
# Run a model on an input, for what can be learnt from it.
_RUNS = re.compile(r"(?:^|\.)(?:jit\.trace|onnx\.export|profile|export\.export|FlopCountAnalysis)$")
# What a file has that such a call is in.
_SIGNS = re.compile(
    r"jit\.trace\(|onnx\.export\(|\bprofile\(|export\.export\(|FlopCountAnalysis\(|\w\.(?:parameters|eval)\(|\bself(?:\.forward)?\("
)
_INPUTS = frozenset({"inputs", "args", "example_inputs"})
# The function takes care of devices itself, or wants the CPU.
_CARES = re.compile(r"device|cuda|\bcpu\b|\.to\(|type_as|mps")
_OF_MODULES = re.compile(
    r"\.(?:parameters|named_parameters|modules|named_modules|eval|train|state_dict|children)\("
)
_TEST = re.compile(r"^_?tests?_|^main$|^example")


def probes(source: Source, scopes: Scopes) -> Iterator[Said]:
    """The made-up inputs of a file that stay on the CPU."""
    if not _SIGNS.search(source.text) or {"pytest", "unittest"} & set(source.imports):
        return
    for scope in scopes.makers:
        if not isinstance(scope, FUNCTIONS) or _TEST.search(scope.name):
            continue
        for call in (node for node in walk(scope) if isinstance(node, ast.Call)):
            found = _run(source, scopes, scope, call)
            if found is None:
                continue
            device, model, inputs = found
            for factory in (one for node in inputs for one in _made(source, scope, node)):
                name = torch_name(source.qualified(factory.func))
                edits: tuple[Edit, ...] = (SetArgument(source.span(factory), "device", device),)
                if scope.name == "__init__":  # what was made here has to be where the model is as well
                    edits += (
                        InsertStatement(source.span(source.statement(call)), f"self.to({device})", True),
                    )
                yield Said(
                    factory,
                    f"`{name}` makes an input on the CPU; `{model}` may be elsewhere",
                    f"make it on `{device}`",
                    edits,
                )


def _run(
    source: Source, scopes: Scopes, scope: Function, call: ast.Call
) -> tuple[str, str, list[ast.expr]] | None:
    """The device of the model that a call runs, the model, and what it is run on."""
    arguments = scope.args
    parameters = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    path = path_of(call.func)
    runs = _RUNS.search(source.qualified(call.func) or path) is not None
    if runs:
        if not call.args:
            return None
        model = _model(call.args[0])
        inputs = [*call.args[1:2], *(k.value for k in call.keywords if k.arg in _INPUTS)]
    else:
        model, inputs = path.removesuffix(".forward") or path, list(call.args)
    code, owner = source.code(scope), scopes.owner(scope)
    if owner is not None and owner.module and scope.name == "__init__" and path in ("self", "self.forward"):
        given = [name for name in sorted(parameters) if looks_like_module(name)]
        if len(given) == 1 and not _CARES.search(code):
            return f"next({given[0]}.parameters()).device", given[0], inputs
        return None
    if model in parameters and model not in ("self", "cls") and looks_like_module(model):
        proved = runs or re.search(rf"\b{model}{_OF_MODULES.pattern}", code) is not None
        if not proved or _CARES.search(code):
            return None
        return f"next({model}.parameters()).device", model, inputs
    if runs and owner is not None and owner.device and not _CARES.search(code):
        if model.startswith("self.") or _of_self(source, scope, model):
            return "self.device", model, inputs
    return None


def _model(node: ast.expr) -> str:
    """`model` of `deepcopy(model)` and `model.eval()`."""
    while isinstance(node, ast.Call):
        if path_of(node.func).rpartition(".")[2] in ("deepcopy", "copy") and node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("eval", "train", "float"):
            node = node.func.value
        else:
            return ""
    return path_of(node)


def _of_self(source: Source, scope: Function, name: str) -> bool:
    """Is a name that of a function here that works with what `self` has?"""
    return any(
        isinstance(node, FUNCTIONS) and node.name == name and "self." in source.code(node)
        for node in walk(scope)
    )


def _made(source: Source, scope: Function, node: ast.expr) -> Iterator[ast.Call]:
    """The factories behind an input, which is written there or has a name that is bound once."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for one in node.elts:
            yield from _made(source, scope, one)
    elif isinstance(node, ast.Name):
        bound = [
            one
            for one in walk(scope)
            if isinstance(one, ast.Assign) and any(path_of(target) == node.id for target in one.targets)
        ]
        if len(bound) == 1 and not isinstance(bound[0].value, ast.Name):
            yield from _made(source, scope, bound[0].value)
    elif isinstance(node, ast.Call) and torch_name(source.qualified(node.func)) in _MADE:
        told = {k.arg for k in node.keywords}
        sized = any(isinstance(one, ast.Starred) for one in node.args) or len(node.args) > 1
        if not told & {"device", "out", "generator", None} and (
            sized or (node.args and _several(node.args[0]))
        ):
            yield node


def _several(node: ast.expr) -> bool:
    """Is an argument the size of more than one dimension, as far as it is written?"""
    return not isinstance(node, ast.Constant) and (
        not isinstance(node, (ast.Tuple, ast.List)) or len(node.elts) > 1
    )
