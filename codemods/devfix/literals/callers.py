"""What is on CUDA by name in functions that others call, where some of these choose a device, or may."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import Safety
from devfix.flow import Flow
from devfix.literals.gates import SCRIPT
from devfix.literals.guards import Told, guard_of
from devfix.literals.sites import Site
from devfix.literals.verdict import Verdict
from devfix.literals.worth import top_of
from devfix.source import Source

_WHY = "goes to the current GPU wherever its caller's tensors are, and raises without CUDA; no device is in scope"
_CURRENT = "torch.cuda.current_device"


def of_callers(flow: Flow, left: list[Site]) -> Iterator[Verdict]:
    """What is said of the sites for which no device is known, and of the current GPU where it is asked for.

    A file of which no program in view is known is taken for a library, unless it reads a command line itself.
    """
    source, known = flow.source, dict[str, bool]()
    asked = [node for node in source.of_kind(ast.Call) if source.qualified(node.func) == _CURRENT]
    asked = [node for node in asked if not _under_a_condition(source, node)]
    for node in (*(site.node for site in left), *asked):
        top = top_of(source, node)
        if not top:
            continue
        if top not in known:
            chosen = flow.runs_chosen(top)
            known[top] = flow.needs_cuda() is not True and (
                not SCRIPT.search(source.text) if chosen is None else chosen
            )
        if known[top]:
            yield Verdict(source.span(node), source.code(node), "", _WHY, (), Safety.MANUAL)


def _under_a_condition(source: Source, node: ast.Call) -> bool:
    """Is it asked for on some ways through its function only, such as where there is CUDA, or a package for it?"""
    up = source.parents.get(node)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if isinstance(up, (ast.If, ast.IfExp, ast.BoolOp, ast.Try)):
            return True
        up = source.parents.get(up)
    return guard_of(source, Site(node, node, "cuda")).told is not Told.NOTHING
