"""Checks for a type of tensors that only those of the CPU have."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.signs import lives_on_devices
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_cpu_program
from devfix.engine.files import Function
from devfix.findings import Finding, ReplaceExpression, told
from devfix.models.loader import models
from devfix.text.names import path_of
from devfix.text.source import Source

CODEMOD = "device-comparison"
_CUDA = ".cuda."  # the types of CUDA are asked for as well


def findings(analysis: Analysis) -> Iterator[Finding]:
    """`isinstance(x, torch.LongTensor)`, `x.type() == "torch.LongTensor"`: not so for a tensor of an accelerator."""
    source, file = analysis.file.source, analysis.file
    if is_cpu_program(source, file.path):
        return
    for node, value, names, text in (*_instances(analysis), *_types(analysis)):
        function = file.of_node.get(source.scope(node))
        placed = isinstance(function, Function) and lives_on_devices(function, analysis)
        if not placed or _CUDA in source.code(_condition(source, node)) or _is_asked(source, node):
            continue
        if _is_read(source, node, f"{source.code(value)}.numpy("):
            continue
        types = " or ".join(f"`{one}`" for one in names)
        message = f"only a tensor on the CPU is a {types}, so this is never true of one on an accelerator"
        span = source.span(node)
        edits = (ReplaceExpression(span, text),) if path_of(value) else ()
        yield told(CODEMOD, span, message, "ask for the dtype", edits, assumes="the dtype is meant")


# The check, the value, the types, and what is right instead.
Check = tuple[ast.expr, ast.expr, list[str], str]


def _instances(analysis: Analysis) -> Iterator[Check]:
    source, file = analysis.file.source, analysis.file
    for call in source.calls_by_name.get("isinstance", ()):
        if not isinstance(call.func, ast.Name) or len(call.args) != 2:
            continue
        value, asked = call.args
        types = asked.elts if isinstance(asked, ast.Tuple) else [asked]
        names = [file.dotted(one) for one in types]
        if types and all(
            one in models().dtypes and isinstance(at, ast.Attribute)
            for one, at in zip(names, types, strict=True)
        ):
            base, path = source.code(types[0]).rpartition(".")[0], source.code(value)
            text = f"(isinstance({path}, {base}.Tensor) and {_has(path, base, names)})"
            yield call, value, [source.code(one) for one in types], text


def _types(analysis: Analysis) -> Iterator[Check]:
    source = analysis.file.source
    for node in source.of_kind(ast.Compare):
        call, other = node.left, node.comparators[0]
        name = other.value if isinstance(other, ast.Constant) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
            continue
        if (
            call.func.attr == "type"
            and isinstance(name, str)
            and isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        ):
            base = name.rpartition(".")[0]
            if name in models().dtypes and base in source.imports and len(node.ops) == 1:
                sign = "!=" if isinstance(node.ops[0], ast.NotEq) else "=="
                text = _has(source.code(call.func.value), base, [name], sign)
                yield node, call.func.value, [name], text


def _has(path: str, base: str, names: list[str], sign: str = "==") -> str:
    """Has a tensor the dtype of one of these types?"""
    dtypes = [f"{base}.{models().dtypes[one].rpartition('.')[2]}" for one in names]
    return (
        f"{path}.dtype {sign} {dtypes[0]}" if len(dtypes) == 1 else f"{path}.dtype in ({', '.join(dtypes)})"
    )


def _is_asked(source: Source, node: ast.AST) -> bool:
    """Does a check stand in an arm of `if x.is_cuda:`, or below it as an `elif`?"""
    return any(isinstance(up, ast.If) and ".is_cuda" in source.code(up.test) for up in source.ancestors(node))


def _is_read(source: Source, node: ast.AST, read: str) -> bool:
    """Does NumPy read the tensor where a check holds, which it can only do on the CPU?"""
    branch = source.parents.get(_condition(source, node))
    return isinstance(branch, ast.If) and any(read in source.code(one) for one in branch.body)


def _condition(source: Source, node: ast.AST) -> ast.AST:
    """The whole condition that a check is part of."""
    while isinstance(up := source.parents.get(node), (ast.BoolOp, ast.UnaryOp)):
        node = up
    return node
