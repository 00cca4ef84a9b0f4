"""All that the checkers find besides what the codemods themselves say."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers import autocast, comparisons, expressions, host_reads, mismatches
from devfix.findings import Finding
from devfix.flow import Flow
from devfix.source import Source

CODEMODS = (
    frozenset(mismatches.CODEMODS)
    | host_reads.CODEMODS
    | expressions.CODEMODS
    | {comparisons.CODEMOD, autocast.CODEMOD}
)


def besides(flow: Flow, wanted: Collection[str], known: Collection[Finding]) -> Iterator[Finding]:
    """The findings of the engine on lines of which no finding that is known speaks."""
    served = CODEMODS.intersection(wanted)
    if not served:
        return
    source, spoken = flow.source, set[int]()
    for finding in known:
        for span in (finding.span, *(one.span for one in finding.related if not one.path)):
            first, last = source.position(span.start)[0], source.position(max(span.start, span.end - 1))[0]
            spoken.update(range(first, min(last, first + 12) + 1))
    analysis = flow.facts()
    for checker in (mismatches, host_reads, expressions, comparisons, autocast):
        told = set[int]()
        for finding, lines in checker.found(analysis, served):
            if spoken.isdisjoint(lines) and not _is_told_together(finding, known, source):
                told |= lines
                yield finding
        spoken |= told


def _is_told_together(finding: Finding, known: Collection[Finding], source: Source) -> bool:
    """Is a part that is attached too late told of with others of its function?"""
    if finding.codemod != "reorder-to":
        return False
    return any(
        one.codemod == finding.codemod
        and _function_at(one.span.start, source) is _function_at(finding.span.start, source)
        for one in known
    )


def _function_at(offset: int, source: Source) -> ast.AST | None:
    """The innermost function around a position of a file."""
    spans = [(source.span(node), node) for node in source.of_kind(ast.FunctionDef)]
    inside = [(span, node) for span, node in spans if span.start <= offset < span.end]
    return max(inside, key=lambda one: one[0].start)[1] if inside else None
