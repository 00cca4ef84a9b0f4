"""Does a file show that a value may be elsewhere than on the current GPU?"""

from __future__ import annotations

import ast
import re

from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.guards import Guard
from devfix.literals.partners import FunctionNode, Partners
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
