"""Does a fix cure anything? What is on the current GPU in every run of the project is right as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cached_property

from devfix.bindings import function_around
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.literals.guards import Told, guard_of
from devfix.literals.partners import FunctionNode
from devfix.literals.sites import Site, sites_of
from devfix.literals.verdict import Cure, Verdict
from devfix.placing import around
from devfix.project.marks import CHOOSES, OTHER, marks_in
from devfix.source import Source

# A compiled extension as PyTorch had them before 1.0, when tensors had no `device`.
_OLD = re.compile(r"\btorch\.utils\.ffi\b|^[^\S\n]*(?:from|import)\s+[\w.]*\b_ext\b", re.MULTILINE)
_RAISING = frozenset(
    f"torch.cuda.{name}"
    for name in (
        "current_device",
        "get_device_name",
        "get_device_properties",
        "set_device",
        "synchronize",
        "Stream",
    )
)
_FORKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Worth:
    """What speaks against the fixes of one file: `mended` are the sites that they mend."""

    def __init__(self, flow: Flow, mended: Collection[ast.expr]) -> None:
        self.flow = flow
        self.source = flow.source
        self._mended = mended

    def of(self, verdict: Verdict, function: FunctionNode | ast.Module) -> bool:
        """Is there a run that fails as the code stands and goes with the fix, as far as the project shows?"""
        if self._old:
            return False
        # What asks for the other files of the project comes last.
        return (
            (Cure.OTHER in verdict.cure and self._other(function))
            or (Cure.ABSENT in verdict.cure and self._absent(verdict, function))
        ) and not self._unused(function)

    def _unused(self, function: FunctionNode | ast.Module) -> bool:
        """Is a function named nowhere but where it is defined, or one around it, or its class?"""
        found: ast.AST | None = function
        while found is not None and not isinstance(found, ast.Module):
            if isinstance(found, (*_FUNCTIONS, ast.ClassDef)) and self.flow.used(found.name) is False:
                return True
            found = self.source.parents.get(found)
        return False

    @cached_property
    def _old(self) -> bool:
        return _OLD.search(self.source.text) is not None

    @cached_property
    def _marks(self) -> set[str]:
        """What the file shows by itself."""
        return marks_in(self.source.text.encode("utf-8", "replace"), ())

    @cached_property
    def _only_current(self) -> bool:
        """Do other tensors of the file go to the current GPU? Then all do."""
        return any(
            guard_of(self.source, site).told is not Told.SAME
            for site in sites_of(self.source, self.source.tree)
            if site.node not in self._mended
        )

    def _other(self, function: FunctionNode | ast.Module) -> bool:
        """May values be on another GPU than the current one?"""
        if self._only_current or self._backward(function):
            return False
        known = self.flow.runs_elsewhere(top_of(self.source, function))
        return OTHER in self._marks if known is None else known

    def _backward(self, function: FunctionNode | ast.Module) -> bool:
        """Is it the `backward` of an autograd.Function? Autograd makes the gradient's GPU the current one for it."""
        owner = self.source.enclosing(function, ast.ClassDef)
        return (
            isinstance(owner, ast.ClassDef)
            and getattr(function, "name", "") in ("backward", "vjp")
            and any(
                (self.source.qualified(base) or "").endswith("autograd.Function")
                or path_of(base).endswith("autograd.Function")
                for base in owner.bases
            )
        )

    def _absent(self, verdict: Verdict, function: FunctionNode | ast.Module) -> bool:
        """Does the project run without CUDA, and this function with it?"""
        if self._needing(verdict, function):
            return False
        # A program that goes to CUDA in another place needs it all the same.
        known = self.flow.runs_without_cuda(top_of(self.source, function), itself=not self._bound)
        shown = CHOOSES in self._marks if known is None else known
        return shown and self.flow.needs_cuda() is not True

    def _needing(self, verdict: Verdict, function: FunctionNode | ast.Module) -> bool:
        """Do all functions of the file that call a function go to CUDA whatever happens, or itself does?"""
        if isinstance(function, ast.Module):
            return False
        owner = self.source.enclosing(function, ast.ClassDef)
        inside = list(self.source.walk(owner)) if owner is not None else [function]
        if any(one is not function and one in self._bound for one in inside) or self._goes_on(
            verdict, function
        ):
            return True
        callers = {
            function_around(self.source, node) for node in self.source.calls_by_name.get(function.name, ())
        }
        return bool(callers) and all(caller in self._bound for caller in callers)

    def _goes_on(self, verdict: Verdict, function: FunctionNode) -> bool:
        """Does a function go to CUDA in another place that it gets to whenever it gets to this one?"""
        here = {one for site in verdict.sites for one in around(self.source, site)}
        return any(
            all(one in here or not isinstance(one, _FORKS) for one in around(self.source, site)[1:])
            for site in self._bound.get(function, ())
        )

    @cached_property
    def _bound(self) -> dict[ast.AST | None, list[ast.expr]]:
        """The functions that go to CUDA under no condition of theirs, and where; None is the module."""
        found: dict[ast.AST | None, list[ast.expr]] = {}
        for site in (*sites_of(self.source, self.source.tree), *self._needs()):
            if site.node not in self._mended and guard_of(self.source, site).told is Told.NOTHING:
                found.setdefault(function_around(self.source, site.node), []).append(site.node)
        return found

    def _needs(self) -> Iterator[Site]:
        """`x.cuda(gpu)`, and calls that raise where there is no CUDA."""
        for node in self.source.walk():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = self.source.qualified(node.func)
                numbered = node.func.attr == "cuda" and not name and (node.args or node.keywords)
                if numbered or name in _RAISING:
                    yield Site(node, node, "cuda", node.func.value)


def top_of(source: Source, node: ast.AST) -> str:
    """The name of the function or class at the top of the file that a node is a part of; empty for none."""
    name = ""
    up: ast.AST | None = node
    while up is not None and not isinstance(up, ast.Module):
        if isinstance(up, (*_FUNCTIONS, ast.ClassDef)):
            name = up.name
        up = source.parents.get(up)
    return name
