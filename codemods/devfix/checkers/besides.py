"""All that the checkers find besides what the codemods themselves say."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from devfix.checkers import autocast, comparisons, expressions, host_reads, mismatches
from devfix.findings import Finding
from devfix.flow import Flow

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
            if spoken.isdisjoint(lines):
                told |= lines
                yield finding
        spoken |= told
