"""One module of a program that owns its device, and the imports that take the place of literals."""

from __future__ import annotations

import ast
import os
from pathlib import PurePosixPath

from devfix.bindings import function_around
from devfix.documents import DocumentError, document_of, read_bytes
from devfix.findings import DeleteStatement, Edit, Elsewhere, EnsureImport, InsertStatement, Safety
from devfix.flow import Flow
from devfix.literals.extras import DECLARED, free_name, last_import
from devfix.literals.sites import Site, edits_for, names_cuda
from devfix.literals.verdict import Verdict
from devfix.source import Source

_ROOTS = ("src", "lib")  # folders that a path begins with and an import does not


def module_name(path: str) -> str:
    """How `pkg/device.py` is imported: `pkg.device`; empty where it cannot be."""
    pure = PurePosixPath(path.replace("\\", "/"))
    parts = [*pure.parts[:-1], pure.stem]
    if pure.suffix != ".py" or pure.is_absolute():
        return ""
    if parts[0] in _ROOTS and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else ""


def owned(flow: Flow, sites: list[Site], path: str, how: str) -> Verdict | None:
    """The literals of a file and its own devices give way to the `device` of the module at `path`.

    None if the file has neither, or is that module. Without edits where the module is there and has no
    `device`, no name is free, or a literal cannot be written otherwise.
    """
    source = flow.source
    there = _text(path)
    if there == source.text:
        return None
    constants = [one for one in source.tree.body if isinstance(one, ast.Assign) and _is_device(source, one)]
    if not sites and not constants:
        return None
    names = [one.targets[0].id for one in constants if isinstance(one.targets[0], ast.Name)]
    name, module, anchor = names[0] if names else free_name(source), module_name(path), last_import(source)
    edits: list[Edit] = []
    if name == "device":
        edits.append(EnsureImport(module, "device"))
    elif anchor is not None:
        edits.append(InsertStatement(source.span(anchor), f"from {module} import device as {name}"))
    edits += [DeleteStatement(source.span(one)) for one in constants]
    whole = len(names) < 2 and bool(name) and anchor is not None and (there is None or _has_device(there))
    for site in sites:
        found, _ = edits_for(source, site, name)
        whole = whole and bool(found)
        edits += found
    nodes: list[ast.expr] = [*(site.node for site in sites), *(one.value for one in constants)]
    first = min(nodes, key=lambda node: (node.lineno, node.col_offset))
    others = {1: "", 2: ", as does one other place"}.get(len(nodes), f", as do {len(nodes) - 1} other places")
    return Verdict(
        source.span(first),
        source.code(first),
        name,
        f"chooses a device of its own{others}, instead of the one that `{path}` chooses for the program",
        tuple(edits) if whole else (),
        Safety.UNSAFE,
        None,
        f"import the device of `{path}`",
        () if there is not None else (Elsewhere(path, new=_NEW.format(DECLARED[how])),),
    )


_NEW = '''\
"""The device that this program runs on."""

import torch

device = {}
'''


def _is_device(source: Source, statement: ast.Assign) -> bool:
    """`device = "cuda"`, or the usual choice between CUDA and the CPU, made once in the body of the module."""
    target, value = statement.targets[0], statement.value
    if (
        len(statement.targets) != 1
        or not isinstance(target, ast.Name)
        or target.id not in ("device", "DEVICE")
    ):
        return False
    if (
        isinstance(value, ast.Call)
        and source.qualified(value.func) == "torch.device"
        and len(value.args) == 1
    ):
        value = value.args[0]
    if isinstance(value, ast.IfExp):
        test = value.test
        asked = isinstance(test, ast.Call) and source.qualified(test.func) == "torch.cuda.is_available"
        if not asked or ast.unparse(value.orelse) != "'cpu'":
            return False
        value = value.body
    if not isinstance(value, ast.Constant) or not names_cuda(source, value, text=True):
        return False
    return not any(
        isinstance(node, ast.Name)
        and node.id == target.id
        and not isinstance(node.ctx, ast.Load)
        and node is not target
        and (function_around(source, node) is None or f"global {target.id}" in source.text)
        for node in source.walk()
    )


def _text(path: str) -> str | None:
    """What is in the module, None where it is not there yet."""
    try:
        return document_of(path, read_bytes(path)).text
    except DocumentError:
        return "" if os.path.lexists(path) else None


def _has_device(text: str) -> bool:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    bound = [target for one in body if isinstance(one, ast.Assign) for target in one.targets]
    bound += [one.target for one in body if isinstance(one, ast.AnnAssign)]
    return any(isinstance(target, ast.Name) and target.id == "device" for target in bound)
