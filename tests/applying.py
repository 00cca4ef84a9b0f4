"""Runs a codemod over a text without files: analyse, check, rewrite, until nothing is left to do."""

from __future__ import annotations

from devfix.checkers.besides import besides
from devfix.codemod import Codemod
from devfix.findings import Finding, Safety
from devfix.flow import analyse
from devfix.rewrite import apply, text_edits, verify
from devfix.text.source import Source


def findings(codemod: Codemod, text: str) -> list[Finding]:
    """What the codemod says, pre-filter included."""
    if not codemod.wants(text):
        return []
    flow = analyse(Source(text))
    known = list(codemod.check(flow))
    told = [*known, *besides(flow, {codemod.id}, known)]
    for one in told:
        unsafe = one.fix is not None and one.fix.safety is Safety.UNSAFE
        assert one.message.count(". The fix assumes that ") == unsafe, one  # and a safe one assumes nothing
        assert "``" not in one.message and not one.message.endswith("."), one
    return told


def fixed(codemod: Codemod, text: str, level: Safety = Safety.UNSAFE) -> str:
    """The text after every fix of at least that safety, one after the other; each is verified."""
    for _ in range(20):
        fixes = [f.fix for f in findings(codemod, text) if f.fix is not None and f.fix.safety >= level]
        if not fixes:
            return text
        edits = text_edits(Source(text), fixes[0])
        after = apply(text, edits)
        verify(text, edits, after)
        text = after
    raise AssertionError("the fixes come to no end")
