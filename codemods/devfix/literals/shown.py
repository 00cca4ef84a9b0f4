"""Does a file show that a value may be elsewhere than on the current GPU?"""

from __future__ import annotations

import ast
import re

from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.chains import root_of
from devfix.literals.guards import Guard, implied
from devfix.literals.partners import FunctionNode, Partners
from devfix.literals.sites import Site, sites_of
from devfix.placing import around
from devfix.source import Source, walk

# What goes, or may go, to another GPU than the current one.
_OTHER_GPU = re.compile(
    r"[\"']cuda:(?!0)|\.cuda\([^)]|--device\b|\b(?:args|opts?)\.device\b|local_rank|set_device|device_ids|gpu_id"
)


def runs(flow: Flow, function: FunctionNode | ast.Module) -> bool:
    """Is a function a method of a class that is run, on what its user has put anywhere?"""
    owner = flow.source.enclosing(function, ast.ClassDef)
    return isinstance(owner, ast.ClassDef) and (
        any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in owner.body)
        or any(path_of(base).endswith("Module") for base in owner.bases)
    )


def of_a_value(flow: Flow, partners: Partners, guard: Guard) -> bool:
    """Is a condition about where a tensor or module is, and not about a choice made for all of them?"""
    if guard.node is None or isinstance(guard.node, ast.BoolOp):
        return False
    for node in walk(guard.node.test):
        if isinstance(node, ast.Attribute) and node.attr in ("is_cuda", "device"):
            path = path_of(node.value)
            if node.attr == "is_cuda" or not path or partners.shaped(path):
                return True
            if flow.value(node.value).kind in (Kind.TENSOR, Kind.MODULE, Kind.PART):
                return True
    return False


def current_only(source: Source, function: FunctionNode | ast.Module) -> bool:
    """Is it a helper of a script that goes to the current GPU throughout? What it is given is there, too."""
    if isinstance(source.enclosing(function, ast.ClassDef), ast.ClassDef):
        return False
    return "__main__" in source.text and not _OTHER_GPU.search(source.text)


def moved_above(flow: Flow, function: FunctionNode | ast.Module, guard: Guard) -> bool | None:
    """Has the function itself put the value of a SAME condition on the current GPU? None where a flag says.

    Above `if x.is_cuda: y = y.cuda()`, `x = x.cuda()` leaves nothing that could be elsewhere, also under
    `if x.is_cuda:` itself.
    """
    source = flow.source
    assert guard.node is not None
    name, start = _ROOT.sub("", guard.path).partition(".")[0], source.span(guard.node).start
    found: list[tuple[ast.stmt, bool]] = []  # the bindings above, and whether they are such a move
    sites = list(sites_of(source, function))
    for node in walk(function):
        if not isinstance(node, ast.stmt) or node is function or source.span(node).start >= start:
            continue
        if isinstance(node, ast.Expr):
            if any(
                site.node is node.value and path_of(site.receiver) == name for site in sites if site.receiver
            ):
                found.append((node, True))
            continue
        for target, value in _pairs(node):
            if path_of(target) != name:
                continue
            root = root_of(flow, value) if value is not None else None
            if value is not None and _moved(flow, value, sites):
                found.append((node, True))
            elif not isinstance(root, ast.Name) or root.id != name:
                found.append((node, False))
    found.sort(key=lambda one: source.span(one[0]).start)
    if not found or not found[-1][1]:
        return False
    return True if _whenever(source, found[-1][0], guard) else None


# `model` of `next(model.parameters())`
_ROOT = re.compile(r"^next\(|\.(?:parameters|buffers)\(\)\)$")


def _pairs(node: ast.stmt) -> list[tuple[ast.expr, ast.expr | None]]:
    """What a statement binds, with the values where they are in sight."""
    if isinstance(node, ast.Assign):
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                values = node.value.elts if isinstance(node.value, ast.Tuple) else []
                known = len(values) == len(target.elts)
                pairs += zip(target.elts, values if known else [None] * len(target.elts), strict=True)
            else:
                pairs.append((target, node.value))
        return pairs
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [(part, None) for part in walk(node.target) if isinstance(part, ast.expr)]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [(item.optional_vars, None) for item in node.items if item.optional_vars is not None]
    return []


def _moved(flow: Flow, value: ast.expr, sites: list[Site]) -> bool:
    return any(value is site.node or flow.value(value).place.node is site.node for site in sites)


def _whenever(source: Source, statement: ast.stmt, guard: Guard) -> bool:
    """Is a statement above a SAME condition run whenever that condition holds?"""
    assert guard.node is not None
    inside = set(around(source, guard.node))
    child: ast.stmt = statement
    for one in around(source, statement)[1:]:
        if one in inside:
            break
        if isinstance(one, ast.If):
            if child not in one.body or not implied(source, one.test, guard.path):
                return False
        elif not isinstance(one, (ast.With, ast.AsyncWith, ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        child = one
    return True
