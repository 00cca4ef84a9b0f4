"""All that the checkers find besides what the codemods themselves say."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace

from devfix.checkers import (
    choices,
    expressions,
    forgotten,
    given_modules,
    handed_together,
    host_reads,
    indices,
    inputs,
    mismatches,
    refusals,
    siblings,
)
from devfix.checkers.literal_programs import is_right
from devfix.checkers.reach import is_left_alone, is_reached
from devfix.codemod import Codemod
from devfix.engine.analysis import Analysis
from devfix.findings import Finding, Safety
from devfix.flow import Flow
from devfix.text.source import FunctionNode, Source, remembered

CODEMODS = frozenset(mismatches.CODEMODS) | expressions.CODEMODS | choices.CODEMODS | siblings.CODEMODS
_CHECKERS = (
    mismatches, refusals, expressions, choices, siblings, forgotten, indices, given_modules, handed_together,
)  # fmt: skip
# What these say of a line is about how a device is written; what is left behind there is another bug.
_APART = ("hard-coded-cuda", "map-location")
# Nothing of these happens where nothing is moved.
_MOVED = ("place-factory", "register-buffer", "numpy-of-device", "lengths-on-cpu")


def besides(flow: Flow, wanted: Collection[str], known: Collection[Finding]) -> Iterator[Finding]:
    """The findings of the engine on lines of which no finding that is known speaks."""
    served = CODEMODS.intersection(wanted)
    if not served:
        return
    source, spoken = flow.source, set[int]()
    apart = {one: set[int]() for one in _APART}
    for finding in known:
        spoken_by = apart.get(finding.codemod, spoken)
        for span in (finding.span, *(one.span for one in finding.related if not one.path)):
            first, last = source.position(span.start)[0], source.position(max(span.start, span.end - 1))[0]
            spoken_by.update(range(first, min(last, first + 12) + 1))
    analysis = flow.facts()
    for checker in _CHECKERS:
        told = set[int]()
        for finding, lines in checker.found(analysis, served):
            by_itself = apart.get(finding.codemod, set[int]())
            if spoken.isdisjoint(lines) and by_itself.isdisjoint(lines):
                around = _function_at(finding.span.start, source)
                if finding.codemod == "hard-coded-cuda" and is_right(
                    flow, finding.span, around or source.tree
                ):
                    continue
                told |= lines
                fix = finding.fix
                if fix is not None and fix.safety is Safety.SAFE:
                    if not is_reached(flow, around):
                        message = f"{finding.message}. The fix assumes that this runs on an accelerator"
                        finding = replace(finding, message=message, fix=replace(fix, safety=Safety.UNSAFE))
                if not _is_idle(flow, finding, refused=checker is refusals):
                    yield finding
        spoken |= told
    for finding, lines in flow.project.told(_in_program):
        before = spoken | apart.get(finding.codemod, set())
        if finding.codemod in wanted and before.isdisjoint(lines):
            spoken |= lines
            yield finding


def _in_program(analysis: Analysis) -> list[tuple[Finding, set[int]]]:
    """What goes wrong in a file only as a program uses it, which passes what nobody sees there."""
    every = [*mismatches.CODEMODS, *host_reads.CODEMODS]
    source = analysis.file.source
    given = [(one, {source.position(one.span.start)[0]}) for one in inputs.findings(analysis)]
    return [*given, *mismatches.found(analysis, every), *host_reads.found(analysis, every)]


def said(codemod: Codemod, flow: Flow) -> Iterator[Finding]:
    """What a codemod itself says; with options of its own, of functions that nothing calls, too."""
    all_of_them = codemod != type(codemod)()
    for finding in codemod.check(flow):
        if all_of_them or not _is_idle(flow, finding):
            yield finding


def _is_idle(flow: Flow, finding: Finding, *, refused: bool = False) -> bool:
    """Is it in a class that nothing in view uses? Or has it no safe fix, where nothing is called, or nothing is moved?

    What torch refuses by its arguments (`refused`) has nothing to do with moves.
    """
    function = _function_at(finding.span.start, flow.source)
    owner = flow.source.enclosing(function, ast.ClassDef) if function is not None else None
    if isinstance(owner, ast.ClassDef) and flow.project.is_unused(owner.name):
        return True
    if finding.fix is not None and finding.fix.safety is Safety.SAFE:
        return False
    if finding.codemod in _MOVED and not refused and is_left_alone(flow, function):
        return True
    return function is not None and flow.project.is_uncalled(function.name)


def _function_at(offset: int, source: Source) -> FunctionNode | None:
    """The innermost function around a position of a file."""
    return _functions(source).get(source.position(offset)[0])


@remembered
def _functions(source: Source) -> dict[int, FunctionNode]:
    """Line -> the innermost function that it is in."""
    every: list[FunctionNode] = [*source.of_kind(ast.FunctionDef), *source.of_kind(ast.AsyncFunctionDef)]
    every.sort(key=lambda one: one.lineno)
    return {line: one for one in every for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
